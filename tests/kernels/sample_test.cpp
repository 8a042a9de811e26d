// What draws are made with on a GPU: the order of logits as integers, and shares of a sum.
#include "kernels/sample.h"

#include <gtest/gtest.h>

#include <limits>

namespace polyhead::kernels {
namespace {

TEST(Sample, RanksAreInTheOrderOfLogits) {
  const float rising[] = {
      std::numeric_limits<float>::lowest(),     -2,   -1.5f, -std::numeric_limits<float>::denorm_min(), 0,
      std::numeric_limits<float>::denorm_min(), 1.5f, 2,     std::numeric_limits<float>::max()};
  for (std::size_t n = 1; n < std::size(rising); ++n) EXPECT_LT(rank_of(rising[n - 1]), rank_of(rising[n])) << n;
  EXPECT_EQ(rank_of(0.0f), rank_of(-0.0f));
}

TEST(Sample, SharesAreFromOneToAll) {
  EXPECT_EQ(share_of(10, 0), 1u);
  EXPECT_EQ(share_of(10, 0.35), 3u);
  EXPECT_EQ(share_of(10, 1), 10u);
  EXPECT_EQ(share_of(std::numeric_limits<std::uint64_t>::max() >> 1, 1),
            std::numeric_limits<std::uint64_t>::max() >> 1);
}

}  // namespace
}  // namespace polyhead::kernels
