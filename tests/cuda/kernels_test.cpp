// The GPU's kernels on the host: a sample of what gpu_check.cpp runs on a GPU.
#include <gtest/gtest.h>

#include "cuda/emulated.h"
#include "cuda/items.h"

namespace polyhead::test::gpu {
namespace {

void expect_all(const std::vector<Item>& items, std::size_t every) {
  Context context = emulated_context();
  for (std::size_t n = 0; n < items.size(); n += every) EXPECT_EQ(items[n].run(context), "") << items[n].name;
}

// Those whose names have a part in them, or have not.
std::vector<Item> chosen(std::vector<Item> all, const std::string& part, bool with) {
  std::vector<Item> items;
  for (Item& item : all) {
    if ((item.name.find(part) != std::string::npos) == with) items.push_back(std::move(item));
  }
  return items;
}
std::vector<Item> named(const std::string& part) { return chosen(attention_items(), part, true); }

TEST(CudaKernels, OpsFollowTheRule) { expect_all(chosen(op_items(), "_f16", false), 1); }
TEST(CudaKernels, OpsOfF16FollowTheRule) { expect_all(chosen(op_items(), "_f16", true), 7); }
TEST(CudaKernels, BadNumbersAreTold) { expect_all(value_items(), 1); }
TEST(CudaKernels, TrainingRoundsWhenTold) { expect_all(training_items(), 1); }
TEST(CudaKernels, ModelsRunIn16Bits) { expect_all(model_items(), 5); }
TEST(CudaKernels, AttentionFollowsTheRule) { expect_all(attention_items(), 251); }
// On tensor cores, with more than a tile in every direction.
TEST(CudaKernels, AttentionOfHalvesFollowsTheRule) { expect_all(named("_bf16_64x64"), 13); }
// Small cases of stages that the softcap and the bias tell apart.
TEST(CudaKernels, LogitsFollowTheRule) {
  for (const std::string part : {"softcap_f32_7x13", "softcap_f32_13x7", "bias_full_f32_7x13", "bias_full_f32_13x7"}) {
    const std::vector<Item> items = named("forward/" + part);
    ASSERT_FALSE(items.empty()) << part;
    expect_all(items, 1);
  }
}
// What the general instance has, on tensor cores.
TEST(CudaKernels, RarerOptionsFollowTheRule) {
  for (const std::string option : {"dropout", "sink_alibi_softcap", "softcap", "alibi", "keep", "bias"}) {
    const std::vector<Item> items = named("forward/large_" + option + "_bf16_64x64");
    ASSERT_FALSE(items.empty()) << option;
    expect_all(items, 2);
  }
}
TEST(CudaKernels, DecodingFollowsTheRule) {
  expect_all(named("forward/large_few_bf16_128x128"), 1);
  expect_all(named("forward/large_few_padded_f16_64x64"), 1);
}
TEST(CudaKernels, AttentionOfUnevenHeadsFollowsTheRule) { expect_all(named("_f16_192x128"), 23); }

}  // namespace
}  // namespace polyhead::test::gpu
