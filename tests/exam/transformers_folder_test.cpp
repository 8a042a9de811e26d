// Folders for transformers without some heads: what is left computes the same; tests/parity loads them there.
#include "exam/transformers_folder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heads/pruning.h"
#include "io/json.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/family.h"

namespace polyhead::exam {
namespace {

std::filesystem::path fixture(const std::string& family) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models" / family;
}

Tensor logits_of(const model::Transformer& model) {
  const std::vector<std::int32_t> tokens{1, 7, 3, 3, 5, 2, 9};
  Context context(1);
  autograd::Tape tape(context, false);
  return clone(context, tape.value(model.forward(tape, ConstTensorView(tokens.data(), {1, std::ssize(tokens)}))));
}

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::int64_t n = 0; n < count_of(a.shape()); ++n) ASSERT_NEAR(a.as<float>()[n], b.as<float>()[n], 1e-5);
}

// All heads of one key/value head of every layer: they leave, the rest is as it was. One head more of layer 0: zeros.
TEST(TransformersFolder, ComputesWhatIsLeft) {
  for (const std::string family : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"}) {
    SCOPED_TRACE(family);
    const auto whole = model::load(fixture(family));
    const model::LayerHeads heads = whole->config().layers[0];
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
      save_for_transformers(fixture(family), whole->config(), gone, scratch.folder());
      EXPECT_FALSE(model::is_own(scratch.folder()));
      const auto smaller = model::load(scratch.folder());
      EXPECT_EQ(smaller->config().layers[0].kv_heads, std::max<std::int64_t>(1, heads.kv_heads - (regular > 0)));
      EXPECT_EQ(smaller->config().layers[0].heads, smaller->config().layers[0].kv_heads * size);
      expect_close(logits_of(*smaller), logits_of(*heads::without_heads(*whole, gone)));
    }
  }
}

// A layer that lost all its heads keeps one group, of zeros.
TEST(TransformersFolder, LayersWithoutHeads) {
  const auto whole = model::load(fixture("llama"));
  const std::vector<HeadId> gone = model::all_heads(whole->config());
  const io::Scratch scratch;
  save_for_transformers(fixture("llama"), whole->config(), gone, scratch.folder());
  const auto smaller = model::load(scratch.folder());
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
  save_for_transformers(fixture("qwen2"), model::load(fixture("qwen2"))->config(), {{0, 0}}, to.folder());
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
  save_for_transformers(from.folder(), model::load(from.folder())->config(), {}, to.folder());
  for (const std::string& name : companions) EXPECT_EQ(io::slurp(to / name), "of " + name);
  EXPECT_FALSE(std::filesystem::exists(to / "notes.txt") || std::filesystem::exists(to / "tokenizer.gguf"));
}

TEST(TransformersFolder, RefusesWhereNoHeadCanLeave) {
  for (const char* family : {"llama", "qwen3", "gemma3"}) EXPECT_NO_THROW(expect_for_transformers(fixture(family)));
  for (const char* family : {"gpt2", "gpt_neox"}) {
    io::expect_error(ErrorCode::input, {family, "no head can leave"},
                     [&] { expect_for_transformers(fixture(family)); });
  }
  io::expect_error(ErrorCode::input, {"transformers loads folders"},
                   [] { expect_for_transformers(fixture("llama") / "llama.gguf"); });
  const io::Scratch own;
  model::save(*model::load(fixture("llama")), own.folder());
  io::expect_error(ErrorCode::input, {"polyhead's own"}, [&] { expect_for_transformers(own.folder()); });
}

}  // namespace
}  // namespace polyhead::exam
