// A short run without libFuzzer, for every build: the corpus, then what a mutator makes of it for a second or two.
#include <gtest/gtest.h>

#include <chrono>

#include "fuzz/targets.h"
#include "io/scratch.h"
#include "support/mutator.h"

namespace polyhead::fuzz {
namespace {

class Fuzz : public ::testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ::testing::ValuesIn(targets()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(Fuzz, ReadsTheCorpus) {
  ASSERT_FALSE(GetParam().seeds.empty());
  for (const std::filesystem::path& seed : GetParam().seeds) EXPECT_NO_THROW(GetParam().read(io::slurp(seed))) << seed;
}

TEST_P(Fuzz, ReadsOrRefusesWhatComesOfIt) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kTime = std::chrono::milliseconds(1500);
  std::vector<std::string> seeds;
  for (const std::filesystem::path& seed : GetParam().seeds) seeds.push_back(io::slurp(seed));
  test::Mutator mutate;
  const Clock::time_point begin = Clock::now();
  // Every seed once, however long it takes, and more of them while there is time.
  for (std::size_t rounds = 0; rounds <= seeds.size() || Clock::now() - begin < kTime; ++rounds) {
    const std::string spoilt = mutate(seeds[rounds % seeds.size()]);
    ASSERT_NO_THROW(GetParam().read(spoilt)) << GetParam().seeds[rounds % seeds.size()] << ", round " << rounds;
  }
}

}  // namespace
}  // namespace polyhead::fuzz
