// The GPU's kernels on the host: those of the items that gpu_check runs on a GPU which an emulator does in time. They
// are chosen by name, so that a new item changes nothing for the others:
//   build/release/tests/cuda/cuda_kernels_test --gtest_filter='*forward_gates_f32*'
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "cuda/emulated.h"
#include "cuda/items.h"

namespace polyhead::test::gpu {
namespace {

// Every option alone, in f32 and in both directions; the pairs of those that choose keys, rows or heads with all
// others, forwards over several tiles and backwards in one. Then what the tensor cores take, with more than a tile in
// every direction.
const std::vector<std::string> kChosen{
    // f32: one tile of uneven sizes, several tiles, and no more than one row.
    "forward/*_f32_7x13_5x33_top",
    "forward/*_f32_13x7_33x5_bottom",
    "forward/causal_and_*_f32_37x131_16x16_*",
    "forward/bias_hiding_and_*_f32_37x131_16x16_*",
    "forward/packed_and_*_f32_37x131_16x16_*",
    "backward/*_f32_13x7_4x3_bottom",
    "backward/causal_and_*_f32_7x13_5x6_*",
    "backward/window_first_and_*_f32_7x13_5x6_*",
    "backward/bias_full_and_*_f32_7x13_5x6_*",
    "backward/packed_and_*_f32_7x13_5x6_*",
    "backward/gqa_and_*_f32_7x13_5x6_*",
    "backward/*_and_gates_f32_7x13_5x6_*",
    "backward/*_and_softcap_f32_7x13_5x6_*",
    "backward/*_f32_1x1_4x4_top",
    // What has no pairs: shapes of masks, layouts, positions, nothing at all, hidden and closed NaN, large logits.
    "forward/keep_*_f32_17x67_16x16_bottom",
    "forward/bias_*_f32_17x67_16x16_*",
    "backward/keep_*_f32_5x7_4x4_bottom",
    "backward/bias_*_f32_5x7_4x4_*",
    "*/fused_2_*",
    "*/tokens_outside_2_f32*",
    "forward/many_at_once_f32_37x131_16x16_*",
    "backward/many_at_once_f32_37x131_16x16_*",
    "forward/*first_position*_f32_37x131_16x16*",
    "backward/*first_position*_f32_37x131_16x16*",
    "*/no_*_f32_*",
    "*/nan_*_f32_*",
    "*/closed_nan*",
    "forward/*_logits_*",
    "backward/*_logits_f32_*",
    "forward/chosen_weights*",
    "forward/*_f64_7x13_5x33_top",
    // 16 bits, small: rows that are no multiples of 16 bytes go to the kernels of f32.
    "forward/*_f16_7x13_5x33_top",
    "backward/*_bf16_11x19_8x8_top",
    // Tensor cores.
    "forward/large_plain_bf16_64x64",
    "forward/large_window_bf16_64x64",
    "forward/large_padded_bf16_64x64",
    "forward/large_packed_bf16_64x64",
    "forward/large_behind_f16_64x64",
    "forward/large_gates_bf16_64x64",
    "forward/large_closed_nan_bf16_64x64",
    "forward/large_dropout_bf16_64x64",
    "forward/large_sink_alibi_softcap_bf16_64x64",
    "forward/large_many_at_once_bf16_64x64",
    "forward/large_keep_bf16_64x64",
    "forward/large_bias_bf16_64x64",
    "forward/large_causal_bf16_64x64_described",
    "forward/large_causal_f16_192x128",
    "forward/large_few_bf16_128x128",
    "forward/large_few_padded_f16_64x64",
    "backward/large_causal_bf16_64x64",
    "backward/large_window_bf16_64x64",
    "backward/large_packed_f16_64x64",
    "backward_to_inputs/large_gates_bf16_64x64",
    "backward_to_inputs/large_padded_f16_192x128",
    "backward/large_bias_bf16_64x64",
    "forward/large_many_at_once_f32_64x64",
    "tf32/large_packed_f32_64x64",
    "tf32/large_sink_alibi_softcap_f32_72x40",
    "gradients/*_bf16_64",
    "gradients/*_f16_128",
    "gradients/*_f32_64",
    "gradients/*_f32_256",
    // The other kernels; those of f16 and bf16 are one source.
    "ops/*_f32",
    "ops/*_bf16",
    "ops/gemm*_f16",
    "values/*",
    "training/*",
    "models/gpt_bf16_stored",
    "models/llama_bf16_rounded",
    "models/gemma_f16_stored",
    "models/neox_f16_rounded",
    "models/classifier_bf16_stored",
    "models/heads_of_gpt",
    "models/heads_of_llama",
    "decoding/draws_of_1",
    "decoding/draws_of_40",
    "decoding/unusable_logits",
    "decoding/short_drawn",
    "drawn/forward_*",
    "drawn/backward_*",
};

constexpr int kDraws = 4;  // seeds

bool matches(const Item& item, const std::string& pattern) {
  return fnmatch(pattern.c_str(), item.name.c_str(), 0) == 0;
}

const std::vector<Item>& all_items() {
  static const std::vector<Item> all = [] {
    std::vector<Item> items;
    for (const auto& list : {attention_items(), gradient_items(), op_items(), value_items(), training_items(),
                             model_items(), decoding_items(), drawn_items(1, kDraws)}) {
      items.insert(items.end(), list.begin(), list.end());
    }
    return items;
  }();
  return all;
}

std::vector<Item> chosen() {
  std::vector<Item> items;
  for (const Item& item : all_items()) {
    const auto wants = [&](const std::string& pattern) { return matches(item, pattern); };
    if (std::any_of(kChosen.begin(), kChosen.end(), wants)) items.push_back(item);
  }
  return items;
}

std::string name_of_test(const ::testing::TestParamInfo<Item>& instance) {
  std::string name = instance.param.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class CudaKernels : public ::testing::TestWithParam<Item> {};

TEST_P(CudaKernels, FollowTheRule) {
  Context context = emulated_context();
  EXPECT_EQ(GetParam().run(context), "");
}

INSTANTIATE_TEST_SUITE_P(Items, CudaKernels, ::testing::ValuesIn(chosen()), name_of_test);

// A name that nothing has any more would silently test less.
TEST(CudaItems, AreAllThere) {
  for (const std::string& pattern : kChosen) {
    const auto wants = [&](const Item& item) { return matches(item, pattern); };
    EXPECT_TRUE(std::any_of(all_items().begin(), all_items().end(), wants)) << pattern;
  }
}

}  // namespace

void PrintTo(const Item& item, std::ostream* out) { *out << item.name; }

}  // namespace polyhead::test::gpu
