// polyhead heads and prune, through the real command, on one small model that has learnt to repeat.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

using io::slurp;
using io::spill;
using nlohmann::json;

class Heads : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new io::Scratch;
    const Ran ran = errors_of("train repeat --norm layer --width 64 --heads 4 --rate 0.003 --batch 32 --context 24 " +
                              std::string("--steps 350 --seed 2 --out ") + at("run"));
    ASSERT_EQ(ran.code, 0) << ran.text;
  }
  static void TearDownTestSuite() {
    delete scratch_;
    scratch_ = nullptr;
  }

  static std::string at(const std::string& name) { return (*scratch_ / name).string(); }
  static void copy_run(const std::string& to) { std::filesystem::copy(*scratch_ / "run", *scratch_ / to); }
  static void expect_refused(int code, const std::string& arguments, const std::vector<std::string>& says) {
    const Ran ran = errors_of(arguments);
    EXPECT_EQ(ran.code, code) << arguments << '\n' << ran.text;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.text, part)) << part << " in: " << ran.text;
  }

  static io::Scratch* scratch_;
};
io::Scratch* Heads::scratch_ = nullptr;

json head_called(const json& report, const std::string& name) {
  for (const json& head : report["heads"]) {
    if (head["head"] == name) return head;
  }
  return {};
}

TEST_F(Heads, FindsTheHeadsThatTheTaskNeeds) {
  const json report = json_of("heads " + at("run"));
  EXPECT_EQ(report["command"], "heads");
  EXPECT_EQ(report["task"], "repeat");
  EXPECT_GT(report["accuracy"], 0.95);
  ASSERT_EQ(report["heads"].size(), 8u);
  EXPECT_EQ(head_called(report, "1.0")["role"], "induction");
  EXPECT_GT(head_called(report, "1.0")["role_score"], 0.7);
  EXPECT_LT(head_called(report, "1.0")["role_control"], 0.2);
  EXPECT_FALSE(contains(report["roles_untrained"], "induction")) << report["roles_untrained"];
  for (const char* key :
       {"role_note",       "role_threshold",   "entropy",     "normalised_entropy", "first_weight",     "self_weight",
        "previous_weight", "distance",         "max_weight",  "gradient",           "importance",       "damage_zero",
        "damage_zero_low", "damage_zero_high", "damage_mean", "damage_mean_low",    "damage_mean_high", "accuracy_loss",
        "logit",           "most_similar",     "agreement"}) {
    EXPECT_TRUE(report["heads"][0].contains(key)) << key;
  }
  for (const json& head : report["heads"]) {
    EXPECT_LE(head["damage_zero_low"], head["damage_zero"]);
    EXPECT_GE(head["damage_zero_high"], head["damage_zero"]);
    EXPECT_NE(head["most_similar"], head["head"]);
  }
  for (const json& role : report["roles"]) {
    if (role["role"] == "induction") {
      EXPECT_LT(role["untrained"], 0.2);
    }
  }
  EXPECT_LE(std::abs(report["rank_correlation_gradient_zero"].get<double>()), 1);
}

TEST_F(Heads, TheTableAndCsvHaveARowForEveryHead) {
  const std::string text = output_of("heads " + at("run") + " --samples 32 --all-roles").text;
  for (const char* part : {"\n0.0 ", "\n1.3 ", "induction", "Rank correlation", "Untrained model", "threshold"}) {
    EXPECT_TRUE(contains(text, part)) << part << " in: " << text;
  }
  EXPECT_FALSE(contains(text, "No room for: ")) << "a pipe has room for all";
  EXPECT_FALSE(contains(text, " -0.0")) << text;
  EXPECT_FALSE(contains(text, "docs/")) << "what is installed has no such folder";
  EXPECT_EQ(lines_of(output_of("heads " + at("run") + " --samples 32 --format csv").text).size(), 9u);
  EXPECT_GT(lines_of(output_of("heads " + at("run") + " --samples 32 --format csv --all-roles").text).size(), 50u);
}

TEST_F(Heads, ThreadsDoNotChangeTheResult) {
  const std::string line = "heads " + at("run") + " --samples 32 --format json --threads ";
  EXPECT_EQ(output_of(line + "1").text, output_of(line + "2").text);
}

TEST_F(Heads, LinksAreRolesOfTheirOwn) {
  std::string lines;  // the symbol after a repeated one is told by the one that followed the first time
  for (const char* tokens : {"BOS a b c d a b", "BOS e f g h i j k e f", "BOS m n o p q m n"}) {
    const std::int64_t query = static_cast<std::int64_t>(std::string(tokens).size()) / 2 - 1;
    lines += json{{"tokens", tokens}, {"query", query}, {"key", 2}, {"relation", "again"}}.dump() + "\n";
  }
  spill(at("links.jsonl"), lines);
  const json report = json_of("heads " + at("run") + " --samples 32 --links " + at("links.jsonl"));
  double best = 0;
  for (const json& role : report["roles"]) {
    if (role["role"] == "predicts again") best = std::max(best, role["score"].get<double>());
  }
  EXPECT_EQ(best, 1) << "an induction head, at the row before";
  spill(at("links.jsonl"), "{}");
  expect_refused(3, "heads " + at("run") + " --links " + at("links.jsonl"), {"links.jsonl:1"});
  expect_refused(4, "heads " + at("run") + " --links " + at("none.jsonl"), {"none.jsonl"});
}

TEST_F(Heads, PruneWritesTheModelThatItPrints) {
  const json pruned = json_of("prune " + at("run") + " --budget 5 --out " + at("small"));
  const json &before = pruned["models"][0], &after = pruned["models"][1];
  ASSERT_GT(pruned["heads_removed"], 0);
  EXPECT_EQ(after["heads"], 8 - pruned["heads_removed"].get<int>());
  EXPECT_EQ(pruned["survivors"].size(), after["heads"]);
  EXPECT_LT(after["parameters"], before["parameters"]);
  EXPECT_EQ(after["bytes"], std::filesystem::file_size(at("small") + "/model.safetensors"));
  EXPECT_EQ(before["bytes"], std::filesystem::file_size(at("run") + "/model.safetensors"));
  EXPECT_GT(after["seconds_batch_1"], 0);
  const json& last = pruned["steps"][pruned["heads_removed"].get<std::size_t>()];  // row 0 is the whole model
  EXPECT_EQ(last["within_budget"], "yes");
  EXPECT_GE(last["accuracy"], pruned["steps"][0]["accuracy"].get<double>() - 0.05);
  EXPECT_NE(before["loss"], pruned["steps"][0]["loss"]) << "reported on sequences that did not judge";

  const json heads = json_of("heads " + at("small"));
  EXPECT_EQ(heads["heads"].size(), after["heads"]);
  EXPECT_NEAR(heads["accuracy"], last["accuracy"].get<double>(), 1e-12) << "gates shut and heads gone are the same";
  EXPECT_NEAR(heads["loss"], last["loss"].get<double>(), 1e-4);
  const json again = json_of("prune " + at("small") + " --budget 100 --order damage --out " + at("none"));
  EXPECT_NEAR(again["models"][0]["accuracy"], after["accuracy"].get<double>(), 1e-12);
  EXPECT_EQ(again["models"][1]["heads"], 0) << "whole layers go";
  EXPECT_EQ(json_of("heads " + at("none"))["heads"].size(), 0u);
  EXPECT_EQ(output_of("generate " + at("small")).code, 0);
  expect_refused(3, "train --resume --out " + at("small"), {"was pruned"});
}

TEST_F(Heads, MeansAndFineTuningAreWrittenToo) {
  const json pruned = json_of("prune " + at("run") + " --budget 20 --mean --fine-tune 30 --out " + at("tuned"));
  EXPECT_LT(pruned["models"][1]["loss"], pruned["steps"][pruned["heads_removed"].get<std::size_t>()]["loss"]);
  const json again = json_of("prune " + at("tuned") + " --dry-run --samples 256");
  EXPECT_NEAR(again["models"][0]["loss"], pruned["models"][1]["loss"].get<double>(), 1e-9)
      << "what was said is written";
}

TEST_F(Heads, OrdersMeetAtNoHeads) {
  const json pruned = json_of("prune " + at("run") + " --dry-run --compare --samples 64");
  const json &orders = pruned["orders"], &end = orders[8];
  ASSERT_EQ(orders.size(), 9u);
  EXPECT_TRUE(pruned["out"].is_null());
  for (const char* key : {"one_shot", "damage", "random_low", "random_high"}) {
    EXPECT_EQ(orders[0][key], orders[0]["iterative"]);
    EXPECT_EQ(end[key], end["iterative"]);
  }
  EXPECT_LE(orders[4]["random_low"], orders[4]["random_high"]);
  EXPECT_FALSE(std::filesystem::exists(at("dry"))) << "a dry run writes nothing";
  EXPECT_EQ(errors_of("prune " + at("run") + " --dry-run --samples 16 --out " + at("dry")).code, 0);
  EXPECT_FALSE(std::filesystem::exists(at("dry")));
}

TEST_F(Heads, NothingIsOverwrittenWithoutForce) {
  std::filesystem::create_directory(at("mine"));
  spill(at("mine/notes.txt"), "mine");
  const std::string line = "prune " + at("run") + " --samples 16 --out " + at("mine");
  expect_refused(3, line, {"mine", "not empty"});
  EXPECT_FALSE(std::filesystem::exists(at("mine/config.json")));
  spill(at("mine/training.safetensors"), "of an older run");
  EXPECT_EQ(errors_of(line + " --force").code, 0);
  EXPECT_EQ(slurp(at("mine/notes.txt")), "mine");
  EXPECT_TRUE(std::filesystem::exists(at("mine/model.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(at("mine/training.safetensors"))) << "it is not of this model";
  const std::string before = slurp(at("run/model.safetensors"));
  expect_refused(2, "prune " + at("run") + " --force --out " + at("run"), {"the model itself"});
  EXPECT_EQ(slurp(at("run/model.safetensors")), before);
}

TEST_F(Heads, MistakesEndWithTheirCodes) {
  for (const std::string name : {"heads", "prune --dry-run"}) {
    expect_refused(2, name, {"no model given"});
    expect_refused(3, name + " " + at("nowhere"), {"nowhere", "expected a folder"});
    expect_refused(3, name + " " + scratch_->folder(), {"found no config.json"});
  }
  expect_refused(2, "heads " + at("run") + " --text x", {"--text", "the task"});
  expect_refused(2, "prune " + at("run"), {"--out"});
  expect_refused(2, "prune " + at("run") + " --order itertive --dry-run", {"did you mean 'iterative'?"});
  expect_refused(2, "heads " + at("run") + " --samples 1", {"--samples"});
  expect_refused(4, "prune " + at("run") + " --out /proc/nowhere", {"/proc/nowhere", "cannot make the folder"});
  expect_refused(3, "prune " + at("run") + " --out " + at("run/config.json"), {"found a file"});
}

TEST_F(Heads, DamagedModelsEndWith3) {
  copy_run("damaged");
  const std::string weights = slurp(at("run/model.safetensors")), config = slurp(at("run/config.json"));
  const auto refused = [&](const std::vector<std::string>& says) {
    for (const char* name : {"heads ", "prune --dry-run "}) expect_refused(3, name + at("damaged"), says);
  };
  spill(at("damaged/model.safetensors"), weights.substr(0, weights.size() / 2));
  refused({"model.safetensors"});
  spill(at("damaged/model.safetensors"), "no such thing");
  refused({"model.safetensors"});
  spill(at("damaged/model.safetensors"), weights);
  json other = json::parse(config);
  other["width"] = 32;
  spill(at("damaged/config.json"), other.dump());
  refused({"config.json"});
  spill(at("damaged/config.json"), "{");
  refused({"config.json"});
  spill(at("damaged/config.json"), config);
  json plan = json::parse(slurp(at("run/run.json")));
  plan["task"]["name"] = "copy";
  spill(at("damaged/run.json"), plan.dump());
  refused({"expected a model for the task copy"});
  std::filesystem::remove(at("damaged/run.json"));  // its tokenizer is left: a model that can be examined on a text
  for (const char* name : {"heads ", "prune --dry-run "}) {
    expect_refused(2, name + at("damaged"), {"no task", "name a text"});
  }
  std::filesystem::remove(at("damaged/tokenizer.json"));
  refused({"found no run.json"});
}

}  // namespace
}  // namespace polyhead::cli
