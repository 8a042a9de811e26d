// polyhead plan on ranks: the first two find out how fast messages between them are, and rank 0 speaks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

TEST(PlanOnRanks, MeasuresMessages) {
  const std::string line = "plan gpt2 --ranks 4 --gflops 100 --gigabytes 10 --format json";
  const Ran ran = shell(mpirun(3, line) + " 2>/dev/null");
  ASSERT_EQ(ran.code, 0);
  const auto report = nlohmann::json::parse(ran.text);  // one document
  const std::string from = report["link_from"];
  EXPECT_TRUE(contains(from, "Measured between two ranks, by MPI (")) << from;
  EXPECT_GT(report["latency"], 0);
  EXPECT_NE(report["latency"], 5e-6);
  EXPECT_GT(report["bandwidth"], 1e6);
  const auto told = nlohmann::json::parse(shell(mpirun(2, line + " --latency 3")).text);
  EXPECT_EQ(told["latency"], 3 * 1e-6);
  EXPECT_NE(told["bandwidth"], 12.5e9);
}

TEST(PlanOnRanks, SaysOnceWhatIsWrong) {
  const Ran ran = said_by(mpirun(2, "plan gtp2"));
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(contains(ran.text, "did you mean 'gpt2'?")) << ran.text;
  EXPECT_EQ(ran.text.find("gtp2"), ran.text.rfind("gtp2")) << ran.text;
}

}  // namespace
}  // namespace polyhead::ranks
