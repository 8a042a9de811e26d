// The losses of 100 steps of training beside torch's, from the same weights and batches; under sanitizers, of ten. See
// tools/torch-losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "polyhead/info.h"
#include "support/bits.h"
#include "support/npy.h"
#include "support/training_run.h"

namespace polyhead::test {
namespace {

constexpr TrainingSizes kSizes{.layers = 2, .width = 64, .heads = 4, .tokens = 64, .batch = 8};
constexpr int kSteps = 100, kTaken = kSanitized ? 10 : kSteps;

std::vector<double> torch_losses(const std::string& type) {
  const std::filesystem::path folder = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/torch_training";
  const Tensor losses = read_npy(folder / ("losses_" + type + ".npy"));
  EXPECT_EQ(losses.shape(), Dims{kSteps});
  return {losses.as<double>(), losses.as<double>() + kSteps};
}

std::vector<double> our_losses(DType dtype, int threads, int steps = kTaken, Precision precision = Precision::f32) {
  Context context(threads);
  context.set_precision(precision);
  return TrainingRun(context, kSizes, dtype).losses(steps);
}

// What torch in f32 loses against f64 is measured at its worst so far: at a single step its loss may happen to lie next
// to the exact one, but what the weights have once lost does not come back.
TEST(Parity, LossesInF32AreAsNearToF64AsTorchsAre) {
  const std::vector<double> exact = torch_losses("float64"), torch = torch_losses("float32");
  const std::vector<double> ours = our_losses(DType::f32, 2);
  double most = 0;
  for (std::size_t step = 0; step < kTaken; ++step) {
    most = std::max(most, std::abs(torch[step] - exact[step]));
    EXPECT_LE(std::abs(ours[step] - exact[step]), 3 * most) << "step " << step + 1;
  }
  EXPECT_LT(exact.back(), exact.front() - 0.5) << "nothing was learnt";
}

TEST(Parity, LossesInF64AreTorchs) {
  const std::vector<double> exact = torch_losses("float64"), ours = our_losses(DType::f64, 2);
  for (std::size_t step = 0; step < kTaken; ++step) EXPECT_NEAR(ours[step], exact[step], 1e-9) << "step " << step + 1;
}

TEST(Parity, LossesDoNotDependOnTheThreads) { EXPECT_EQ(our_losses(DType::f32, 1, 10), our_losses(DType::f32, 2, 10)); }

// Rounded to bf16, operands are off by up to 2^-9 each, and so are products and what is learnt from them; sums are not.
TEST(Parity, LossesInBf16StayNearThoseOfF32) {
  const std::vector<double> exact = our_losses(DType::f32, 2),
                            rounded = our_losses(DType::f32, 2, kTaken, Precision::bf16);
  EXPECT_EQ(rounded != exact, info().target == "AVX3_BF16");
  for (std::size_t step = 0; step < kTaken; ++step) {
    EXPECT_NEAR(rounded[step], exact[step], exact[step] / 256) << "step " << step + 1;
  }
  EXPECT_EQ(our_losses(DType::f32, 1, 10, Precision::bf16), our_losses(DType::f32, 3, 10, Precision::bf16));
}

}  // namespace
}  // namespace polyhead::test
