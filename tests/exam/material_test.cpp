// What heads are examined with is what it says: parts that share no sequence, and targets and relations in their
// places.
#include "exam/material.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "io/scratch.h"

namespace polyhead::exam {
namespace {

using Row = std::vector<std::int32_t>;

std::vector<Row> rows_of(const Examples& some) {
  std::vector<Row> rows;
  const std::int64_t B = some.tokens.shape()[0], T = some.tokens.shape()[1];
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int32_t* row = some.tokens.as<std::int32_t>() + b * T;
    rows.emplace_back(row, row + T);
  }
  return rows;
}

std::set<Row> all_of(const std::vector<Examples>& examples) {
  std::set<Row> all;
  for (const Examples& some : examples) {
    for (Row& row : rows_of(some)) all.insert(std::move(row));
  }
  return all;
}

std::int64_t count(const std::vector<Examples>& examples) {
  std::int64_t rows = 0;
  for (const Examples& some : examples) rows += some.tokens.shape()[0];
  return rows;
}

bool disjoint(const std::set<Row>& a, const std::set<Row>& b) {
  return std::none_of(a.begin(), a.end(), [&](const Row& row) { return b.contains(row); });
}

std::unique_ptr<train::Task> task_called(const std::string& name, std::int64_t context = 0) {
  return train::make_task({.name = name,
                           .context = context,
                           .text = name == "text" ? std::string(5000, 'a') + std::string(5000, 'b') : ""});
}

TEST(Material, RankingJudgingAndReportingShareNoSequence) {
  for (const train::TaskSummary& about : train::task_list()) {
    if (about.name == "text") continue;
    const auto task = task_called(about.name);
    const Material one = make_material(*task, {.samples = 70}), two = make_material(*task, {.samples = 70, .seed = 2});
    EXPECT_EQ(count(one.ranking), 70) << about.name;
    EXPECT_EQ(count(one.judging), 70) << about.name;
    EXPECT_TRUE(disjoint(all_of(one.ranking), all_of(one.judging))) << about.name;
    EXPECT_TRUE(disjoint(all_of(one.ranking), all_of(two.judging))) << about.name << ": nor with another seed";
    EXPECT_EQ(count(one.reporting), 70) << about.name;
    for (const Material* other : {&one, &two}) {
      EXPECT_TRUE(disjoint(all_of(one.reporting), all_of(other->ranking))) << about.name;
      EXPECT_TRUE(disjoint(all_of(one.reporting), all_of(other->judging))) << about.name;
    }
    EXPECT_NE(all_of(one.ranking), all_of(two.ranking)) << about.name;
    std::vector<Examples> training;
    for (std::uint64_t n = 0; n < 20; ++n) training.push_back(task->batch(train::Split::train, n, 32));
    EXPECT_TRUE(disjoint(all_of(training), all_of(one.ranking))) << about.name;
  }
}

// Of few sequences, which every seed draws anew: each is in the same part for ever.
TEST(Material, ASequenceStaysInItsPart) {
  const auto task = train::make_task({.name = "copy", .context = 5, .vocabulary = 12});
  std::set<Row> ranking, judging, reporting;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Material material = make_material(*task, {.samples = 12, .seed = seed});
    ranking.merge(all_of(material.ranking));
    judging.merge(all_of(material.judging));
    reporting.merge(all_of(material.reporting));
  }
  EXPECT_TRUE(disjoint(ranking, judging) && disjoint(ranking, reporting) && disjoint(judging, reporting));
  EXPECT_LT(ranking.size(), 8 * 12u) << "some were drawn by several seeds";
}

TEST(Material, IsTheSameForTheSameSeed) {
  const auto task = task_called("recall");
  EXPECT_EQ(all_of(make_material(*task, {.samples = 40}).judging),
            all_of(make_material(*task, {.samples = 40}).judging));
}

TEST(Material, ATaskWithTooFewSequencesIsRefused) {
  const auto task = task_called("text", 8);  // its last tenth is all b
  io::expect_error(ErrorCode::value,
                   {"task text: expected 8 sequences to rank heads by, and twice as many others to judge by and to "
                    "report on, found too few different ones"},
                   [&] { make_material(*task, {.samples = 8}); });
}

TEST(Material, RepeatsRepeatOrdinaryTokensAfterTheBeginning) {
  const auto task = task_called("repeat");
  const Material material = make_material(*task, {.samples = 40});
  ASSERT_EQ(material.probes.repeats.size(), 2u);
  std::set<std::int64_t> periods;
  for (const heads::Probe& probe : material.probes.repeats) {
    const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int32_t* row = probe.tokens.as<std::int32_t>() + b * T;
      const std::int32_t* targets = probe.targets.as<std::int32_t>() + b * T * 4;
      EXPECT_EQ(row[0], 0) << "BOS";
      const std::int64_t period = std::find(row + 2, row + T, row[1]) - row - 1;
      periods.insert(period);
      for (std::int64_t t = 1; t < T; ++t) {
        EXPECT_NE(row[t], 0) << "ordinary tokens";
        const bool second = t > period && t <= 2 * period;  // later there are several places to look at
        EXPECT_EQ(targets[4 * t + heads::kDuplicate], second ? t - period : -1);
        EXPECT_EQ(targets[4 * t + heads::kInduction], second ? t - period + 1 : -1);
      }
    }
  }
  EXPECT_GT(periods.size(), 5u) << "one length would let positions pass for induction";
}

// Where sequences begin with any token, so do repeats.
TEST(Material, RepeatsOfSequencesWithoutABeginningHaveNone) {
  std::string text;
  for (int n = 0; n < 20000; ++n) text += static_cast<char>('a' + n * n % 23);
  const auto task = train::make_task({.name = "text", .context = 16, .text = text});
  std::set<std::int32_t> first;
  const Material material = make_material(*task, {.samples = 8});
  for (const heads::Probe& probe : material.probes.repeats) {
    for (std::int64_t b = 0; b < probe.tokens.shape()[0]; ++b) first.insert(probe.tokens.as<std::int32_t>()[b * 16]);
  }
  EXPECT_GT(first.size(), 2u);
}

TEST(Material, RelationsLookFromTheWordAndFromTheOneBefore) {
  const auto task = task_called("grammar");
  const Material material = make_material(*task, {.samples = 40});
  std::int64_t verbs = 0;
  for (const heads::Probe& probe : material.probes.plain) {
    const std::int64_t T = probe.tokens.shape()[1];
    const auto word = [&](const heads::Relation& relation, std::int64_t at) {
      return task->token_text(probe.tokens.as<std::int32_t>()[relation.sequence * T + at]);
    };
    const std::set<std::string> known{"is", "are", "was", "were", "has", "have"};
    for (const heads::Relation& relation : probe.relations) {
      EXPECT_LE(relation.key, relation.query);
      if (relation.name == "subject-verb") {
        EXPECT_TRUE(known.contains(word(relation, relation.query)));
      }
      if (relation.name != "predicts subject-verb") continue;
      EXPECT_TRUE(known.contains(word(relation, relation.query + 1)));
      ++verbs;
    }
  }
  EXPECT_GT(verbs, 40);
}

TEST(Material, CountsAreThoseOfTraining) {
  const auto task = task_called("grammar");
  const Material material = make_material(*task, {.samples = 8});
  ASSERT_EQ(std::ssize(material.probes.counts), task->vocabulary());
  EXPECT_EQ(material.probes.counts[0], 0) << "padding does not count";
  EXPECT_EQ(material.probes.counts[1], std::numeric_limits<std::int64_t>::max()) << "BOS is not rare";
  EXPECT_GT(
      std::count_if(material.probes.counts.begin() + 2, material.probes.counts.end(), [](auto n) { return n > 100; }),
      5)
      << "words are counted in 1024 sequences";
}

// Windows of a text lie side by side, every third in the same part; what follows the beginning is no target.
TEST(Material, WindowsOfATextShareNoToken) {
  Reading reading{.tokens = {}, .beginning = {90}, .ending = {}, .special = {90}, .marks = {3}, .vocabulary = 100};
  for (std::int32_t n = 0; n < 76; ++n) reading.tokens.push_back(n);  // 15 windows of 5 and a target
  const Material one = make_material(reading, 6, {.samples = 5, .batch = 2}),
                 two = make_material(reading, 6, {.samples = 3, .seed = 2});
  std::set<Row> seen;
  std::int32_t part = 0;
  for (const auto* examples : {&one.ranking, &one.judging, &one.reporting}) {
    EXPECT_EQ(count(*examples), 5);
    for (const Examples& some : *examples) {
      const std::int32_t* targets = some.targets.as<std::int32_t>();
      for (const Row& row : rows_of(some)) {
        EXPECT_EQ(row[0], 90);
        EXPECT_EQ(*targets++, -1);
        EXPECT_EQ(row[1] / 5 % 3, part);
        for (std::int32_t t = 1; t < 6; ++t) {
          EXPECT_EQ(row[static_cast<std::size_t>(t)], row[1] + t - 1);
          EXPECT_EQ(*targets++, row[1] + t);
        }
        EXPECT_TRUE(seen.insert(row).second) << "once";
      }
    }
    ++part;
  }
  EXPECT_TRUE(disjoint(all_of(one.ranking), all_of(two.judging))) << "nor with another seed";
  EXPECT_EQ(one.probes.counts[75], 1);
  EXPECT_EQ(one.probes.counts[4], 1);
  for (const std::size_t special : {3u, 90u}) {  // a mark, and what stands at every beginning
    EXPECT_EQ(one.probes.counts[special], std::numeric_limits<std::int64_t>::max()) << "not rare";
  }
  for (const heads::Probe& probe : one.probes.plain) {
    for (std::int64_t n = 0; n < probe.tokens.view().count(); ++n) {
      const std::int32_t token = probe.tokens.as<std::int32_t>()[n];
      EXPECT_EQ(probe.separators.as<bool>()[n], token == 3);
    }
  }
  for (const heads::Probe& probe : one.probes.repeats) {
    const std::int32_t* tokens = probe.tokens.as<std::int32_t>();
    EXPECT_EQ(tokens[0], 90);
    EXPECT_EQ(std::count(tokens, tokens + probe.tokens.view().count(), 3), 0) << "marks are not repeated";
  }
  EXPECT_THROW(make_material(reading, 6, {.samples = 6}), Error);
  reading.ending = {91};
  reading.special = {90, 91};
  const Material closed = make_material(reading, 7, {.samples = 5});
  EXPECT_EQ(rows_of(closed.judging[0])[0][6], 91);
  EXPECT_EQ(closed.judging[0].targets.as<std::int32_t>()[6], -1);
  EXPECT_EQ(closed.probes.counts[91], std::numeric_limits<std::int64_t>::max()) << "nor what stands at every end";
  reading.tokens.pop_back();
  EXPECT_THROW(make_material(reading, 7, {.samples = 5}), Error) << "the last window has no target for its last token";
  EXPECT_THROW(make_material(reading, 1, {.samples = 2}), Error);
}

TEST(Material, HasWindowsToCountSinksIn) {
  Reading reading{.tokens = {}, .beginning = {90}, .ending = {}, .special = {90}, .marks = {}, .vocabulary = 100};
  for (std::int32_t n = 0; n < 63 * 10 + 1; ++n) reading.tokens.push_back(n % 80);
  EXPECT_TRUE(make_material(reading, 6, {.samples = 4}).sinks.empty()) << "unless asked for";
  for (const std::int64_t samples : {3, 9, 20}) {
    std::int64_t rows = 0;
    for (const Tensor& some : make_material(reading, 6, {.samples = samples, .sinks = true}).sinks) {
      ASSERT_EQ(some.shape()[1], 64);
      rows += some.shape()[0];
      for (std::int64_t b = 0; b < some.shape()[0]; ++b) EXPECT_EQ(some.as<std::int32_t>()[64 * b], 90);
    }
    EXPECT_EQ(rows, std::min<std::int64_t>(samples, 10)) << "as many as there are";
  }
  reading.tokens.resize(60);
  EXPECT_TRUE(make_material(reading, 6, {.samples = 3, .sinks = true}).sinks.empty()) << "too short a text";
}

// Of 76 tokens all but the first are targets: five windows of 14, and what is left of them.
TEST(Material, AllWindowsOfATextHaveEveryTargetOnce) {
  Reading reading{.tokens = {}, .beginning = {90}, .ending = {}, .special = {90}, .marks = {}, .vocabulary = 100};
  for (std::int32_t n = 0; n < 76; ++n) reading.tokens.push_back(n);
  const std::vector<Examples> all = all_windows(reading, 15, 2);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].tokens.shape(), (Dims{2, 15}));
  EXPECT_EQ(all[2].tokens.shape(), (Dims{1, 15}));
  EXPECT_EQ(all[3].tokens.shape(), (Dims{1, 6})) << "what is left";
  std::int32_t next = 1;
  for (const Examples& some : all) {
    for (std::int64_t n = 0; n < some.targets.view().count(); ++n) {
      const std::int32_t token = some.tokens.as<std::int32_t>()[n], target = some.targets.as<std::int32_t>()[n];
      EXPECT_EQ(target, token == 90 ? -1 : next++);
      EXPECT_TRUE(token == 90 || token == target - 1);
    }
  }
  EXPECT_EQ(next, 76);
  reading.tokens.resize(71);
  EXPECT_EQ(all_windows(reading, 15, 2).size(), 3u) << "nothing is left";
  reading.tokens.resize(1);
  EXPECT_TRUE(all_windows(reading, 15, 2).empty());
}

}  // namespace
}  // namespace polyhead::exam
