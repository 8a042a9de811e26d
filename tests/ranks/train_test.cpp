// polyhead train on ranks: the bits of one process, whatever their number; and what is refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/scratch.h"
#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

namespace fs = std::filesystem;
using io::Scratch;
using io::slurp;
using io::spill;

class TrainOnRanks : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  std::string to(const std::string& name) const { return " --out '" + at(name) + "'"; }
  // Weights, moments, steps, plan and model. Metrics have the time in them.
  void expect_same_bits(const std::string& a, const std::string& b) {
    for (const char* name : {"training.safetensors", "model.safetensors", "config.json", "run.json"}) {
      ASSERT_FALSE(slurp(at(a) + "/" + name).empty()) << name;
      EXPECT_TRUE(slurp(at(a) + "/" + name) == slurp(at(b) + "/" + name)) << name << " of " << a << " and " << b;
    }
  }
  void expect_refused(const std::string& line, int code, const std::vector<std::string>& words) {
    const Ran ran = said_by(line);
    EXPECT_EQ(ran.code, code) << ran.text;
    for (const std::string& word : words) {
      EXPECT_NE(ran.text.find(word), ran.text.npos) << "no \"" << word << "\" in " << ran.text;
      EXPECT_EQ(ran.text.find(word), ran.text.rfind(word)) << "twice: " << ran.text;
    }
    EXPECT_FALSE(fs::exists(at("refused")));
  }

  Scratch scratch_;
};

// Grouped heads and dropout; parts that neither the batch nor most numbers of ranks divide; sequences of many lengths,
// so that parts weigh differently.
TEST_F(TrainOnRanks, HasTheBitsOfOneProcess) {
  const std::vector<std::string> kinds{
      "train copy --heads 4 --kv-heads 2 --dropout 0.1 --steps 12 --save-every 5 --parts 16",
      "train dyck --dropout 0.2 --batch 13 --parts 7 --steps 8 --seed 3 --norm rms --positions rotary",
      "train classify --dropout 0.1 --batch 8 --parts 8 --steps 8 --no-feed-forward"};
  for (const std::string& kind : kinds) {
    SCOPED_TRACE(kind);
    ASSERT_EQ(cli::output_of(kind + to("one") + " --force").code, 0);
    for (const int ranks : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(ranks);
      const Ran ran = said_by(mpirun(ranks, kind + to("many") + " --force"));
      ASSERT_EQ(ran.code, 0) << ran.text;
      expect_same_bits("one", "many");
    }
  }
}

// Ranks that share every pass, alone and in groups that share the parts; more ranks than kv heads, and numbers of heads
// and columns that they do not divide.
TEST_F(TrainOnRanks, ShareHeadsToTheBitsOfOneProcess) {
  const std::vector<std::pair<std::string, std::vector<std::pair<int, std::string>>>> kinds{
      {"train copy --heads 6 --kv-heads 3 --width 42 --dropout 0.1 --steps 5 --batch 9 --save-every 2 --parts 3",
       {{1, "heads=1"}, {2, "heads=2"}, {3, "heads=3"}, {4, "data=2"}, {6, "data=3,heads=2"}, {7, "heads=7"}}},
      {"train dyck --dropout 0.2 --batch 6 --steps 4 --norm rms --positions rotary", {{2, "heads=2"}, {7, "heads=7"}}},
      {"train classify --dropout 0.1 --batch 8 --steps 4 --heads 3 --width 30 --no-bias", {{4, "heads=4"}}}};
  for (const auto& [kind, grids] : kinds) {
    ASSERT_EQ(cli::output_of(kind + to("one") + " --force").code, 0);
    for (const auto& [ranks, grid] : grids) {
      SCOPED_TRACE(kind + " --ranks " + grid);
      const Ran ran = said_by(mpirun(ranks, kind + to("many") + " --force --ranks " + grid));
      ASSERT_EQ(ran.code, 0) << ran.text;
      expect_same_bits("one", "many");
    }
  }
}

// Parts first, as far as there are any; the choice has no say in the bits.
TEST_F(TrainOnRanks, ChooseWhatTheyShare) {
  const std::vector<std::tuple<int, std::string, std::string>> choices{
      {4, "2", "data=2,heads=2"}, {4, "8", "data=4,heads=1"}, {3, "2", "data=1,heads=3"}};
  for (const auto& [ranks, batch, grid] : choices) {
    const std::string kind = "train copy --dropout 0.1 --steps 2 --batch " + batch;
    ASSERT_EQ(cli::output_of(kind + " --parts " + batch + to("one") + " --force").code, 0);
    const Ran ran = said_by(mpirun(ranks, kind + to("many") + " --force --ranks auto"));
    ASSERT_EQ(ran.code, 0) << ran.text;
    EXPECT_TRUE(contains(ran.text, "--ranks auto: " + grid + " (")) << ran.text;
    expect_same_bits("one", "many");
  }
  const Ran ran = said_by(mpirun(2, "train --resume --steps 3 --ranks auto" + to("many")));
  EXPECT_TRUE(contains(ran.text, "--ranks auto: data=2,heads=1 (")) << ran.text;
}

TEST_F(TrainOnRanks, GoOnWithOtherSharesOfAPass) {
  const std::string begin = "train copy --dropout 0.1 --kv-heads 2 --parts 4 --batch 8 --steps 3";
  ASSERT_EQ(cli::output_of(begin + to("one")).code, 0);
  ASSERT_EQ(said_by(mpirun(3, begin + to("many") + " --ranks heads=3")).code, 0);
  const std::vector<std::tuple<int, std::string, std::string>> rests{
      {4, "data=2,heads=2", "5"}, {0, "", "6"}, {2, "data=1,heads=2", "9"}};
  for (const auto& [ranks, grid, steps] : rests) {
    const std::string more = "train --resume --steps " + steps;
    ASSERT_EQ(cli::output_of(more + to("one")).code, 0);
    const Ran ran =
        ranks == 0 ? cli::output_of(more + to("many")) : said_by(mpirun(ranks, more + to("many") + " --ranks " + grid));
    ASSERT_EQ(ran.code, 0) << ran.text;
    expect_same_bits("one", "many");
  }
}

TEST_F(TrainOnRanks, GoesOnWithAnotherNumberOfRanks) {
  const std::string begin = "train copy --dropout 0.1 --parts 16 --steps 6";
  ASSERT_EQ(cli::output_of(begin + to("one")).code, 0);
  ASSERT_EQ(said_by(mpirun(3, begin + to("many"))).code, 0);
  for (const auto& [ranks, steps] : {std::pair(2, "9"), std::pair(0, "14"), std::pair(7, "20")}) {
    const std::string more = std::string("train --resume --steps ") + steps;
    ASSERT_EQ(cli::output_of(more + to("one")).code, 0);
    ASSERT_EQ(ranks == 0 ? cli::output_of(more + to("many")).code : said_by(mpirun(ranks, more + to("many"))).code, 0);
    expect_same_bits("one", "many");
  }
}

// Without --parts a run on ranks has sixteen, and one process does not divide its batch.
TEST_F(TrainOnRanks, HasSixteenPartsUnlessToldOtherwise) {
  ASSERT_EQ(said_by(mpirun(2, "train copy --steps 3" + to("many"))).code, 0);
  ASSERT_EQ(cli::output_of("train copy --steps 3 --parts 16" + to("one")).code, 0);
  ASSERT_EQ(cli::output_of("train copy --steps 3" + to("whole")).code, 0);
  expect_same_bits("one", "many");
  EXPECT_FALSE(contains(slurp(at("whole") + "/run.json"), "parts"));
  const Ran ran = said_by(mpirun(2, "train --resume --steps 4" + to("whole")));
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(contains(ran.text, "as many ranks as the batch has parts (1), found 2")) << ran.text;
}

TEST_F(TrainOnRanks, OnlyTheFirstRankSpeaks) {
  const Ran ran = shell(mpirun(3, "train copy --steps 3 --format json" + to("many")) + " 2>'" + at("said") + "'");
  ASSERT_EQ(ran.code, 0);
  EXPECT_EQ(nlohmann::json::parse(ran.text)["steps"], 3);  // one document
  const std::string said = slurp(at("said"));
  EXPECT_TRUE(contains(said, "3 steps, seed 1, on 3 ranks")) << said;
  EXPECT_EQ(said.find("on 3 ranks"), said.rfind("on 3 ranks")) << said;
}

TEST_F(TrainOnRanks, RefuseToStartIfTheyDiffer) {
  const std::string out = to("refused");
  const auto beside = [&](const std::string& a, const std::string& b) {
    return mpirun(2, a + out) + " : -n 1 " + cli::command(b + out);
  };
  expect_refused(beside("train copy --heads 4", "train copy --heads 2"), 3,
                 {"rank 2 has another model: expected \"head_dim\": 16, as rank 0 has, found \"head_dim\": 32,"});
  expect_refused(beside("train copy --rate 0.001", "train copy --rate 0.002"), 3,
                 {"rank 2 has another task or options"});
  expect_refused(beside("train copy --seed 1", "train copy --seed 2"), 3, {"rank 2 has another task or options"});
  expect_refused(beside("train copy --save-every 1", "train copy --save-every 2"), 3,
                 {"another number of steps between checkpoints: expected 1 as rank 0 has, found 2"});
  const std::string text(5000, 'a');
  spill(at("a.txt"), text);
  spill(at("b.txt"), text + "b");
  const auto reading = [&](const std::string& name) { return "train text --file '" + at(name) + "'"; };
  expect_refused(beside(reading("a.txt"), reading("b.txt")), 3, {"rank 2 has another text: expected 5000 bytes"});
  expect_refused(beside(reading("a.txt"), reading("c.txt")), 4, {"rank 2: ", "c.txt: cannot open it"});

  const std::string other = at("polyhead");
  fs::copy_file(POLYHEAD_COMMAND, other);
  spill(other, slurp(other) + "1");
  fs::permissions(other, fs::perms::owner_all);
  const std::string line = mpirun(1, "train copy" + out) + " : -n 1 '" + other + "' train copy" + out;
  expect_refused(line, 3, {"rank 1 has another binary: expected polyhead"});
  expect_refused(
      mpirun(1, "train copy" + out) + " : -n 1 env POLYHEAD_TARGET=SSSE3 " + cli::command("train copy" + out), 3,
      {"rank 1 has another set of vector instructions", "found SSSE3"});
}

TEST_F(TrainOnRanks, RefuseWhatTheyCannotShare) {
  expect_refused(mpirun(3, "train copy --parts 2" + to("refused")), 3,
                 {"as many ranks as the batch has parts (2), found 3"});
  expect_refused(mpirun(2, "train copy --batch 4 --parts 5" + to("refused")), 3, {"parts: expected from 1", "found 5"});
  const std::string grid = "train copy" + to("refused") + " --ranks ";
  expect_refused(mpirun(2, grid + "tails=2"), 2, {"--ranks: expected data=N, heads=N, both, or auto, found 'tails=2'"});
  expect_refused(mpirun(2, grid + "heads=0"), 2, {"--ranks: expected data=N, heads=N, both, or auto, found 'heads=0'"});
  expect_refused(mpirun(2, grid + "heads=2,heads=2"), 2, {"--ranks: heads is given twice"});
  expect_refused(mpirun(3, grid + "heads=2"), 2, {"--ranks: expected a multiple of 2 ranks for heads=2, found 3"});
  expect_refused(mpirun(4, grid + "data=3,heads=2"), 2, {"--ranks: expected 6 ranks for data=3,heads=2, found 4"});
  expect_refused(cli::command(grid + "heads=2") + " 2>&1", 2, {"for heads=2, found one process; start as many"});
  expect_refused(mpirun(2, grid + "heads=2") + " : -n 2 " + cli::command(grid + "data=4"), 3,
                 {"rank 2 has another number of ranks that share a pass: expected 2 as rank 0 has, found 1"});
  expect_refused(mpirun(2, "train copy --device cuda" + to("refused")), 2, {"ranks compute on CPUs"});
  expect_refused(mpirun(2, "train copy --stepz 3" + to("refused")), 2, {"unknown option '--stepz'"});
}

}  // namespace
}  // namespace polyhead::ranks
