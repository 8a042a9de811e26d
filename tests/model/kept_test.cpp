// What every family makes of its config, beside the file that holds it: of each setting, what changes where it is
// missing and where it is another; and which tensors make which parameters.
#include "support/kept.h"

#include <gtest/gtest.h>

#include "io/gguf.h"
#include "io/scratch.h"
#include "model/families.h"

namespace polyhead::model {
namespace kept {

std::filesystem::path fixtures() { return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures"; }

using Read = std::function<Config(const io::Json&)>;

io::Json flat(const Config& config) { return io::parse_json(to_json(config), "config").flatten(); }

// "width 12 -> 13, head_dim 6 -> 4", "error: …", or nothing.
std::string difference(const io::Json& before, const io::Json& json, const Read& read) {
  io::Json after;
  try {
    after = flat(read(json));
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
  std::string text;
  for (const auto& [key, value] : after.items()) {
    const io::Json old = before.contains(key) ? before[key] : io::Json();
    if (old != value) text += (text.empty() ? "" : ", ") + key + " " + old.dump() + " -> " + value.dump();
  }
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) text += (text.empty() ? "" : ", ") + key + " " + value.dump() + " -> none";
  }
  return text;
}

io::Json another(const io::Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_float()) return 1.5 * value.get<double>() + 0.25;
  if (value.is_number()) return value.get<std::int64_t>() + 1;
  return value.is_null() ? io::Json(2) : io::Json("other");
}

// Every setting in turn, those inside of others as well.
std::string settings_of(const io::Json& json, const Read& read) {
  const io::Json base = flat(read(json));
  std::string text;
  for (const auto& [key, value] : base.items()) text += "  " + key + " " + value.dump() + "\n";
  const io::Json places = json.flatten();
  for (const auto& [place, value] : places.items()) {
    if (place.find("tokenizer") != place.npos || place.find("architectures") != place.npos) continue;
    const io::Json::json_pointer pointer(place);
    io::Json changed = json, missing = json;
    changed[pointer] = another(value);
    if (missing[pointer.parent_pointer()].is_object()) missing[pointer.parent_pointer()].erase(pointer.back());
    for (const auto& [how, one] :
         {std::pair<std::string, const io::Json&>{" missing", missing}, {" = " + changed[pointer].dump(), changed}}) {
      const std::string found = difference(base, one, read);
      if (!found.empty()) text += "  " + place + how + ": " + found + "\n";
    }
  }
  return text;
}

std::string tables_of(const Family& family) {
  std::string text = "  named " + family.name + ", prefix '" + family.prefix + "'\n";
  for (const auto& [name, sources] : family.parameters) {
    text += "  " + name + ":";
    for (const Source& source : sources) {
      text += " " + source.name + (source.transposed ? " transposed" : "") +
              (source.interleaved ? " interleaved" : "") + (source.by_head ? " by head" : "") +
              (source.skip > 0 ? " from " + std::to_string(source.skip) : "") +
              (source.plus.empty() ? "" : " plus " + source.plus) + (source.plus_one ? " plus 1" : "");
    }
    text += "\n";
  }
  for (const std::string& ending : family.ignored) text += "  ignored " + ending + "\n";
  for (const auto& [from, to] : family.renamed) text += "  renamed " + from + " " + to + "\n";
  for (const std::string& beginning : family.beyond) text += "  beyond " + beginning + "\n";
  if (!family.rotary_factors.empty()) text += "  factors " + family.rotary_factors + "\n";
  return text;
}

TEST(KeptFamilies, ReadTheirConfigs) {
  std::string text;
  std::vector<FamilyTable> families(std::begin(kDecoders), std::end(kDecoders));
  families.insert(families.end(), std::begin(kEncoders), std::end(kEncoders));
  for (const FamilyTable table : families) {
    const Family family = table();
    const std::string folder = family.name == "gemma3_text" ? "gemma3" : family.name;
    const std::filesystem::path path = fixtures() / "models" / folder;
    const io::Json json = io::parse_json(io::slurp(path / "config.json"), "config.json");
    const std::set<std::string> tensors{"lm_head.weight", "output.weight", "more"};
    text += family.name + "\n" + tables_of(family) +
            settings_of(json, [&](const io::Json& one) { return family.read_config(one, "config.json", tensors); });
  }
  expect_kept(fixtures() / "model/families.txt", text);
}

// Our own config, each setting of which is checked.
TEST(KeptFamilies, ReadOurs) {
  Config config = make_config(Kind::gpt, 2, 12, 2);
  config.vocabulary = 7;
  config.context = 5;
  config.layers[1] = {2, 1, 3};
  config.positions = Positions::rotary;
  config.rotary_base = 500;
  config.rotary_scaling = {2, 1, 4, 8};
  config.attention_scale = 0.25;
  const io::Json json = io::parse_json(to_json(config), "config.json");
  const Read read = [](const io::Json& one) { return config_from_json(one.dump(), "config.json"); };
  std::string text = settings_of(json, read);
  const io::Json places = json.flatten(), base = flat(read(json));
  for (const auto& [place, value] : places.items()) {  // and none of its sizes may be 0 or below
    if (!value.is_number()) continue;
    for (const int number : {0, -1}) {
      io::Json one = json;
      one[io::Json::json_pointer(place)] = number;
      text += "  " + place + " = " + std::to_string(number) + ": " + difference(base, one, read) + "\n";
    }
  }
  expect_kept(fixtures() / "model/config.txt", text);
}

TEST(KeptFamilies, ReadGguf) {
  std::string text;
  for (const FamilyTable table : kGgufFamilies) {
    const Family family = table();
    const std::string from = family.name == "qwen2"     ? "qwen2_plain"
                             : family.name == "gptneox" ? "gpt_neox"
                                                        : family.name;
    const io::Json json = io::read_gguf_header(fixtures() / "models" / from / (from + ".gguf")).metadata;
    text += family.name + "\n" + tables_of(family);
    for (const std::set<std::string>& tensors : {std::set<std::string>{"a", "b", "c"}, {"a", "b", "output.weight"}}) {
      text += settings_of(json, [&](const io::Json& one) { return family.read_config(one, "file", tensors); });
    }
    io::Json words = json;  // where nothing else says how many there are
    words.erase(family.name + ".vocab_size");
    words["tokenizer.ggml.tokens"] = {"a", "b", "c"};
    text += "  of three tokens: vocabulary " +
            std::to_string(family.read_config(words, "file", {"a", "b"}).vocabulary) + "\n";
  }
  expect_kept(fixtures() / "model/gguf_families.txt", text);
}

}  // namespace kept
}  // namespace polyhead::model
