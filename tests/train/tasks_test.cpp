// What holds for every task: batches are pure functions, splits are disjoint, numbers stay in range, errors say why.
#include <gtest/gtest.h>

#include <algorithm>

#include "train/plan.h"
#include "train/random_task.h"
#include "train/samples.h"

namespace polyhead::train {
namespace {

Tokens values(const Tensor& tensor) {
  if (!tensor.present()) return {};
  return {tensor.as<std::int32_t>(), tensor.as<std::int32_t>() + count_of(tensor.shape())};
}
bool same(const Batch& a, const Batch& b) {
  return values(a.tokens) == values(b.tokens) && values(a.targets) == values(b.targets) &&
         values(a.lengths) == values(b.lengths);
}

class EveryTask : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Task> task = task_called(GetParam());
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const TaskSummary& about : task_list()) all.push_back(about.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::ValuesIn(names()), [](const auto& name) {
  std::string word = name.param;
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
});

TEST_P(EveryTask, MakesABatchWithoutThoseBeforeIt) {
  const Batch seventh = task->batch(Split::train, 7, 5);
  for (std::uint64_t index = 0; index < 7; ++index) {
    EXPECT_FALSE(same(task->batch(Split::train, index, 5), seventh)) << index;
  }
  EXPECT_TRUE(same(task->batch(Split::train, 7, 5), seventh));
  EXPECT_TRUE(same(task_called(GetParam())->batch(Split::train, 7, 5), seventh));
  EXPECT_FALSE(same(task_called(GetParam(), 2)->batch(Split::train, 7, 5), seventh));
  EXPECT_FALSE(same(task->batch(Split::train, 7 + (std::uint64_t{1} << 32), 5), seventh));
}

TEST_P(EveryTask, RowsDoNotDependOnTheBatchsSize) {
  const std::int64_t t = task->context();
  const Tokens few = values(task->batch(Split::validation, 3, 2).tokens);
  const Tokens many = values(task->batch(Split::validation, 3, 9).tokens);
  ASSERT_EQ(std::ssize(many), 9 * t);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_FALSE(std::equal(many.begin(), many.begin() + t, many.begin() + t));
}

TEST_P(EveryTask, BatchesAreTheirSequences) {
  const std::int64_t t = task->context();
  const Batch batch = task->batch(Split::train, 11, 4);
  EXPECT_EQ(batch.tokens.shape(), (Dims{4, t}));
  EXPECT_EQ(batch.targets.shape(), task->classes() > 0 ? Dims{4} : (Dims{4, t}));
  EXPECT_EQ(batch.lengths.present(), task->shape().padded);
  for (std::int64_t b = 0; b < 4; ++b) {
    Sequence expected = task->sequence(Split::train, 11, b);
    if (batch.lengths.present()) {
      EXPECT_EQ(batch.lengths.as<std::int32_t>()[b], std::ssize(expected.tokens));
    }
    expected.tokens.resize(static_cast<std::size_t>(t), 0);
    if (task->classes() == 0) expected.targets.resize(static_cast<std::size_t>(t), -1);
    const std::int32_t* tokens = batch.tokens.as<std::int32_t>() + b * t;
    const std::int32_t* targets = batch.targets.as<std::int32_t>() + b * std::ssize(expected.targets);
    EXPECT_TRUE(std::equal(expected.tokens.begin(), expected.tokens.end(), tokens));
    EXPECT_TRUE(std::equal(expected.targets.begin(), expected.targets.end(), targets));
  }
}

TEST_P(EveryTask, StaysInRange) {
  const std::int64_t choices = task->classes() > 0 ? task->classes() : task->vocabulary();
  std::set<std::int32_t> seen;
  std::int64_t counted = 0;
  for (const Sequence& sequence : samples(*task, Split::train, 500)) {
    ASSERT_LE(std::ssize(sequence.tokens), task->context());
    if (!task->shape().padded) {
      ASSERT_EQ(std::ssize(sequence.tokens), task->context());
    }
    ASSERT_EQ(std::ssize(sequence.targets), task->classes() > 0 ? 1 : std::ssize(sequence.tokens));
    for (const std::int32_t token : sequence.tokens) ASSERT_TRUE(token >= 0 && token < task->vocabulary()) << token;
    for (const std::int32_t target : sequence.targets) ASSERT_TRUE(target >= -1 && target < choices) << target;
    for (const Link& link : sequence.links) {
      ASSERT_TRUE(link.key >= 0 && link.key < link.query && link.query < std::ssize(sequence.tokens));
    }
    seen.insert(sequence.tokens.begin(), sequence.tokens.end());
    counted += counted_in(sequence);
  }
  EXPECT_GE(counted, 500);
  if (GetParam() == "text") return;
  const std::int64_t padding = task->shape().padded ? 1 : 0;  // no token of a sequence
  EXPECT_EQ(std::ssize(seen), task->vocabulary() - padding) << "every token is used";
}

TEST_P(EveryTask, CountedTargetsAreTheTokensToCome) {
  if (task->classes() > 0) return;  // nothing is to come
  for (const Sequence& sequence : samples(*task, Split::validation, 200)) {
    for (std::size_t i = 0; i + 1 < sequence.tokens.size(); ++i) {
      if (sequence.targets[i] >= 0) {
        ASSERT_EQ(sequence.targets[i], sequence.tokens[i + 1]) << i;
      }
    }
  }
}

TEST_P(EveryTask, SplitsShareNoSequence) {
  std::set<Tokens> training;
  for (const Sequence& sequence : samples(*task, Split::train, 4000)) training.insert(sequence.tokens);
  for (const Sequence& sequence : samples(*task, Split::validation, 1000)) {
    ASSERT_FALSE(training.contains(sequence.tokens));
  }
  EXPECT_GE(training.size(), 3500u) << "few sequences come twice";
}

TEST_P(EveryTask, NamesItsTokens) {
  EXPECT_EQ(task->name(), GetParam());
  EXPECT_FALSE(task->summary().empty());
  std::set<std::string> texts;
  for (std::int32_t token = 0; token < task->vocabulary(); ++token) texts.insert(task->token_text(token));
  EXPECT_EQ(std::ssize(texts), task->vocabulary());
  EXPECT_FALSE(texts.contains(""));
  for (const std::int32_t token : task->special_tokens()) EXPECT_LT(token, task->vocabulary());
}

// 2^6 strings in all: exclusion must part them exactly.
// A plan of its own for every task, by what is known of it: none is the first one's, under another name.
TEST_P(EveryTask, HasAPlanThatFits) {
  Plan plan = plan_for(GetParam());
  EXPECT_EQ(plan.task.name, GetParam());
  const bool attention_alone = GetParam() == "recall";
  EXPECT_EQ(plan.model.feed_forward, attention_alone ? model::FeedForward::none : model::FeedForward::gelu);
  const std::size_t layers = GetParam() == "classify" ? 1 : GetParam() == "text" ? 3 : 2;
  EXPECT_EQ(plan.model.layers.size(), layers);
  for (const model::LayerHeads& layer : plan.model.layers) EXPECT_EQ(layer.heads, 4);
  EXPECT_EQ(plan.model.width, GetParam() == "text" ? 128 : 64);
  fit_to_task(plan.model, *task);
  EXPECT_NO_THROW(model::Transformer(plan.model, 1));
}

TEST(Splits, PartASmallTaskExactly) {
  const auto task = make_task({.name = "copy", .context = 13, .vocabulary = 4});
  std::set<Tokens> training, validation;
  for (const Sequence& sequence : samples(*task, Split::train, 3000)) training.insert(sequence.tokens);
  for (const Sequence& sequence : samples(*task, Split::validation, 3000)) validation.insert(sequence.tokens);
  EXPECT_EQ(training.size() + validation.size(), 64u);
  for (const Tokens& tokens : validation) EXPECT_FALSE(training.contains(tokens));
  EXPECT_GE(validation.size(), 2u);
  EXPECT_LE(validation.size(), 18u);  // 8 on average, five sigma
}

std::string message_of(const TaskOptions& options) {
  try {
    make_task(options)->batch(Split::validation, 0, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::value);
    return error.what();
  }
  return "no error";
}

TEST(Errors, SayWhatWasExpectedAndFound) {
  const std::string unknown = message_of({.name = "grammer"});
  EXPECT_NE(unknown.find("found 'grammer'; did you mean 'grammar'?"), unknown.npos) << unknown;
  EXPECT_NE(unknown.find("expected one of copy, repeat, "), unknown.npos) << unknown;
  EXPECT_EQ(message_of({.name = "copy", .context = 4}), "[task copy] context: expected at least 5, found 4");
  EXPECT_EQ(message_of({.name = "copy", .context = -1}), "[task copy] context: expected at least 5, found -1");
  EXPECT_EQ(message_of({.name = "dyck", .vocabulary = std::int64_t{1} << 40}),
            "[task dyck] vocabulary: expected at most 16777216, found 1099511627776");
  EXPECT_EQ(message_of({.name = "recall", .context = 64, .vocabulary = 20}),
            "[task recall] vocabulary: expected at least 33, found 20");
  EXPECT_EQ(message_of({.name = "grammar", .context = 28}), "[task grammar] context: expected at least 29, found 28");
  EXPECT_EQ(message_of({.name = "grammar", .vocabulary = 99}),
            "[task grammar] vocabulary: expected 64 (its words are given), found 99");
  EXPECT_EQ(message_of({.name = "text"}),
            "[task text] text: expected the bytes of a file, found none; name a file that is not empty");
  EXPECT_EQ(message_of({.name = "text", .context = 9, .text = std::string(99, 'x')}),
            "[task text] text: expected 100 to 2147483647 bytes for a context of 9, found 99; take a longer text or a "
            "shorter context");
  EXPECT_EQ(message_of({.name = "text", .context = 9, .text = std::string(100, 'x')}), "no error");
  EXPECT_EQ(message_of({.name = "text", .vocabulary = 7, .text = std::string(9000, 'x')}),
            "[task text] vocabulary: expected 256, found 7");
  EXPECT_THROW(task_called("copy")->batch(Split::train, 0, 0), Error);
}

// A task with a single sequence, which belongs to one split and is missing from the other.
class Single final : public RandomTask {
 public:
  Single() : RandomTask({"single", "one sequence"}, 1, {.vocabulary = 3, .context = 2}) {}
  std::string token_text(std::int32_t) const override { return "?"; }

 private:
  Sequence draw(Draws&) const override { return uncounted({0, 1, 2}); }
};

TEST(Errors, ATaskWithoutASequenceForASplitSaysSo) {
  const Split has = split_of({0, 1});
  const Split lacks = has == Split::train ? Split::validation : Split::train;
  EXPECT_EQ(Single().sequence(has, 0, 0).tokens, (Tokens{0, 1}));
  EXPECT_THROW(Single().sequence(lacks, 0, 0), Error);
}

// The smallest sizes that a task admits to must work.
TEST(Sizes, TheSmallestOnesWork) {
  const struct {
    const char* name;
    std::int64_t context, vocabulary;
  } smallest[] = {{"repeat", 6, 4}, {"recall", 8, 5}, {"classify", 8, 7}, {"dyck", 8, 5}, {"grammar", 29, 0}};
  for (const auto& [name, context, vocabulary] : smallest) {
    const auto task = make_task({.name = name, .context = context, .vocabulary = vocabulary});
    EXPECT_EQ(task->context(), context) << name;
    if (vocabulary > 0) {
      EXPECT_EQ(task->vocabulary(), vocabulary) << name;
    }
    EXPECT_NO_THROW(task->batch(Split::train, 0, 20)) << name;
  }
}

}  // namespace
}  // namespace polyhead::train
