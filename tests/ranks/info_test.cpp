// What polyhead says about the ranks that it was started on, and commands that do not share their work.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

TEST(Info, ShowsRanksAndTransport) {
  const Ran ran = shell(mpirun(3, "info --format json") + " 2>/dev/null");
  ASSERT_EQ(ran.code, 0) << ran.text;
  const nlohmann::json said = nlohmann::json::parse(ran.text);
  EXPECT_EQ(said["ranks"], 3);
  EXPECT_TRUE(contains(said["transport"], "MPI (")) << said["transport"];
  const nlohmann::json one = cli::json_of("info");
  EXPECT_EQ(one["ranks"], 1);
  EXPECT_FALSE(contains(one["transport"], "MPI (")) << one["transport"];
}

TEST(Info, ACommandThatSharesNothingIsRefusedOnce) {
  const Ran ran = said_by(mpirun(3, "count gpt2"));
  EXPECT_EQ(ran.code, 2) << ran.text;
  const std::string said = "polyhead count: expected one process, found 3 ranks";
  EXPECT_TRUE(contains(ran.text, said)) << ran.text;
  EXPECT_EQ(ran.text.find(said), ran.text.rfind(said)) << ran.text;
}

}  // namespace
}  // namespace polyhead::ranks
