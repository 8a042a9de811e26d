// polyhead heads on ranks: they take heads out in turn, and the table is that of one process to the last digit.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ranks/mpirun.h"

namespace polyhead::ranks {
namespace {

class HeadsOnRanks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new io::Scratch;
    // 24 heads, each of them a job; 8 of a smaller model, which every order takes out one after the other; a
    // classifier.
    ASSERT_EQ(
        cli::output_of("train repeat --layers 3 --heads 8 --width 64 --context 40 --steps 20 --out " + at("run")).code,
        0);
    ASSERT_EQ(
        cli::output_of("train repeat --layers 2 --heads 4 --width 32 --context 40 --steps 20 --out " + at("eight"))
            .code,
        0);
    ASSERT_EQ(cli::output_of("train classify --layers 2 --heads 2 --width 16 --steps 20 --out " + at("classes")).code,
              0);
  }
  // Wide enough for a pass to take longer than asking for it.
  static void train_on_bytes() {
    std::string text;
    for (int n = 0; n < 400; ++n) text += "one two three " + std::to_string(n * n % 97) + " ";
    io::spill(at("text"), text);
    const std::string sizes = " --layers 4 --heads 8 --width 256 --context 64 --steps 1 --out ";
    ASSERT_EQ(cli::output_of("train text --file " + at("text") + sizes + at("bytes")).code, 0);
  }
  static void TearDownTestSuite() {
    delete scratch_;
    scratch_ = nullptr;
  }
  static std::string at(const std::string& name) { return (*scratch_ / name).string(); }

  static io::Scratch* scratch_;
};
io::Scratch* HeadsOnRanks::scratch_ = nullptr;

// All numbers as they are, nothing rounded.
TEST_F(HeadsOnRanks, HaveTheTableOfOneProcess) {
  const std::vector<std::string> lines{"heads " + at("run") + " --samples 40",
                                       "heads " + at("run") + " --no-means --samples 33",
                                       "heads " + at("classes") + " --no-gradient"};
  for (const std::string& line : lines) {
    const Ran one = cli::output_of(line + " --format json");
    ASSERT_EQ(one.code, 0);
    for (const int ranks : line == lines[0] ? std::vector{1, 2, 3, 4, 7} : std::vector{2, 7}) {
      SCOPED_TRACE(line + " on " + std::to_string(ranks));
      const Ran many = shell(mpirun(ranks, line + " --format json") + " 2>/dev/null");
      EXPECT_EQ(many.code, 0);
      EXPECT_EQ(many.text, one.text);
    }
  }
}

TEST_F(HeadsOnRanks, PatchAsOneProcessDoes) {
  train_on_bytes();
  const auto line = [](const std::string& corrupted) {
    const std::string more = " three one two three one two three one two three one two'";
    return "patch " + at("bytes") + " --clean 'one two" + more + " --corrupted '" + corrupted + more +
           " --answer a --instead b";
  };
  const Ran one = cli::output_of(line("six two") + " --format json");
  ASSERT_EQ(one.code, 0);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const Ran many = shell(mpirun(ranks, line("six two") + " --format json") + " 2>/dev/null");
    EXPECT_EQ(many.code, 0);
    EXPECT_EQ(many.text, one.text) << ranks;
  }
  const Ran differ = said_by(mpirun(2, line("six two")) + " : -n 1 " + cli::command(line("ten two")));
  EXPECT_EQ(differ.code, 3);
  EXPECT_TRUE(contains(differ.text, "rank 2 has another set of texts: ")) << differ.text;
  const Ran same = said_by(mpirun(3, line("one two")));  // fails on all of them
  EXPECT_EQ(same.code, 3);
  const std::string said = "there is nothing to restore";
  EXPECT_TRUE(contains(same.text, said)) << same.text;
  EXPECT_EQ(same.text.find(said), same.text.rfind(said)) << same.text;
}

// Steps and orders, and the model that is written.
TEST_F(HeadsOnRanks, PruneAsOneProcessDoes) {
  const auto found = [](const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.text;
    const nlohmann::json report = nlohmann::json::parse(ran.text);
    return report["steps"].dump() + report.value("orders", nlohmann::json()).dump();
  };
  const std::string line = "prune " + at("eight") + " --samples 60 --budget 0.1 --force --format json ";
  const std::string compare = line + "--dry-run --compare", damage = line + "--order damage --out ";
  EXPECT_EQ(found(shell(mpirun(3, compare) + " 2>/dev/null")), found(cli::output_of(compare)));
  const std::string one = found(cli::output_of(damage + at("small")));
  for (const int ranks : {2, 7}) {
    EXPECT_EQ(found(shell(mpirun(ranks, damage + at("smaller")) + " 2>/dev/null")), one) << ranks;
    EXPECT_TRUE(io::slurp(at("small") + "/model.safetensors") == io::slurp(at("smaller") + "/model.safetensors"));
  }
  const Ran differ = said_by(mpirun(1, damage + at("no")) + " : -n 1 " + cli::command(damage + at("no") + " --mean"));
  EXPECT_EQ(differ.code, 3);
  EXPECT_TRUE(contains(differ.text, "rank 1 has another set of options: ")) << differ.text;
}

TEST_F(HeadsOnRanks, TheOthersNeitherSpeakNorWrite) {
  const std::string line = "heads " + at("run") + " --samples 20 --html ";
  const Ran ran = said_by(mpirun(1, line + at("page.html")) + " : -n 2 " + cli::command(line + at("other.html")));
  EXPECT_EQ(ran.code, 0) << ran.text;
  const std::string said = "24 heads, 20 sequences";
  ASSERT_TRUE(contains(ran.text, said)) << ran.text;
  EXPECT_EQ(ran.text.find(said), ran.text.rfind(said)) << ran.text;
  EXPECT_TRUE(std::filesystem::exists(at("page.html")));
  EXPECT_FALSE(std::filesystem::exists(at("other.html")));
}

TEST_F(HeadsOnRanks, RefuseToStartIfTheyDiffer) {
  const auto beside = [&](const std::string& a, const std::string& b) {
    return said_by(mpirun(2, "heads " + a) + " : -n 1 " + cli::command("heads " + b));
  };
  const auto expect = [&](const Ran& ran, const std::string& words) {
    EXPECT_EQ(ran.code, 3) << ran.text;
    EXPECT_TRUE(contains(ran.text, "rank 2 has another " + words)) << ran.text;
    EXPECT_FALSE(contains(ran.text, "entropy")) << "a table: " << ran.text;
  };
  expect(beside(at("run"), at("classes")), "model: ");
  std::filesystem::copy(at("run"), at("other"));
  ASSERT_EQ(cli::output_of("train --resume --steps 21 --out " + at("other")).code, 0);
  expect(beside(at("run"), at("other")), "set of weights: ");
  expect(beside(at("run"), at("run") + " --seed 2"), "text, task or seed: ");
  expect(beside(at("run"), at("run") + " --no-means"), "set of options: ");
  expect(beside(at("run"), at("run") + " --precision f32"), "set of options: ");
}

}  // namespace
}  // namespace polyhead::ranks
