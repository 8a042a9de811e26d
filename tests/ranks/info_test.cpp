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

TEST(Info, ACommandThatSharesNothingIsRefused) {
  const Ran ran = said_by(mpirun(3, "count gpt2"));
  EXPECT_EQ(ran.code, 2) << ran.text;
  EXPECT_TRUE(contains(ran.text, "polyhead count: expected one process, found 3 ranks")) << ran.text;
  // Any rank says so, and ends badly.
  const Ran other = said_by("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 " + cli::command("count gpt2"));
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.text, "POLYHEAD_RANKS=off")) << other.text;
  const Ran alone = said_by(mpirun(2, "count gpt2 --format json").replace(0, 0, "POLYHEAD_RANKS=off "));
  EXPECT_EQ(alone.code, 0) << alone.text;
}

// What a shell or a job script starts is told that it is a rank, too.
TEST(Info, OneRankIsAProcessByItself) {
  allow_many_ranks();
  const std::string twice = cli::command("info") + " && " + cli::command("info --format json");
  const Ran ran = said_by("'" POLYHEAD_MPIRUN "' -n 1 sh -c \"" + twice + "\"");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_TRUE(contains(ran.text, "\"ranks\": 1")) << ran.text;
}

TEST(Info, TheLauncherOfAnotherMpiIsRefused) {
  const Ran ran = said_by("PMI_RANK=1 PMI_SIZE=2 " + cli::command("info"));
  EXPECT_EQ(ran.code, 5) << ran.text;
  EXPECT_TRUE(contains(ran.text, "expected rank 1 of 2 by the environment, found rank 0 of 1 by ")) << ran.text;
}

TEST(Info, RanksOfDifferentCommandsEnd) {
  const Ran ran =
      said_by(mpirun(1, "train copy --out /nowhere") + " : -n 1 " + cli::command("train --resume --out /nowhere"));
  EXPECT_EQ(ran.code, 3) << ran.text;
  EXPECT_TRUE(contains(ran.text, "rank 1 has another command: expected train as rank 0 has, found train --resume"))
      << ran.text;
}

}  // namespace
}  // namespace polyhead::ranks
