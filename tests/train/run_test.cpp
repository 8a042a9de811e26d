// Runs: whatever happens to one, going on with it comes to the bits of a run that nothing happened to.
#include "train/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "io/json.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "support/bits.h"
#include "train/samples.h"

namespace polyhead::train {
namespace {

namespace fs = std::filesystem;
using io::expect_error;
using io::Scratch;
using io::slurp;
using io::spill;

constexpr std::int64_t kSteps = 12;

// Small, and with dropout: every kind of randomness takes part.
Plan tiny(const std::string& task = "copy") {
  Plan plan = plan_for(task);
  plan.task.context = 9;
  plan.model = model::make_config(model::Kind::gpt, 2, 8, 2);
  plan.model.dropout = 0.1;
  plan.training = {.steps = kSteps, .batch = 4, .rate = 3e-3, .warmup = 3, .seed = 7};
  plan.save_every = 4;
  return plan;
}

bool always(const StepReport&) { return true; }

struct Crash {};

class Runs : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return scratch_ / name; }
  void finish(const Plan& plan, const std::string& name) {
    EXPECT_TRUE(Run::start(context_, plan, at(name), false)->go(always).finished);
  }
  // Dies after so many steps, like a killed process: without saving.
  void crash(const Plan& plan, const std::string& name, std::int64_t steps) {
    const auto run = Run::start(context_, plan, at(name), false);
    EXPECT_THROW(run->go([&](const StepReport& report) { return report.step < steps ? true : throw Crash(); }), Crash);
  }
  // Parameters, moments and the number of steps are all in these files.
  void expect_same_bits(const std::string& a, const std::string& b) {
    for (const char* name : {kStateFile, model::kWeightsFile, model::kConfigFile, kPlanFile}) {
      EXPECT_TRUE(slurp(at(a) / name) == slurp(at(b) / name)) << name << " of " << a << " and " << b;
    }
  }
  std::vector<io::Json> metrics(const std::string& name) {
    std::vector<io::Json> lines;
    std::istringstream in(slurp(at(name) / kMetricsFile));
    for (std::string line; std::getline(in, line);) lines.push_back(io::parse_json(line, "metrics"));
    return lines;
  }
  void resume(const std::string& name, const Changes& changes = {}) { Run::resume(context_, at(name), changes); }

  Scratch scratch_;
  Context context_{2};
};

TEST_F(Runs, StoppedAndResumedHasTheBitsOfAnUndisturbedOne) {
  finish(tiny(), "straight");
  {
    const auto run = Run::start(context_, tiny(), at("halves"), false);
    EXPECT_FALSE(run->go([](const StepReport& report) { return report.step < kSteps / 2; }).finished);
    EXPECT_EQ(run->steps_saved(), kSteps / 2);
  }
  Context other(1);
  EXPECT_TRUE(Run::resume(other, at("halves"))->go(always).finished);
  expect_same_bits("straight", "halves");
}

// A model that came without its run must not be trained over from the beginning.
TEST_F(Runs, AModelWithoutItsRunIsLeftAlone) {
  finish(tiny(), "run");
  std::filesystem::remove(at("run") / kStateFile);
  const std::string before = slurp(at("run") / model::kWeightsFile);
  EXPECT_THROW(resume("run"), Error);
  EXPECT_EQ(slurp(at("run") / model::kWeightsFile), before);
}

TEST_F(Runs, ACrashAfterAnyStepLosesOnlyTheStepsSinceTheCheckpoint) {
  finish(tiny(), "straight");
  for (std::int64_t steps = 1; steps <= kSteps; ++steps) {
    const std::string name = "crash" + std::to_string(steps);
    crash(tiny(), name, steps);
    const auto run = Run::resume(context_, at(name));
    EXPECT_EQ(run->steps_taken(), (steps - 1) / 4 * 4);
    run->go(always);
    expect_same_bits("straight", name);
    EXPECT_EQ(metrics(name).size(), metrics("straight").size()) << "steps taken twice are logged once";
  }
}

TEST_F(Runs, EveryTaskResumes) {
  spill(at("text.txt"), two_part_text(2000));
  for (const TaskSummary& task : task_list()) {
    Plan plan = tiny(task.name);
    plan.task.context = 0;
    if (task.name == "text") plan.file = at("text.txt");
    finish(plan, task.name);
    crash(plan, task.name + "-crashed", 6);
    Run::resume(context_, at(task.name + "-crashed"))->go(always);
    expect_same_bits(task.name, task.name + "-crashed");
  }
}

TEST_F(Runs, AKillBetweenStateAndModelIsMended) {
  finish(tiny(), "run");
  const std::string weights = slurp(at("run") / model::kWeightsFile);
  fs::remove(at("run") / model::kWeightsFile);
  Run::resume(context_, at("run"))->go(always);
  EXPECT_EQ(slurp(at("run") / model::kWeightsFile), weights);
}

TEST_F(Runs, MetricsBeyondTheCheckpointGo) {
  Plan plan = tiny();
  plan.training.steps = 40;
  plan.save_every = 15;
  crash(plan, "run", 25);
  const std::string lines = slurp(at("run") / kMetricsFile);
  EXPECT_EQ(metrics("run").size(), 4u) << "steps 1, 10, 20 and a validation";
  spill(at("run") / kMetricsFile, lines + "{\"step\":30,\"lo");
  resume("run");
  EXPECT_EQ(metrics("run").size(), 3u);
  EXPECT_EQ(metrics("run").back()["step"], 15);
  Run::resume(context_, at("run"))->go(always);
  std::vector<std::int64_t> steps;
  for (const io::Json& line : metrics("run")) steps.push_back(line["step"].get<std::int64_t>());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 10, 15, 20, 30, 30, 40, 40}));
}

TEST_F(Runs, LinesThatAreNoneOfOursDoNotStopIt) {
  finish(tiny(), "run");
  const std::string lines = slurp(at("run") / kMetricsFile);
  for (const char* bad : {R"({"step":3,"seconds":"late","loss":1})", R"({"step":3,"loss":[1]})", R"({"step":"3"})",
                          R"({"step":3,"loss":{}})", "3", "{", "\xff"}) {
    spill(at("run") / kMetricsFile, std::string(bad) + "\n" + lines);
    resume("run");
    EXPECT_EQ(slurp(at("run") / kMetricsFile), lines) << bad;
  }
  // A number that was none stands as null, and is ours.
  const std::string none = "{\"step\":3,\"seconds\":1,\"loss\":1,\"gradient_norm\":null}\n";
  spill(at("run") / kMetricsFile, none + lines);
  resume("run");
  EXPECT_EQ(slurp(at("run") / kMetricsFile), none + lines);
  // Longer than any line, and than what is read at a time.
  spill(at("run") / kMetricsFile, std::string(300'000, 'x') + "\n" + lines + std::string(70'000, 'y'));
  resume("run");
  EXPECT_EQ(slurp(at("run") / kMetricsFile), lines);
}

// It may be larger than memory: a file of holes here.
TEST_F(Runs, ALogOfGigabytesDoesNotStopIt) {
  finish(tiny(), "run");
  const std::string lines = slurp(at("run") / kMetricsFile);
  fs::resize_file(at("run") / kMetricsFile, (std::uintmax_t{1} << (test::kSanitized ? 26 : 30)) + 4096);
  resume("run");
  EXPECT_EQ(slurp(at("run") / kMetricsFile), lines);
}

TEST_F(Runs, DamagedStatesAreRefused) {
  finish(tiny(), "run");
  const fs::path state = at("run") / kStateFile;
  const std::string good = slurp(state);
  constexpr std::size_t kFewer = test::kSanitized ? 10 : 1;
  for (std::size_t byte = 0; byte < good.size(); byte += kFewer * (byte < 3000 ? 7 : 211)) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 4);
    spill(state, bad);
    expect_error(ErrorCode::input, {state.string()}, [&] { resume("run"); });
  }
  std::string plan = slurp(at("run") / kPlanFile);
  spill(state, good);
  plan.replace(plan.find("\"seed\": 1"), 9, "\"seed\": 3");
  spill(at("run") / kPlanFile, plan);
  expect_error(ErrorCode::input, {"data=3"}, [&] { resume("run"); });
}

TEST_F(Runs, MetricsSayWhatHappened) {
  finish(tiny(), "run");
  const io::Json step = metrics("run").front(), validation = metrics("run").back();
  for (const char* key : {"step", "loss", "gradient_norm", "rate", "seconds"}) EXPECT_TRUE(step.contains(key)) << key;
  EXPECT_EQ(step["rate"], 1e-3) << "a third of the warm-up";
  EXPECT_EQ(validation["step"], kSteps);
  EXPECT_GT(validation["validation_loss"], 0);
  EXPECT_TRUE(validation.contains("validation_accuracy"));
}

TEST_F(Runs, LeftoversOfAKillAreSweptAndNothingElse) {
  finish(tiny(), "run");
  for (const char* name : {".polyhead-0123456789abcdef.tmp", ".polyhead-mine.tmp", "notes.txt"})
    spill(at("run") / name, "x");
  resume("run");
  EXPECT_FALSE(fs::exists(at("run") / ".polyhead-0123456789abcdef.tmp"));
  EXPECT_TRUE(fs::exists(at("run") / ".polyhead-mine.tmp"));
  spill(at("run") / ".polyhead-fedcba9876543210.tmp", "x");
  Run::start(context_, tiny(), at("run"), true);
  EXPECT_FALSE(fs::exists(at("run") / ".polyhead-fedcba9876543210.tmp"));
  EXPECT_TRUE(fs::exists(at("run") / "notes.txt")) << "--force is for the files of a run";
  EXPECT_FALSE(fs::exists(at("run") / kStateFile)) << "a new run has nothing of the old one";
}

TEST_F(Runs, OneAtATimeInAFolder) {
  const auto run = Run::start(context_, tiny(), at("run"), false);
  expect_error(ErrorCode::io, {"another process"}, [&] { resume("run"); });
}

TEST_F(Runs, CanBeMadeLongerAndNotShorterThanItIs) {
  finish(tiny(), "run");
  expect_error(ErrorCode::input, {"8 steps", "12"}, [&] { resume("run", {.steps = 8}); });
  const Outcome outcome = Run::resume(context_, at("run"), {.steps = 20})->go(always);
  EXPECT_EQ(outcome.last.step, 20);
  EXPECT_EQ(load_plan(at("run")).training.steps, 20);
}

TEST_F(Runs, ABadPlanTouchesNothing) {
  Plan heads = tiny(), rate = tiny(), text = tiny("text"), kv = tiny();
  heads.model.dropout = 1;
  rate.training.rate = std::numeric_limits<double>::quiet_NaN();
  kv.model.layers[0].kv_heads = 3;
  text.file = at("empty.txt");
  spill(text.file, "");
  for (const Plan& plan : {heads, rate, kv, tiny("text"), tiny("cpoy")}) {
    EXPECT_THROW(Run::start(context_, plan, at("run"), true), Error);
  }
  expect_error(ErrorCode::input, {"empty.txt", "empty"}, [&] { Run::start(context_, text, at("run"), false); });
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(Runs, AFolderThatIsNotEmptyIsRefused) {
  finish(tiny(), "run");
  const std::string before = slurp(at("run") / kStateFile);
  expect_error(ErrorCode::input, {"not empty"}, [&] { Run::start(context_, tiny(), at("run"), false); });
  EXPECT_EQ(slurp(at("run") / kStateFile), before);
}

TEST_F(Runs, TruncatedAndForeignStatesAreRefused) {
  finish(tiny(), "run");
  const fs::path state = at("run") / kStateFile;
  const std::string good = slurp(state);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    spill(state, good.substr(0, size));
    expect_error(ErrorCode::input, {state.string()}, [&] { resume("run"); });
    EXPECT_EQ(slurp(state).size(), size) << "what is refused is left as it is";
  }
  Plan seed = tiny(), wide = tiny();
  seed.training.seed = 8;
  wide.model = model::make_config(model::Kind::gpt, 2, 16, 2);
  finish(seed, "seed");
  finish(wide, "wide");
  spill(state, slurp(at("seed") / kStateFile));
  expect_error(ErrorCode::input, {"seed=7", "seed=8"}, [&] { resume("run"); });
  spill(state, slurp(at("wide") / kStateFile));
  expect_error(ErrorCode::input, {"another configuration"}, [&] { resume("run"); });
  spill(state, slurp(at("run") / model::kWeightsFile));
  expect_error(ErrorCode::input, {"state of a training run"}, [&] { resume("run"); });
}

TEST_F(Runs, PlansThatAreNoneAreRefused) {
  expect_error(ErrorCode::input, {"run.json", "no such file"}, [&] { resume("nowhere"); });
  finish(tiny(), "run");
  const fs::path file = at("run") / kPlanFile;
  const std::string good = slurp(file);
  const auto refused = [&](const std::string& part, const std::string& other, const std::vector<std::string>& words) {
    std::string text = good;
    text.replace(text.find(part), part.size(), other);
    spill(file, text);
    EXPECT_NO_FATAL_FAILURE(expect_error(ErrorCode::input, words, [&] { resume("run"); }));
  };
  refused("polyhead run", "polyhead model", {"run.json", "polyhead model"});
  refused("\"batch\": 4", "\"batch\": 0", {"batch", "found 0"});
  refused("\"batch\"", "\"bacth\"", {"bacth", "did you mean"});
  refused("\"save_every\"", "\"save_never\"", {"save_never"});
  refused("{", "[", {"run.json"});
  spill(file, good);
  fs::remove(at("run") / model::kConfigFile);
  expect_error(ErrorCode::input, {model::kConfigFile}, [&] { resume("run"); });
}

TEST_F(Runs, AnotherTextIsRefusedAndTheSameOneElsewhereIsNot) {
  Plan plan = tiny("text");
  plan.file = at("text.txt");
  spill(plan.file, two_part_text(2000));
  finish(plan, "run");
  fs::rename(at("text.txt"), at("moved.txt"));
  expect_error(ErrorCode::io, {"text.txt"}, [&] { resume("run"); });
  resume("run", {.file = at("moved.txt")});
  spill(at("moved.txt"), two_part_text(1999) + "!");
  expect_error(ErrorCode::input, {"moved.txt", "another text"}, [&] { resume("run"); });
}

// The rate climbs until the model breaks.
TEST_F(Runs, DivergenceStopsAndLeavesAGoodCheckpoint) {
  Plan plan = tiny();
  plan.training = {.steps = 2000, .batch = 4, .rate = 1000, .warmup = 20000, .seed = 7};
  plan.save_every = 1;
  const auto run = Run::start(context_, plan, at("run"), false);
  try {
    run->go(always);
    ADD_FAILURE() << "rates of up to 100 do no harm?";
  } catch (const Diverged& diverged) {
    const std::string what = diverged.what();
    EXPECT_NE(what.find("loss"), what.npos) << what;
    EXPECT_NE(what.find(" at step "), what.npos) << what;
  }
  ASSERT_GT(run->steps_saved(), 0);
  const auto saved = model::load(at("run"));
  const double loss = evaluate(context_, *saved, run->task(), Split::validation, 8, 4).mean_loss();
  EXPECT_EQ(loss, metrics("run").back()["validation_loss"]) << "as it was when it was found good";
}

// The same sequence at every step: what differs is dropout alone.
class OneSequence final : public Task {
 public:
  explicit OneSequence(std::int32_t tokens) : Task({"one", ""}, 1, {.vocabulary = tokens, .context = 4}) {}
  std::string token_text(std::int32_t token) const override { return std::to_string(token); }

 private:
  Sequence make(Split, Draws&) const override {
    const auto last = static_cast<std::int32_t>(vocabulary() - 1);
    return {{0, last, 1, 0}, {last, 1, 0, last}, {}};
  }
};

TEST_F(Runs, EveryStepDropsOthers) {
  const OneSequence task(5);
  for (const double dropout : {0.0, 0.5}) {
    model::Config config = model::make_config(model::Kind::gpt, 1, 8, 2);
    config.dropout = dropout;
    fit_to_task(config, task);
    model::Transformer model(config, 1);
    Trainer trainer(context_, model, task, {.steps = 3, .batch = 2, .rate = 1e-30, .warmup = 0, .decay = 0});
    const double first = trainer.step().loss, second = trainer.step().loss;
    EXPECT_EQ(first == second, dropout == 0) << first << ", " << second;
  }
}

// A loss that begins below 1 may come to 4 before it has run away.
TEST_F(Runs, ASmallFirstLossIsNoLimit) {
  const OneSequence task(2);
  model::Config config = model::make_config(model::Kind::gpt, 1, 8, 2);
  fit_to_task(config, task);
  model::Transformer model(config, 1);
  Trainer trainer(context_, model, task, {.steps = 3, .batch = 2});
  ASSERT_LT(trainer.step().loss, 0.9);
  EXPECT_NO_THROW(trainer.expect_sane(3.9, 2, "the loss"));
  EXPECT_THROW(trainer.expect_sane(4.1, 2, "the loss"), Diverged);
}

TEST_F(Runs, NanStopsWithTheStep) {
  const auto task = make_task(tiny().task);
  Plan plan = tiny();
  fit_to_task(plan.model, *task);
  model::Transformer model(plan.model, 1);
  Trainer trainer(context_, model, *task, plan.training);
  trainer.step();
  model.parameters()[0]->value.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  model.parameters()[1]->value.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    trainer.step();
    ADD_FAILURE() << "NaN went unnoticed";
  } catch (const Diverged& diverged) {
    EXPECT_NE(std::string(diverged.what()).find("the loss is nan at step 2"), std::string::npos) << diverged.what();
  }
  EXPECT_EQ(trainer.steps_taken(), 1);
}

}  // namespace
}  // namespace polyhead::train
