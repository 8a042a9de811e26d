// Folders for transformers without some heads: what is left computes the same; tests/parity loads them there.
#include "model/transformers_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "heads/pruning.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/gguf_for_transformers.h"
#include "support/kept.h"
#include "support/rounded.h"
#include "text/chars.h"

namespace polyhead::model {
namespace {

std::filesystem::path fixture(const std::string& family) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models" / family;
}

Tensor logits_of(const Transformer& model) {
  const std::vector<std::int32_t> tokens{1, 7, 3, 3, 5, 2, 9};
  Context context(1);
  autograd::Tape tape(context, false);
  return clone(context, tape.value(model.forward(tape, ConstTensorView(tokens.data(), {1, std::ssize(tokens)}))));
}

std::string save_for_transformers(const std::filesystem::path& from, const Transformer& whole,
                                  const std::vector<HeadId>& gone, const std::filesystem::path& folder) {
  const TransformersFolder made = for_transformers(from, whole, gone);
  save(made, folder);
  return made.missing;
}

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::int64_t n = 0; n < count_of(a.shape()); ++n) ASSERT_NEAR(a.as<float>()[n], b.as<float>()[n], 1e-5);
}

// All heads of one key/value head of every layer: they leave, the rest is as it was. One head more of layer 0: zeros.
TEST(TransformersFolder, ComputesWhatIsLeft) {
  for (const std::string family : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"}) {
    SCOPED_TRACE(family);
    const auto whole = load(fixture(family));
    const LayerHeads heads = whole->config().layers[0];
    const std::int64_t size = heads.heads / heads.kv_heads;
    std::vector<HeadId> gone;
    for (std::size_t layer = 0; heads.kv_heads > 1 && layer < whole->config().layers.size(); ++layer) {
      const std::int64_t group = layer % 2 == 0 ? 0 : heads.kv_heads - 1;
      for (std::int64_t h = group * size; h < (group + 1) * size; ++h) gone.push_back({layer, h});
    }
    const std::size_t regular = gone.size();
    for (const bool more : {false, true}) {
      if (more) gone.push_back({0, heads.heads - 1});
      const io::Scratch scratch;
      save_for_transformers(fixture(family), *whole, gone, scratch.folder());
      EXPECT_FALSE(is_own(scratch.folder()));
      const auto smaller = load(scratch.folder());
      EXPECT_EQ(smaller->config().layers[0].kv_heads, std::max<std::int64_t>(1, heads.kv_heads - (regular > 0)));
      EXPECT_EQ(smaller->config().layers[0].heads, smaller->config().layers[0].kv_heads * size);
      expect_close(logits_of(*smaller), logits_of(*heads::without_heads(*whole, gone)));
    }
  }
}

// A single head of any group, also of one that others follow, in any layer: its group stays, its own rows and columns
// become zeros and nobody else's.
TEST(TransformersFolder, LosesAnyHeadOfAGroupThatStays) {
  for (const std::string family : {"llama", "qwen2"}) {
    const auto whole = load(fixture(family));
    const Tensor before = logits_of(*whole);
    for (const HeadId& one : all_heads(whole->config())) {
      SCOPED_TRACE(family + ", head " + std::to_string(one.layer) + "." + std::to_string(one.head));
      const io::Scratch scratch;
      save_for_transformers(fixture(family), *whole, {one}, scratch.folder());
      const auto smaller = load(scratch.folder());
      EXPECT_EQ(smaller->config().layers, whole->config().layers);
      const Tensor after = logits_of(*smaller);
      expect_close(after, logits_of(*heads::without_heads(*whole, {one})));
      float most = 0;
      for (std::int64_t n = 0; n < count_of(after.shape()); ++n) {
        most = std::max(most, std::abs(after.as<float>()[n] - before.as<float>()[n]));
      }
      EXPECT_GT(most, 1e-3f) << "else this shows nothing";
    }
  }
}

// Weights keep their type; their bytes are then others, biases' too.
TEST(TransformersFolder, KeepsTypesOf16Bits) {
  for (const std::string family : {"llama", "qwen2"}) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      SCOPED_TRACE(family + (dtype == DType::f16 ? ", f16" : ", bf16"));
      const io::Scratch from, to;
      test::save_rounded(fixture(family), dtype, false, from.folder());
      const auto whole = load(from.folder());
      const LayerHeads heads = whole->config().layers[0];
      std::vector<HeadId> gone{{1, heads.heads - 1}};  // its place is filled with zeros
      for (std::size_t layer = 0; layer < whole->config().layers.size(); ++layer) {
        for (std::int64_t h = 0; h < heads.heads / heads.kv_heads; ++h) gone.push_back({layer, h});
      }
      save_for_transformers(from.folder(), *whole, gone, to.folder());
      for (const auto& [name, tensor] : io::read_safetensors(to / "model.safetensors").tensors) {
        EXPECT_EQ(tensor.dtype(), dtype) << name;
      }
      expect_close(logits_of(*load(to.folder())), logits_of(*heads::without_heads(*whole, gone)));
    }
  }
}

// A layer that lost all its heads keeps one group, of zeros.
TEST(TransformersFolder, LayersWithoutHeads) {
  const auto whole = load(fixture("llama"));
  const std::vector<HeadId> gone = all_heads(whole->config());
  const io::Scratch scratch;
  save_for_transformers(fixture("llama"), *whole, gone, scratch.folder());
  const auto smaller = load(scratch.folder());
  EXPECT_EQ(smaller->config().layers[0].kv_heads, 1);
  expect_close(logits_of(*smaller), logits_of(*heads::without_heads(*whole, gone)));
}

// With fewer heads the width by their number is no longer the head dim: it is said where it was not.
TEST(TransformersFolder, SaysTheHeadDim) {
  const auto json_in = [](const std::filesystem::path& folder) {
    return io::parse_json(io::slurp(folder / "config.json"), "config.json");
  };
  ASSERT_FALSE(json_in(fixture("qwen2")).contains("head_dim"));
  const io::Scratch to;
  save_for_transformers(fixture("qwen2"), *load(fixture("qwen2")), {{0, 0}}, to.folder());
  EXPECT_EQ(json_in(to.folder())["head_dim"], 6);
}

// What a tokenizer and generation need comes along; what was pruned here before goes.
TEST(TransformersFolder, BringsItsCompanions) {
  const io::Scratch from, to;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(fixture("llama") / name, from / name);
  }
  const std::vector<std::string> companions{"tokenizer.json",
                                            "tokenizer_config.json",
                                            "tokenizer.model",
                                            "vocab.json",
                                            "merges.txt",
                                            "added_tokens.json",
                                            "chat_template.jinja",
                                            "special_tokens_map.json",
                                            "generation_config.json"};
  for (const std::string& name : companions) io::spill(from / name, "of " + name);
  io::spill(from / "notes.txt", "mine");
  io::spill(to / "tokenizer.gguf", "old");
  io::spill(to / ".polyhead-0123456789abcdef.tmp", "of a kill");
  save_for_transformers(from.folder(), *load(from.folder()), {}, to.folder());
  for (const std::string& name : companions) EXPECT_EQ(io::slurp(to / name), "of " + name);
  for (const char* name : {"notes.txt", "tokenizer.gguf", ".polyhead-0123456789abcdef.tmp"}) {
    EXPECT_FALSE(std::filesystem::exists(to / name)) << name;
  }
}

// What others would have saved of it is what we load, by the folder's config and names.
TEST(TransformersFolder, IsMadeOfAGgufFile) {
  const std::filesystem::path gguf = fixture("llama") / "llama.gguf";
  const auto whole = load(gguf);
  const std::vector<HeadId> gone{{0, 0}, {0, 1}, {1, 2}, {1, 3}, {1, 0}};  // a group of each layer, and one head more
  const io::Scratch scratch;
  EXPECT_EQ(save_for_transformers(gguf, *whole, gone, scratch.folder()),
            "the tokenizer was not written: its tokenizer is of the kind \"llama\", not \"gpt2\"");
  EXPECT_FALSE(is_own(scratch.folder()));
  const auto smaller = load(scratch.folder());
  Config expected = whole->config();
  for (LayerHeads& layer : expected.layers) layer = {2, 1};
  EXPECT_EQ(smaller->config(), expected);
  expect_close(logits_of(*smaller), logits_of(*heads::without_heads(*whole, gone)));
}

// By the names that others save the same model under, to the letter: we would read some that they would not.
TEST(TransformersFolder, NamesItsTensorsAsOthersDo) {
  const auto names_in = [](const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& [name, tensor] : io::read_safetensors(folder / "model.safetensors").tensors) names.insert(name);
    return names;
  };
  const std::filesystem::path gguf = fixture("llama") / "llama.gguf";
  const io::Scratch scratch;
  save_for_transformers(gguf, *load(gguf), {}, scratch.folder());
  ASSERT_TRUE(names_in(fixture("llama")).contains("lm_head.weight"));
  EXPECT_EQ(names_in(scratch.folder()), names_in(fixture("llama")));
}

// A byte-level tokenizer of GGUF: every byte, one merge, and tokens of each type.
io::Json metadata_of(const std::string& cut) {
  io::Json tokens = io::Json::array(), types = io::Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    text::append_utf8(letter, text::char_of_byte(static_cast<unsigned char>(byte)));
    tokens.push_back(letter);
    types.push_back(1);
  }
  for (const auto& [text, type] : {std::pair{"ab", 1}, {"<s>", 3}, {"<unk>", 2}, {"<user>", 4}, {"</s>", 3}}) {
    tokens.push_back(text);
    types.push_back(type);
  }
  return {{"tokenizer.ggml.model", "gpt2"},     {"tokenizer.ggml.pre", cut},
          {"tokenizer.ggml.tokens", tokens},    {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", {"a b"}},   {"tokenizer.ggml.add_bos_token", true},
          {"tokenizer.ggml.bos_token_id", 257}, {"tokenizer.ggml.add_eos_token", true},
          {"tokenizer.ggml.eos_token_id", 260}, {"tokenizer.chat_template", "{{ hello }}"}};
}

TEST(TokenizerFiles, SayWhatTheGgufSays) {
  const std::string text = "abc 1234 <s>ab<user>\n  é <unk>x";
  for (const char* cut : {"gpt-2", "smollm"}) {
    SCOPED_TRACE(cut);
    const io::Json metadata = metadata_of(cut);
    const TokenizerFiles made = tokenizer_files(metadata, "a.gguf");
    EXPECT_EQ(made.missing, "");
    ASSERT_EQ(made.files.size(), 3u);
    EXPECT_EQ(made.files[0].first, "tokenizer.json");
    const text::Tokenizer before = text::tokenizer_from_gguf(metadata, "a.gguf");
    const text::Tokenizer after = text::tokenizer_from_json(io::parse_json(made.files[0].second, "made"), "made");
    std::vector<text::Id> ids;
    const auto a = before.encode(text), b = after.encode(text);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t n = 0; n < a.size(); ++n) {
      EXPECT_EQ(a[n].id, b[n].id) << n;
      EXPECT_EQ(a[n].begin, b[n].begin) << n;
      EXPECT_EQ(a[n].end, b[n].end) << n;
      ids.push_back(a[n].id);
    }
    EXPECT_EQ(ids.front(), 257);
    EXPECT_EQ(ids.back(), 260);
    EXPECT_EQ(before.decode(ids), after.decode(ids)) << "without what is special";
    const io::Json config = io::parse_json(made.files[1].second, "made");
    EXPECT_EQ(config["bos_token"], "<s>");
    EXPECT_EQ(config["eos_token"], "</s>");
    EXPECT_FALSE(config.contains("pad_token"));
    EXPECT_EQ(made.files[2], (std::pair<std::string, std::string>{"chat_template.jinja", "{{ hello }}"}));
  }
}

// All of the files, but for the vocabulary and the merges, beside the file that holds them.
TEST(TokenizerFiles, AreTheseWords) {
  std::string text;
  for (const char* cut : {"gpt-2", "smollm"}) {
    io::Json metadata = metadata_of(cut);
    metadata["tokenizer.ggml.unknown_token_id"] = 258;
    if (cut == std::string("gpt-2")) metadata["tokenizer.ggml.padding_token_id"] = 259;
    for (const auto& [name, words] : tokenizer_files(metadata, "a.gguf").files) {
      text += name + "\n";
      if (!name.ends_with(".json")) {
        text += words + "\n";
        continue;
      }
      io::Json json = io::parse_json(words, name);
      if (json.contains("model")) {
        EXPECT_EQ(json["model"]["vocab"]["ab"], 256);
        EXPECT_EQ(json["model"]["vocab"].size(), 261u);
        json["model"].erase("vocab");
      }
      text += json.dump(1) + "\n";
    }
  }
  Config config = load(fixture("llama") / "llama.gguf")->config();
  config.rotary_scaling.factor = 4;
  for (const char* cut : {"gpt-2", "smollm"}) {
    io::Json metadata = metadata_of(cut);
    if (cut == std::string("gpt-2")) metadata["tokenizer.ggml.padding_token_id"] = 259;
    text += llama_config_json(config, metadata).dump(1) + "\n";
    config.rotary_scaling.factor = 1;
  }
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/model/tokenizer_files.txt", text);
}

TEST(TokenizerFiles, AreMissingForAReason) {
  const auto reason = [](const std::string& key, const io::Json& value) {
    io::Json metadata = metadata_of("gpt-2");
    metadata[key] = value;
    const TokenizerFiles made = tokenizer_files(metadata, "a.gguf");
    EXPECT_TRUE(made.files.empty());
    return made.missing;
  };
  EXPECT_NE(reason("tokenizer.ggml.model", "llama").find("of the kind \"llama\""), std::string::npos);
  EXPECT_NE(reason("tokenizer.ggml.pre", "qwen2").find("\"qwen2\""), std::string::npos);
}

TEST(TransformersFolder, RefusesWhereNoHeadCanLeave) {
  for (const char* family : {"llama", "qwen3", "gemma3"}) EXPECT_NO_THROW(expect_for_transformers(fixture(family)));
  for (const char* family : {"gpt2", "gpt_neox"}) {
    io::expect_error(ErrorCode::input, {family, "no head can leave"},
                     [&] { expect_for_transformers(fixture(family)); });
  }
  EXPECT_NO_THROW(expect_for_transformers(fixture("llama") / "llama.gguf"));
  io::expect_error(ErrorCode::input, {"qwen3.gguf", "of the architecture llama", "found \"qwen3\""},
                   [] { expect_for_transformers(fixture("qwen3") / "qwen3.gguf"); });
  const io::Scratch own;
  save(*load(fixture("llama")), own.folder());
  io::expect_error(ErrorCode::input, {"polyhead's own"}, [&] { expect_for_transformers(own.folder()); });
}

}  // namespace
}  // namespace polyhead::model
