// What a newcomer, a bad disk and a closed terminal do to the command.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "cli/plant.h"
#include "cli/process.h"
#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

using io::slurp;
using io::spill;
using namespace std::chrono_literals;

class Robust : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  std::string tiny(const std::string& run, const std::string& more = "--steps 10") const {
    return "train copy --context 9 --layers 1 --width 8 --heads 2 --batch 4 --out " + at(run) + " " + more;
  }
  void make_run() const { ASSERT_EQ(errors_of(tiny("run")).code, 0); }
  static void expect_refused(int code, const std::string& arguments, const std::vector<std::string>& says) {
    const Ran ran = errors_of(arguments);
    EXPECT_EQ(ran.code, code) << arguments << '\n' << ran.text;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.text, part)) << part << " in: " << ran.text;
  }

  io::Scratch scratch_;
};

// Every bit of a header, and bits all over the data.
TEST_F(Robust, OneFlippedBitIsFound) {
  make_run();
  for (const auto& [name, arguments] : {std::pair{"training.safetensors", "train --resume --out " + at("run")},
                                        std::pair{"model.safetensors", "heads --samples 2 " + at("run")}}) {
    const std::string file = at("run/") + name, good = slurp(file);
    for (std::size_t bit = 3; bit < 8 * good.size(); bit += 8 * (bit < 8 * 1500 ? 97 : 1009) + 1) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      spill(file, bad);
      const Ran ran = errors_of(arguments);
      EXPECT_EQ(ran.code, 3) << name << ", bit " << bit << ": " << ran.text;
      EXPECT_TRUE(contains(ran.text, name)) << ran.text;
    }
    spill(file, good);
  }
  EXPECT_EQ(errors_of("heads --samples 2 " + at("run")).code, 0);
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(slurp(at("run/config.json")));
  config["dropout"] = 0.25;
  spill(at("run/config.json"), config.dump(2) + "\n");
  expect_refused(3, "heads " + at("run"), {"model.safetensors", "config.json"});
}

TEST_F(Robust, WeightsThatAreNoNumbersAreRefusedByName) {
  make_run();
  for (const auto& [number, text] : {std::pair{NAN, "nan"}, std::pair{-INFINITY, "-inf"}}) {
    plant(at("run/model.safetensors"), "output.weight", number);
    for (const std::string command : {"heads ", "prune --dry-run ", "generate "}) {
      expect_refused(3, command + at("run"), {"output.weight", text, " at [0,4]"});
    }
  }
}

// Finite, and so large that what is computed with them is not.
TEST_F(Robust, AModelThatOverflowsIsSaidAndNotWritten) {
  make_run();
  for (const char* name : {"output.weight", "final_norm.weight"}) {
    plant(at("run/model.safetensors"), name, 3e38f);
  }
  expect_refused(3, "heads " + at("run"), {"not finite"});
  expect_refused(3, "view --out " + at("page.html") + " " + at("run"), {"not finite"});
  EXPECT_FALSE(std::filesystem::exists(at("page.html")));
  expect_refused(3, "prune --budget 100 --out " + at("small") + " " + at("run"), {"not finite"});
  EXPECT_FALSE(std::filesystem::exists(at("small/model.safetensors")));
}

TEST_F(Robust, AStderrThatTakesNothingChangesNothing) {
  make_run();
  EXPECT_EQ(shell(command(tiny("closed")) + " 2>&- >/dev/null").code, 0);
  EXPECT_EQ(shell(command(tiny("full")) + " 2>/dev/full >/dev/null").code, 0);
  EXPECT_EQ(shell("(" + command(tiny("pipe")) + " >/dev/null; echo $? >" + at("code") + ") 2>&1 | true").code, 0);
  EXPECT_EQ(slurp(at("code")), "0\n");
  for (const std::string run : {"closed", "full", "pipe"}) {
    for (const char* name : {"/training.safetensors", "/config.json"}) {
      EXPECT_TRUE(slurp(at("run") + name) == slurp(at(run) + name)) << run << name;
    }
  }
  EXPECT_EQ(shell(command("train cpoy") + " 2>&-").code, 2);
  EXPECT_EQ(shell(command("heads " + at("none")) + " 2>/dev/full").code, 3);
  EXPECT_EQ(shell(command("count") + " >/dev/full 2>&1").code, 4);
  EXPECT_EQ(shell(command("count") + " >&- 2>/dev/null").code, 4);
  EXPECT_EQ(shell("(" + command("count") + " 2>" + at("errors") + ") | true").code, 0);
  EXPECT_EQ(slurp(at("errors")), "");
}

TEST_F(Robust, AClosedTerminalSavesAndEndsWith129) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string line = "exec " + command(tiny("run", "--steps 1000000 --save-every 1000000"));
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  while (lines_of(slurp(at("run/metrics.jsonl"))).size() < 3) std::this_thread::sleep_for(1ms);
  close(terminal);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "died of signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 129);
  EXPECT_TRUE(std::filesystem::exists(at("run/training.safetensors")));
}

double processor_seconds(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// The most that a command computes without a word to its terminal, in the first seconds of it. In seconds of its own
// processor, since whatever else the machine does meanwhile stretches the others.
double longest_silence(const std::string& arguments) {
  constexpr double kWatched = 3;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", ("exec " + command(arguments)).c_str(), nullptr);
    _exit(127);
  }
  double longest = 0, heard = 0;
  for (;;) {
    const double now = processor_seconds(child);
    if (now > kWatched) kill(child, SIGKILL);
    longest = std::max(longest, now - heard);
    pollfd there{terminal, POLLIN, 0};
    if (poll(&there, 1, 5) <= 0) continue;
    char some[4096];
    if (read(terminal, some, sizeof some) <= 0) break;  // it has ended
    heard = now;
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << arguments << ": expected more work";
  return longest;
}

// A thread of its own shows the time when nothing was shown for a second; the rest of the bound is for a busy machine,
// which may run that thread late.
TEST_F(Robust, SomethingIsShownEveryTwoSeconds) {
  std::string text;
  for (unsigned n = 0; n < 20'000; ++n) text += static_cast<char>('a' + n * n / 7 % 26);
  spill(at("text"), text);
  spill(at("some"), text.substr(0, 1500));
  ASSERT_EQ(errors_of("train text --context 1500 --batch 1 --steps 1 --layers 4 --width 64 --heads 8 --file " +
                      at("text") + " --out " + at("run"))
                .code,
            0);
  for (const std::string& line :
       std::vector<std::string>{"heads --no-damage ", "heads ", "prune --dry-run --order damage ",
                                "view --out " + at("page.html") + " --text " + at("some") + " "}) {
    EXPECT_LT(longest_silence(line + "--threads 1 " + at("run")), 2.5) << line;
  }
}

// What is known when Ctrl-C comes is printed, and the exit code is the signal's.
TEST_F(Robust, CtrlCPrintsWhatIsKnown) {
  std::string text;
  for (unsigned n = 0; n < 60'000; ++n) text += static_cast<char>('a' + n * n / 7 % 26);
  spill(at("text"), text);
  ASSERT_EQ(errors_of("train text --context 512 --batch 1 --steps 1 --layers 6 --width 256 --heads 8 --file " +
                      at("text") + " --out " + at("run"))
                .code,
            0);
  struct Case {
    std::vector<std::string> words;
    std::string begun, known;
  };
  for (const auto& [words, begun, known] : std::vector<Case>{
           {{"heads", at("run"), "--samples", "32", "--no-means"}, "damage ", " of 48 heads, those with the largest"},
           {{"prune", at("run"), "--samples", "16", "--dry-run", "--order", "random", "--budget", "100"},
            "random ",
            "heads that had gone by the order random"},
           {{"score", at("run"), "--text", at("text")}, "score ", "perplexity  bits per byte"},
           {{"bench", "--shape", "4,8,1024,64", "--shape", "8,8,2048,64"}, "bench ", "attend, f32"}}) {
    Process process(words, at("log"));
    while (!contains(slurp(at("log")), begun) && !process.ended()) std::this_thread::sleep_for(5ms);
    process.signal(SIGINT);
    EXPECT_EQ(process.wait(), 128 + SIGINT) << words[0] << ": " << slurp(at("log"));
    EXPECT_TRUE(contains(slurp(at("log")), known)) << slurp(at("log"));
    EXPECT_TRUE(contains(slurp(at("log")), "polyhead " + words[0] + ": stopped")) << slurp(at("log"));
  }
}

// The limit stands for a machine that has no more.
TEST_F(Robust, SizesAreHeldAgainstMemoryBeforeAnythingIsMade) {
  const auto starved = [&](const std::string& arguments) {
    return shell("ulimit -v 1000000; " + command(arguments) + " 2>&1 >/dev/null");
  };
  for (const std::string size :
       {"--context 1000000", "--batch 100000", "--width 100000", "--layers 1000 --width 4096"}) {
    const Ran ran = starved("train copy --out " + at("run") + " " + size);
    EXPECT_EQ(ran.code, 3) << size << ": " << ran.text;
    EXPECT_TRUE(contains(ran.text, "of memory, and ")) << ran.text;
    EXPECT_FALSE(std::filesystem::exists(at("run")));
  }
  EXPECT_EQ(starved(tiny("run")).code, 0);
  ASSERT_EQ(errors_of("train copy --context 2001 --width 256 --batch 1 --steps 1 --out " + at("long")).code, 0);
  for (const std::string line : {"heads ", "prune --dry-run ", "prune --dry-run --order random ", "compare . "}) {
    const Ran ran = shell("cd " + at("long") + " && ulimit -v 1000000; " + command(line + at("long")) + " 2>&1");
    EXPECT_EQ(ran.code, 3) << line << ran.text;
    EXPECT_TRUE(contains(ran.text, "of memory, and ")) << line << ran.text;
  }
  const Ran bench = starved("bench --shape 1,64,100000,64");
  EXPECT_EQ(bench.code, 3) << bench.text;
  EXPECT_TRUE(contains(bench.text, "of memory")) << bench.text;
}

// What is said to be needed is what is taken, within a third.
TEST_F(Robust, TheEstimateOfMemoryIsTrue) {
  for (const std::string size :
       {"--batch 192 --width 128", "--context 1001 --batch 16", "--width 768 --batch 2 --heads 8"}) {
    const std::string line = "train copy --steps 1 --threads 1 --out " + at("run") + " --force " + size;
    const std::string refusal = shell("ulimit -v 200000; " + command(line) + " 2>&1").text;
    const std::size_t about = refusal.find("about ");
    ASSERT_NE(about, refusal.npos) << refusal;
    const double said = std::stod(refusal.substr(about + 6));
    struct rusage usage {};
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", ("exec " + command(line) + " >/dev/null 2>&1").c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    ASSERT_EQ(wait4(child, &status, 0, &usage), child);
    ASSERT_EQ(WEXITSTATUS(status), 0);
    const double taken = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
    EXPECT_TRUE(contains(refusal, " MB of memory")) << refusal;
    EXPECT_GT(said, taken / 1.33) << size;
    EXPECT_LT(said, taken * 1.33) << size;
  }
}

TEST_F(Robust, LinksThatLeadNowhereAndFoldersThatCannotBeRead) {
  make_run();
  std::filesystem::create_symlink("nowhere", at("link"));
  for (const std::string command : {"heads ", "generate ", "prune --dry-run ", "train --resume --out "}) {
    expect_refused(4, command + at("link"), {"a link to nowhere, where nothing is"});
  }
  expect_refused(4, "train copy --out " + at("link"), {"a link to nowhere"});
  expect_refused(4, "prune " + at("run") + " --out " + at("link"), {"a link to nowhere"});
  expect_refused(4, "study --resume --out " + at("link"), {at("link") + ": a link to nowhere"});
  expect_refused(4, "heads " + at("run") + " --links " + at("link"), {at("link") + ": a link to nowhere"});
  expect_refused(4, "train text --out " + at("new") + " --file " + at("link"), {at("link") + ": a link to nowhere"});
  std::filesystem::create_symlink("loop", at("loop"));
  expect_refused(4, "heads " + at("loop"), {"loop: cannot look at it: Too many levels"});
  // As somebody whom permissions hold.
  std::filesystem::permissions(scratch_.folder(), std::filesystem::perms(0755));
  std::filesystem::permissions(at("run"), std::filesystem::perms::none);
  const std::string as = getuid() == 0 ? "setpriv --reuid 65534 --clear-groups " : "";
  for (const std::string line : {"heads ", "train --resume --out ", "train copy --out "}) {
    const Ran ran = shell(as + command(line + at("run")) + " 2>&1");
    EXPECT_EQ(ran.code, 4) << ran.text;
    EXPECT_TRUE(contains(ran.text, "Permission denied")) << ran.text;
  }
  std::filesystem::permissions(at("run"), std::filesystem::perms::owner_all);
  std::filesystem::permissions(scratch_.folder(), std::filesystem::perms(0555));
  if (getuid() == 0) std::filesystem::permissions(at("run"), std::filesystem::perms(0755));
  const Ran ran = shell(as + command("prune --out " + at("small") + " " + at("run")) + " 2>&1");
  EXPECT_EQ(ran.code, 4) << ran.text;
  std::filesystem::permissions(scratch_.folder(), std::filesystem::perms::owner_all);
}

TEST_F(Robust, RangesAreThoseOfTheOption) {
  expect_refused(2, tiny("run", "--rate 0"), {"--rate: expected a number above 0, at most 1000, found '0'"});
  expect_refused(2, tiny("run", "--dropout 1"), {"--dropout: expected a number from 0 and below 1, found '1'"});
  EXPECT_FALSE(std::filesystem::exists(at("run")));
}

TEST_F(Robust, PruneLooksAtItsFolderBeforeTheModel) {
  spill(at("file"), "");
  std::filesystem::create_directory(at("no-model"));
  expect_refused(3, "prune " + at("no-model") + " --out " + at("file"), {"found a file"});
}

}  // namespace
}  // namespace polyhead::cli
