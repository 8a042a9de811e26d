// Ranks that die, and ranks that fail by themselves: the job ends, says which, and leaves nothing behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "cli/process.h"
#include "io/scratch.h"
#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using io::Scratch;
using io::slurp;

// The processes whose command line holds `word`, by rank; mpirun itself is not among them.
std::map<int, pid_t> ranks_with(const std::string& word) {
  std::map<int, pid_t> found;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const auto read = [&](const char* file) {
      std::ifstream in(entry.path() / file, std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    if (!contains(read("cmdline"), word) || !fs::equivalent(entry.path() / "exe", POLYHEAD_COMMAND, gone)) continue;
    const std::string environment = read("environ"), key = "OMPI_COMM_WORLD_RANK=";
    if (const std::size_t at = environment.find(key); at != environment.npos) {
      found[std::stoi(environment.substr(at + key.size()))] = std::stoi(name);
    }
  }
  return found;
}

bool soon(double seconds, const std::function<bool()>& true_now) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (!true_now()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Grouped by what happens to a run on three ranks that saves at every fifth step.
class Faults : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  void start(const std::vector<std::string>& more) {
    allow_many_ranks();
    // A file that may not grow is an error of write then, not a death.
    std::vector<std::string> words{"-n",
                                   std::to_string(kRanks),
                                   "env",
                                   "--ignore-signal=XFSZ",
                                   POLYHEAD_COMMAND,
                                   "train",
                                   "--save-every",
                                   "5",
                                   "--out",
                                   out()};
    words.insert(words.end(), more.begin(), more.end());
    job_.emplace(words, log(), 0, POLYHEAD_MPIRUN);
  }
  void start_anew(const std::string& steps) {
    start({"copy", "--dropout", "0.1", "--steps", steps});
    ASSERT_TRUE(soon(60, [&] { return fs::exists(state()); })) << slurp(log());
  }
  // Until another checkpoint is there.
  void expect_progress() {
    const fs::file_time_type before = fs::last_write_time(state());
    ASSERT_TRUE(soon(60, [&] { return fs::last_write_time(state()) != before; })) << slurp(log());
  }
  pid_t process_of(int rank) const { return ranks_with(out()).at(rank); }
  // Within 30 seconds, all of it; returns the exit code.
  int end() { return end(out()); }
  int end(const std::string& word) {
    const bool ended = soon(30, [&] { return job_->ended(); });
    EXPECT_TRUE(ended) << slurp(log());
    if (!ended) job_.reset();  // mpirun's death is theirs
    const int code = ended ? job_->wait() : -1;
    EXPECT_TRUE(soon(30, [&] { return ranks_with(word).empty(); })) << "processes are left";
    return code;
  }
  std::string out() const { return (scratch_ / "run").string(); }
  std::string state() const { return out() + "/training.safetensors"; }
  std::string log() const { return (scratch_ / "log").string(); }

  Scratch scratch_;
  std::optional<cli::Process> job_;
};

// One after the other, in one run, which then comes to the bits of one that nobody disturbed. POLYHEAD_SEED repeats the
// moments.
TEST_F(Faults, AnyRankMayBeKilled) {
  constexpr const char* kSteps = "400";
  const char* given = std::getenv("POLYHEAD_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  SCOPED_TRACE("POLYHEAD_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  start_anew(kSteps);
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    if (rank > 0) start({"--resume"});
    ASSERT_TRUE(soon(60, [&] { return ranks_with(out()).contains(rank); })) << slurp(log());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500'000));  // while it starts, trains or saves
    kill(process_of(rank), SIGKILL);
    EXPECT_NE(end(), 0);
    const std::string said = slurp(log());
    EXPECT_TRUE(contains(said, "rank " + std::to_string(rank) + " ") && contains(said, "signal 9")) << said;
  }
  start({"--resume"});
  expect_progress();
  kill(process_of(1), SIGSTOP);  // which delays the others and breaks nothing
  std::this_thread::sleep_for(std::chrono::seconds(10));
  EXPECT_FALSE(job_->ended()) << slurp(log());
  kill(process_of(1), SIGCONT);
  ASSERT_TRUE(soon(300, [&] { return job_->ended(); })) << slurp(log());
  EXPECT_EQ(job_->wait(), 0) << slurp(log());
  const std::string undisturbed = (scratch_ / "undisturbed").string();
  ASSERT_EQ(cli::output_of("train copy --dropout 0.1 --parts 16 --steps " + std::string(kSteps) + " --out '" +
                           undisturbed + "'")
                .code,
            0);
  EXPECT_TRUE(slurp(undisturbed + "/training.safetensors") == slurp(state()));
}

// Of one rank alone: of rank 0, which saves, so that all end and what was saved is whole; of another, which does not.
TEST_F(Faults, TheDiskOfOneRankMayBeFull) {
  start_anew("100000");
  const rlimit full{1000, 1000};
  ASSERT_EQ(prlimit(process_of(1), RLIMIT_FSIZE, &full, nullptr), 0);
  expect_progress();
  ASSERT_EQ(prlimit(process_of(0), RLIMIT_FSIZE, &full, nullptr), 0);
  EXPECT_EQ(end(), 4);
  const std::string said = slurp(log());
  EXPECT_TRUE(contains(said, "polyhead train: rank 0: ") && contains(said, "File too large")) << said;
  start({"--resume"});
  expect_progress();
  kill(process_of(0), SIGTERM);
  EXPECT_EQ(end(), 128 + SIGTERM);
}

// A rank that is told to stop stops all of them at the same step, and what they have is saved.
TEST_F(Faults, AnyRankMayBeToldToStop) {
  start_anew("100000");
  kill(process_of(1), SIGTERM);
  EXPECT_EQ(end(), 1);
  EXPECT_TRUE(contains(slurp(log()), "and saved; to continue: polyhead train --resume")) << slurp(log());
  start({"--resume"});
  expect_progress();
  kill(process_of(0), SIGTERM);
  EXPECT_EQ(end(), 128 + SIGTERM);
}

// A scan, which has nothing to save.
TEST_F(Faults, ARankThatTakesHeadsOutMayBeKilled) {
  const std::string model = (scratch_ / "model").string();
  ASSERT_EQ(cli::output_of("train repeat --steps 2 --layers 4 --width 64 --heads 8 --out '" + model + "'").code, 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    allow_many_ranks();
    job_.emplace(
        std::vector<std::string>{"-n", std::to_string(kRanks), POLYHEAD_COMMAND, "heads", "--samples", "9000", model},
        log(), 0, POLYHEAD_MPIRUN);
    const auto all_there = [&] { return ranks_with(model).size() == kRanks; };
    ASSERT_TRUE(soon(60, [&] { return all_there() && contains(slurp(log()), "9000 sequences"); })) << slurp(log());
    kill(ranks_with(model).at(rank), SIGKILL);
    EXPECT_NE(end(model), 0);
    EXPECT_TRUE(contains(slurp(log()), "rank " + std::to_string(rank) + " ")) << slurp(log());
  }
}

TEST_F(Faults, MpirunItselfMayBeKilled) {
  start_anew("100000");
  job_->signal(SIGKILL);
  EXPECT_EQ(end(), -SIGKILL);
}

// The folder is lost while they train: only rank 0 sees it.
TEST_F(Faults, ARankThatFailsByItselfEndsTheOthers) {
  start_anew("100000");
  std::error_code again;  // they write into it meanwhile
  while (!job_->ended() && fs::exists(out())) fs::remove_all(out(), again);
  EXPECT_EQ(end(), 4);
  EXPECT_TRUE(contains(slurp(log()), "polyhead train: rank 0: ")) << slurp(log());
}

}  // namespace
}  // namespace polyhead::ranks
