// What is left of a model, on disk and in numbers; and who is taken for a model of which task.
#include "exam/cut.h"

#include <gtest/gtest.h>

#include "exam/links.h"
#include "heads/pruning.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "train/run.h"

namespace polyhead::exam {
namespace {

// A folder as polyhead train makes one, hardly trained.
class Trained : public ::testing::Test {
 protected:
  Trained() {
    plan_ = train::plan_for("copy");
    plan_.task.context = 9;
    plan_.training = {.steps = 30, .batch = 4, .rate = 0.02, .warmup = 5};
    const auto task = train::make_task(plan_.task);
    plan_.model = model::make_config(model::Kind::gpt, 2, 16, 2);
    train::fit_to_task(plan_.model, *task);
    model::save(model::Transformer(plan_.model, 3), scratch_.folder());
    train::save_plan(plan_, scratch_.folder());
  }

  io::Scratch scratch_;
  Context context_{1};
  train::Plan plan_;
};

TEST_F(Trained, IsComparedWithWhatIsLeftOfIt) {
  Subject subject = load_subject(context_, scratch_.folder());
  EXPECT_EQ(subject.about, "copy");
  std::vector<Examples> examples;
  examples.push_back(subject.task->batch(train::Split::validation, 0, 5));
  const auto smaller = heads::without_heads(*subject.model, {{0, 0}, {1, 0}, {1, 1}});
  const BeforeAndAfter both = compare(context_, *subject.model, *smaller, examples);
  for (const auto& [facts, model] :
       {std::pair<const Facts&, const model::Transformer&>{both.before, *subject.model}, {both.after, *smaller}}) {
    const model::SequenceScores scores = model::score(context_, model, examples);
    EXPECT_EQ(facts.heads, model.config().head_count());
    EXPECT_EQ(facts.parameters, model.parameter_count());
    EXPECT_EQ(facts.accuracy, scores.accuracy());
    EXPECT_EQ(facts.loss, scores.mean_loss());
    const io::Scratch disk;
    model::save(model, disk.folder());
    EXPECT_EQ(facts.bytes, static_cast<std::int64_t>(std::filesystem::file_size(disk / "model.safetensors")));
    EXPECT_GT(facts.seconds_of_one, 0);
    EXPECT_GT(facts.seconds_of_16, facts.seconds_of_one) << "sixteen sequences, not one";
    EXPECT_GT(facts.step_of_one, 0);
    EXPECT_LT(facts.step_of_16, facts.seconds_of_16) << "one token of each, not nine";
    EXPECT_GT(facts.step_of_16, 0);
  }
}

// Who answers with a class has nothing to go on with.
TEST(Cut, OfAClassifierIsTimedReading) {
  model::Config config = model::make_config(model::Kind::classifier, 1, 8, 2);
  config.vocabulary = config.context = 4;
  config.classes = 2;
  model::Transformer model(config, 1), other(config, 2);
  std::vector<Examples> examples(1);
  examples[0] = {Tensor::zeros({1, 4}, DType::i32), Tensor::zeros({1}, DType::i32), {}};
  Context context(1);
  const BeforeAndAfter both = compare(context, model, other, examples);
  EXPECT_GT(both.after.seconds_of_16, 0);
  EXPECT_EQ(both.after.step_of_one, 0);
  EXPECT_EQ(both.before.step_of_16, 0);
}

// An encoder is compared with itself: by the cosine distance of its embeddings.
TEST(Cut, OfAnEncoderTurnsItsEmbeddings) {
  model::Config config = model::make_config(model::Kind::encoder, 2, 8, 2);
  config.vocabulary = config.context = 4;
  model::Transformer model(config, 1);
  const auto smaller = heads::without_heads(model, {{0, 0}});
  std::vector<Examples> examples(1);
  examples[0].tokens = Tensor::zeros({2, 4}, DType::i32);
  for (std::int32_t n = 0; n < 8; ++n) examples[0].tokens.as<std::int32_t>()[n] = n % 3;
  Context context(1);
  const BeforeAndAfter both = compare(context, model, *smaller, examples);
  EXPECT_EQ(both.before.loss, 0);
  EXPECT_EQ(both.before.accuracy, 1);
  EXPECT_GT(both.after.loss, 0);
  EXPECT_EQ(both.after.loss,
            heads::estimate(heads::cosine_distances(model::embeddings(context, model, examples),
                                                    model::embeddings(context, *smaller, examples), "the pruned model"))
                .mean);
  EXPECT_EQ(both.after.accuracy, 1 - both.after.loss);
  EXPECT_EQ(both.after.step_of_one, 0);
}

// What is timed: the first sequences with their lengths, over again where the batch is smaller.
TEST(Cut, IsTimedOnTheFirstSequences) {
  std::vector<Examples> examples(2);
  for (Examples& some : examples) {
    const std::int64_t B = &some == &examples[0] ? 3 : 1;
    some.tokens = Tensor::empty({B, 4}, DType::i32);
    some.lengths = Tensor::empty({B}, DType::i32);
    for (std::int64_t n = 0; n < 4 * B; ++n) some.tokens.as<std::int32_t>()[n] = static_cast<std::int32_t>(10 * B + n);
    for (std::int64_t b = 0; b < B; ++b) some.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(4 - b);
  }
  for (const std::int64_t count : {1, 3, 16}) {
    const Examples taken = first_of(examples, count);
    ASSERT_EQ(taken.tokens.shape(), (Dims{count, 4}));
    ASSERT_EQ(taken.lengths.shape(), Dims{count});
    EXPECT_FALSE(taken.targets.present());
    for (std::int64_t b = 0; b < count; ++b) {
      EXPECT_EQ(taken.lengths.as<std::int32_t>()[b], 4 - b % 3);
      for (std::int64_t t = 0; t < 4; ++t) EXPECT_EQ(taken.tokens.as<std::int32_t>()[4 * b + t], 30 + b % 3 * 4 + t);
    }
  }
  examples[0].lengths = Tensor();
  EXPECT_FALSE(first_of(examples, 2).lengths.present());
}

TEST_F(Trained, IsTrainedOnAtATenthOfItsRate) {
  Subject subject = load_subject(context_, scratch_.folder());
  std::vector<train::StepReport> steps;
  fine_tune(context_, *subject.model, subject, 20, [&](const train::StepReport& step) { steps.push_back(step); });
  ASSERT_EQ(steps.size(), 20u);
  double highest = 0;
  for (const train::StepReport& step : steps) highest = std::max(highest, step.rate);
  EXPECT_NEAR(highest, 0.002, 1e-9);
  EXPECT_EQ(steps[1].rate, highest) << "a warm-up of a tenth of the steps";
  EXPECT_LT(steps[0].rate, highest);
  EXPECT_LT(steps.back().loss, steps.front().loss);
}

TEST_F(Trained, IsKnownAsPrunedWhereItIsSaved) {
  Subject subject = load_subject(context_, scratch_.folder());
  const auto smaller = heads::without_heads(*subject.model, {{1, 1}});
  const io::Scratch out;
  io::spill(out / "metrics.jsonl", "old\n");
  save_cut(*smaller, subject.plan, out.folder());
  EXPECT_FALSE(std::filesystem::exists(out / "metrics.jsonl")) << "of a run that was there before";
  EXPECT_FALSE(train::load_plan(scratch_.folder()).pruned);
  EXPECT_TRUE(train::load_plan(out.folder()).pruned);
  const Subject left = load_subject(context_, out.folder());
  EXPECT_EQ(left.model->config().layers[1].heads, 1);
  EXPECT_EQ(left.task->name(), "copy");
}

TEST_F(Trained, IsRefusedWithoutItsFilesAndForAnotherTask) {
  train::Plan other = plan_;
  other.task.context = 11;
  train::save_plan(other, scratch_.folder());
  io::expect_error(ErrorCode::input, {"config.json", "a model for the task copy", "run.json"},
                   [&] { load_subject(context_, scratch_.folder()); });
  for (const char* name : {"model.safetensors", "run.json", "config.json"}) {
    std::filesystem::remove(scratch_ / name);
    io::expect_error(ErrorCode::input, {std::string("found no ") + name},
                     [&] { load_subject(context_, scratch_.folder()); });
  }
}

// Of a text links are by its bytes, which may be above 127.
TEST(LinksOfText, AreBetweenBytes) {
  const io::Scratch scratch;
  const auto task =
      train::make_task({.name = "text", .context = 8, .text = std::string(2000, 'a') + std::string(2000, 'b')});
  io::spill(scratch / "links.jsonl", R"({"tokens": "aéb", "query": 3, "key": 1, "relation": "x"})");
  const heads::Probe probe = std::move(load_links(scratch / "links.jsonl", *task)[0]);
  const std::int32_t* tokens = probe.tokens.as<std::int32_t>();
  EXPECT_EQ(std::vector(tokens, tokens + 4), (std::vector<std::int32_t>{'a', 0xc3, 0xa9, 'b'}));
  EXPECT_EQ(probe.relations[1].query, 3);
  io::spill(scratch / "links.jsonl", R"({"tokens": "aaaaaaaaa", "query": 3, "key": 1, "relation": "x"})");
  io::expect_error(ErrorCode::input, {":1", "expected 1 to 8, found 9"},
                   [&] { load_links(scratch / "links.jsonl", *task); });
}

// Of an even number of disagreeing repeats nothing is told; one that always comes out lower is.
TEST(TimeRatio, TellsADifferenceOnlyIfRepeatsAgree) {
  const std::vector<double> before(20, 2.0);
  std::vector<double> after;
  for (int n = 0; n < 20; ++n) after.push_back(n % 2 == 0 ? 1.5 : 2.5);
  EXPECT_FALSE(ratio_of_medians(before, after).tells());
  std::fill(after.begin(), after.begin() + 18, 1.5);
  const TimeRatio faster = ratio_of_medians(before, after);
  EXPECT_TRUE(faster.tells());
  EXPECT_EQ(faster.low, 0.75);
  EXPECT_EQ(faster.high, 0.75);
  EXPECT_EQ(ratio_of_medians({1, 1, 1, 1}, {0.5, 2, 0.6, 3}).high, 3) << "of few repeats all of them";
}

}  // namespace
}  // namespace polyhead::exam
