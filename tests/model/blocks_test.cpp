// Models in GGUF's blocks: matrices stay as they are stored, and what a model computes has the bits of what it computes
// with the same numbers in f32.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/numbers.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/family.h"
#include "model/head.h"
#include "model/peak.h"
#include "model/sample.h"
#include "support/bits.h"
#include "support/fenced_device.h"
#include "support/quantised_model.h"

namespace polyhead::model {
namespace {

using test::QuantisedModel, test::same_bits;

std::unique_ptr<Transformer> widened_model(const std::filesystem::path& path) {
  auto model = load(path);
  for (autograd::Parameter* parameter : model->parameters()) parameter->value = widened(std::move(parameter->value));
  return model;
}

const std::vector<std::int32_t> kTenTokens = {1, 499, 30, 31, 32, 33, 7, 7, 250, 2};
ConstTensorView tokens_of(std::int64_t count) { return {kTenTokens.data(), {1, count}}; }

// The logits, and the gradients of all gates of the loss of going on as the tokens do.
struct Computed {
  Tensor logits;
  std::vector<Tensor> dgates;

  Computed(const Transformer& model, int threads, ops::Products products = ops::Products::exact) {
    Context context(threads);
    autograd::Tape reading(context, false);
    reading.pack_weights(products);
    logits = clone(context, reading.value(model.forward(reading, tokens_of(10))));
    autograd::Tape tape(context);
    tape.freeze_parameters();
    Gates gates(model.config());
    PassOptions options{.gates = gates.get(), .gate_gradients = true};
    cross_entropy(tape, model.forward(tape, tokens_of(9), options), ConstTensorView(kTenTokens.data() + 1, {1, 9}));
    tape.backward();
    for (std::size_t layer = 0; layer < model.config().layers.size(); ++layer) {
      dgates.push_back(clone(context, model.attention(tape, layer).gradients.dgates));
    }
  }
};

void expect_same(const QuantisedModel& quantised) {
  const io::Scratch scratch;
  quantised.write(scratch / "a.gguf");
  const auto model = load(scratch / "a.gguf"), wide = widened_model(scratch / "a.gguf");
  for (const autograd::Parameter* parameter : model->parameters()) {
    EXPECT_EQ(parameter->value.dtype(), may_be_half(*parameter) ? DType::blocks : DType::f32) << parameter->name;
  }
  const Computed expected(*wide, 1);
  EXPECT_LT(std::abs(expected.logits.as<float>()[0]), 1e6) << "NaN would be alike whatever was computed";
  EXPECT_NE(expected.logits.as<float>()[0], 0);
  for (const int threads : {1, 3}) {
    for (const ops::Products products : {ops::Products::exact, ops::Products::coarse}) {
      const Computed found(*model, threads, products);
      EXPECT_TRUE(same_bits("logits", expected.logits, found.logits));
      for (std::size_t layer = 0; layer < expected.dgates.size(); ++layer) {
        EXPECT_TRUE(same_bits("dgates", expected.dgates[layer], found.dgates[layer]));
      }
    }
  }
  Context context(2);
  const auto said = [&](const Transformer& speaker) {
    Generator generator(context, speaker, {{1, 2, 3}, {4}}, {.temperature = 0.8, .seed = 5});
    std::vector<std::int32_t> all;
    for (int n = 0; n < 20; ++n) {
      for (const std::int32_t token : generator.next()) all.push_back(token);
    }
    return all;
  };
  EXPECT_EQ(said(*model), said(*wide));
}

TEST(Blocks, ModelsComputeWhatTheirNumbersDo) {
  expect_same({});
  expect_same({.matrices = BlockType::q5_k, .tied = false});
  for (const BlockType type : {BlockType::q4_0, BlockType::q4_1, BlockType::q5_0, BlockType::q5_1, BlockType::q8_0}) {
    expect_same({.width = 96,
                 .heads = 3,
                 .kv_heads = 1,
                 .hidden = 160,
                 .tokens = type,
                 .matrices = type,
                 .values = BlockType::q8_0});
  }
}

// Rows of two types in one strip: head dims of 16 put 16 rows of k beside 16 of v.
TEST(Blocks, WhatCannotStayBecomesF32) {
  const io::Scratch scratch;
  const QuantisedModel quantised{
      .width = 96, .heads = 6, .kv_heads = 1, .hidden = 160, .matrices = BlockType::q4_0, .values = BlockType::q8_0};
  quantised.write(scratch / "a.gguf");
  const auto model = load(scratch / "a.gguf");
  EXPECT_EQ(model->attention_parameters(0).in_proj_weight->value.dtype(), DType::f32);
  EXPECT_EQ(model->attention_parameters(0).out_proj_weight->value.dtype(), DType::blocks);
  const Computed found(*model, 1), expected(*widened_model(scratch / "a.gguf"), 1);
  EXPECT_TRUE(same_bits("logits", expected.logits, found.logits));
}

TEST(Blocks, AreRefusedByNameWhereTheyCannotGo) {
  const io::Scratch scratch;
  QuantisedModel().write(scratch / "a.gguf");
  const auto model = load(scratch / "a.gguf");
  Context context(1);
  autograd::Tape tape(context);
  cross_entropy(tape, model->forward(tape, tokens_of(9)), ConstTensorView(kTenTokens.data() + 1, {1, 9}));
  io::expect_error(ErrorCode::unsupported, {"quantised blocks, which cannot be learnt", "f32, f16 or bf16"},
                   [&] { tape.backward(); });
  const ConstTensorView weight = model->parameters()[0]->value;
  io::expect_error(ErrorCode::dtype, {"expected f32, found blocks [500,256]"}, [&] {
    linear(context, Tensor::zeros({1, 500}, DType::f32), Tensor::zeros({3, 500}, DType::f32), weight);
  });
  io::expect_error(ErrorCode::dtype, {"quantised blocks of a GGUF file"}, [&] { clone(context, weight); });
  io::expect_error(ErrorCode::dtype, {"\"a\"", "found blocks"}, [&] {
    io::write_safetensors(scratch / "a.safetensors", {{"a", weight}});
  });
  Context device = test::fenced_context();
  const auto there = load(scratch / "a.gguf", device);
  for (const autograd::Parameter* parameter : there->parameters()) {
    EXPECT_EQ(parameter->value.dtype(), DType::f32);
  }
}

TEST(Blocks, AreSavedAsNumbers) {
  const io::Scratch scratch;
  QuantisedModel().write(scratch / "a.gguf");
  const auto model = load(scratch / "a.gguf");
  save(*model, scratch.folder());
  EXPECT_EQ(saved_bytes(*model), std::filesystem::file_size(scratch / kWeightsFile));
  std::filesystem::remove(scratch / "a.gguf");
  const Computed found(*load(scratch.folder()), 1), expected(*model, 1);
  EXPECT_TRUE(same_bits("logits", expected.logits, found.logits));
}

TEST(Blocks, ScalesThatAreNotFiniteAreRefused) {
  const io::Scratch scratch;
  QuantisedModel().write(scratch / "a.gguf");
  std::string bytes = io::slurp(scratch / "a.gguf");
  const auto weights = io::list_weights(scratch / "a.gguf");
  const io::StoredTensor& tokens = weights.tensors[0].tensor;
  ASSERT_EQ(tokens.format, "Q8_0");
  const std::uint64_t at = tokens.offset + 7 * tokens.bytes / 500 + 34;  // the second block of row 7
  bytes[at] = '\0', bytes[at + 1] = '\x7c';
  io::spill(scratch / "a.gguf", bytes);
  io::expect_error(ErrorCode::input, {"token_embd.weight", "expected finite numbers", "in row 7"},
                   [&] { load(scratch / "a.gguf"); });
}

double bytes_in_memory(const Transformer& model) {
  double bytes = 0;
  for (const autograd::Parameter* parameter : model.parameters())
    bytes += static_cast<double>(parameter->value.bytes());
  return bytes;
}

TEST(Blocks, TakeTheMemoryOfTheFile) {
  const io::Scratch scratch;
  const QuantisedModel large{
      .layers = 1, .width = 1024, .heads = 8, .hidden = 4096, .vocabulary = 60'000, .tokens = BlockType::q6_k};
  large.write(scratch / "a.gguf");
  const auto file = static_cast<double>(std::filesystem::file_size(scratch / "a.gguf"));
  ASSERT_GT(file, 50e6);
  const double in_memory = bytes_in_memory(*load(scratch / "a.gguf"));
  EXPECT_LE(in_memory, 1.01 * file);
  EXPECT_NEAR(loaded_bytes(io::list_weights(scratch / "a.gguf"), {.halves = true, .blocks = true}), in_memory,
              0.01 * file);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep books of their own
  // With passes of one token and of many: nothing is widened as a whole.
  const auto peak = test::peak_of([&] {
    Context context(2);
    const auto model = load(scratch / "a.gguf");
    Generator generator(context, *model, {std::vector<std::int32_t>(40, 3)}, {});
    for (int n = 0; n < 3; ++n) generator.next();
  });
  if (!peak) GTEST_SKIP() << "the peak cannot be reset";
  EXPECT_GT(*peak, 0.7 * file) << "else this shows nothing";
  EXPECT_LE(*peak, 1.15 * file);
#endif
}

// What the file says of epsilon and of the base of rotary positions; both may be left out.
TEST(Blocks, AreReadWithTheNumbersBesideThem) {
  const io::Scratch scratch;
  QuantisedModel plain{.layers = 1}, other{.layers = 1};
  other.numbers = {{"attention.layer_norm_rms_epsilon", 2e-3f}, {"rope.freq_base", 500}};
  plain.write(scratch / "plain.gguf");
  other.write(scratch / "other.gguf");
  const Config without = load(scratch / "plain.gguf")->config(), with = load(scratch / "other.gguf")->config();
  EXPECT_EQ(without.epsilon, 1e-5);
  EXPECT_EQ(without.rotary_base, 10000);
  EXPECT_EQ(with.epsilon, static_cast<double>(2e-3f));
  EXPECT_EQ(with.rotary_base, 500);
}

}  // namespace
}  // namespace polyhead::model
