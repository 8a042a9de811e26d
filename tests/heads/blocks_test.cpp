// Heads leave a model in GGUF's blocks: whole rows stay blocks, and so do whole blocks of W_O's columns.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/numbers.h"
#include "heads/pruning.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "support/bits.h"
#include "support/quantised_model.h"

namespace polyhead::heads {
namespace {

using test::QuantisedModel;

Tensor logits_of(const model::Transformer& model) {
  static const std::vector<std::int32_t> tokens = {1, 499, 30, 31, 32, 33, 7, 7, 250, 2};
  Context context(2);
  autograd::Tape tape(context, false);
  return clone(context, tape.value(model.forward(tape, ConstTensorView(tokens.data(), {1, std::ssize(tokens)}))));
}

// Two heads with their key/value head, one of two that share one, and a whole layer's.
void expect_same_without_heads(const QuantisedModel& quantised, DType output) {
  const io::Scratch scratch;
  quantised.write(scratch / "a.gguf");
  const auto model = model::load(scratch / "a.gguf"), wide = model::load(scratch / "a.gguf");
  for (autograd::Parameter* parameter : wide->parameters()) parameter->value = widened(std::move(parameter->value));
  const std::vector<HeadId> gone = {{0, 0}, {0, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}, {2, 3}};
  const auto smaller = without_heads(*model, gone), expected = without_heads(*wide, gone);
  for (const std::size_t layer : {0, 1}) {
    EXPECT_EQ(smaller->attention_parameters(layer).in_proj_weight->value.dtype(), DType::blocks);
    EXPECT_EQ(smaller->attention_parameters(layer).out_proj_weight->value.dtype(), output);
  }
  EXPECT_TRUE(test::same_bits("logits", logits_of(*expected), logits_of(*smaller)));
}

TEST(HeadsInBlocks, LeaveWhatTheirNumbersWouldLeave) {
  for (const BlockType type : {BlockType::q4_1, BlockType::q5_0, BlockType::q8_0}) {
    expect_same_without_heads({.layers = 3, .matrices = type, .values = BlockType::q5_1}, DType::blocks);
  }
}

// A head of 64 columns ends within a block of 256.
TEST(HeadsInBlocks, ThatAreNotWholeBlocksOfColumnsLeaveNumbers) {
  expect_same_without_heads({.layers = 3, .matrices = BlockType::q4_k, .values = BlockType::q6_k}, DType::f32);
}

}  // namespace
}  // namespace polyhead::heads
