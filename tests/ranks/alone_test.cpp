// The command as a build without MPI has it: it works by itself, and says why it takes no ranks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

constexpr const char* kReason = "no ranks in this build: CMake found no MPI";

std::string without_mpi(const std::string& arguments) { return "'" POLYHEAD_WITHOUT_MPI "' " + arguments; }

TEST(WithoutMpi, InfoSaysSo) {
  const Ran ran = shell(without_mpi("info --format json"));
  ASSERT_EQ(ran.code, 0) << ran.text;
  const nlohmann::json said = nlohmann::json::parse(ran.text);
  EXPECT_EQ(said["ranks"], 1);
  EXPECT_EQ(said["transport"], kReason);
}

TEST(WithoutMpi, TrainsWhatRanksTrain) {
  const io::Scratch scratch;
  const std::string line = "train copy --dropout 0.1 --steps 4 --parts 16 --out ";
  const Ran ran = said_by(without_mpi(line + (scratch / "alone").string()));
  ASSERT_EQ(ran.code, 0) << ran.text;
  ASSERT_EQ(said_by(mpirun(2, line + (scratch / "ranks").string())).code, 0);
  const std::string weights = io::slurp(scratch / "alone/training.safetensors");
  EXPECT_FALSE(weights.empty());
  EXPECT_TRUE(weights == io::slurp(scratch / "ranks/training.safetensors"));
}

// By whichever launcher; what it starts cannot know of the others, so each says it.
TEST(WithoutMpi, RanksAreRefused) {
  allow_many_ranks();
  for (const std::string start : {"'" POLYHEAD_MPIRUN "' -n 2 ", "PMI_RANK=1 PMI_SIZE=2 "}) {
    const Ran ran = said_by(start + without_mpi("train copy --out /nowhere"));
    EXPECT_EQ(ran.code, 5) << ran.text;
    EXPECT_TRUE(contains(ran.text, "polyhead train: expected one process, found 2 ranks, and " + std::string(kReason) +
                                       "; start it without mpirun or srun, or with POLYHEAD_RANKS=off"))
        << ran.text;
  }
  const Ran off = said_by("POLYHEAD_RANKS=off PMI_RANK=1 PMI_SIZE=2 " + without_mpi("count gpt2"));
  EXPECT_EQ(off.code, 0) << off.text;
}

}  // namespace
}  // namespace polyhead::ranks
