// What the study trains, in small: every part holds what it is said to hold, and the page shows the numbers that the
// models really have.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "heads/roles.h"
#include "io/scratch.h"
#include "model/score.h"
#include "polyhead/version.h"
#include "study/figures.h"
#include "support/induction_model.h"

namespace polyhead::study {
namespace {

void run(const std::vector<Job>& jobs) {
  Context context(1);
  for (const Job& job : jobs) job(context);
}
const Watch kNobody = [](double) {};

double previous_score(const heads::HeadSurvey& head) {
  return head.mean(Statistic::previous_weight, Statistic::previous_rows);
}

// The model written by hand, of which it is known what goes with each head; without roles.
Formation by_hand() {
  Formation formation;
  formation.course.model = InductionModel::make();
  formation.course.task = train::make_task(
      {.name = "repeat", .context = InductionModel::kContext, .vocabulary = InductionModel::kVocabulary});
  return formation;
}
const heads::RoleScore previous{"previous token", 0.9, 0.4, 0.1}, induction{"induction", 0.9, 0.4, 0.1};

TEST(KnockOuts, ShutTheHeadsOfEachKind) {
  Formation formation = by_hand();
  Context context(1);
  formation.roles = {{{0, 0}, {previous}}, {{0, 1}, {}}, {{1, 0}, {induction}}, {{1, 1}, {}}};
  const KnockOut found = knock_out(context, formation);
  EXPECT_EQ(found.previous_heads, "0.0");
  EXPECT_EQ(found.induction_heads, "1.0");
  EXPECT_GT(found.nothing, 0.9);
  EXPECT_LT(found.previous.value(), 0.5);
  EXPECT_LT(found.induction.value(), 0.5);
  EXPECT_LT(found.both.value(), 0.5);
  EXPECT_EQ(found.others.value(), found.nothing) << "the others do nothing";

  // The labels decide, not the heads.
  formation.roles = {{{0, 0}, {}}, {{0, 1}, {previous}}, {{1, 0}, {}}, {{1, 1}, {induction}}};
  const KnockOut mistaken = knock_out(context, formation);
  EXPECT_EQ(mistaken.both.value(), found.nothing);
  EXPECT_EQ(mistaken.others.value(), found.both.value());
  formation.roles = {{{0, 0}, {previous}}, {{0, 1}, {}}, {{1, 0}, {}}, {{1, 1}, {}}};
  const KnockOut half = knock_out(context, formation);
  EXPECT_TRUE(half.previous.has_value());
  EXPECT_FALSE(half.induction || half.both || half.others) << "the others may hold what is missing";

  formation.roles = {{{0, 0}, {previous}}, {{0, 1}, {previous}}, {{1, 0}, {induction}}, {{1, 1}, {induction}}};
  const KnockOut all = knock_out(context, formation);
  EXPECT_EQ(all.previous_heads, "0.0, 0.1");
  EXPECT_EQ(all.induction_heads, "1.0, 1.1");
  EXPECT_FALSE(all.others) << "there are none";
}

// Which heads are shut for each number, whatever the labels: 0.0 and 1.0 matter, the others do not.
TEST(KnockOuts, ShutThoseOfTheirOwnKind) {
  Formation formation = by_hand();
  Context context(1);
  for (const std::string labels : {"p i ", "i p ", " p i", " ip ", "p  i", "i  p", "ppi ", "  pi"}) {  // by head
    formation.roles.clear();
    std::map<char, bool> harms;
    for (std::size_t n = 0; n < 4; ++n) {
      formation.roles.push_back({{n / 2, static_cast<std::int64_t>(n % 2)}, {}});
      if (labels[n] != ' ') formation.roles.back().scores = {labels[n] == 'p' ? previous : induction};
      harms[labels[n]] = harms[labels[n]] || n % 2 == 0;
    }
    const KnockOut found = knock_out(context, formation);
    const auto expect = [&](const std::optional<double>& accuracy, bool harm) {
      EXPECT_EQ(accuracy.value() < 0.5, harm) << '"' << labels << '"';
    };
    expect(found.previous, harms['p']);
    expect(found.induction, harms['i']);
    expect(found.both, harms['p'] || harms['i']);
    expect(found.others, harms[' ']);
  }
}

constexpr RemovalPlan kFewSequences{.samples = 8, .random_orders = 2};

TEST(Comparing, GivesEveryNumberOfHeadsItsCourses) {
  const io::Scratch scratch;
  TaskStudy study;
  ComparisonPlan plan{.task = "copy",
                      .width = 16,
                      .hidden = 8,
                      .steps = 2,
                      .batch = 4,
                      .every = 1,
                      .sequences = 64,
                      .seeds = 2,
                      .removal = kFewSequences};
  double work = 0;
  const double planned = work_of(plan, scratch.folder());
  run(compare(
      plan, scratch.folder(), [&](double more) { work += more; }, study));
  const std::vector<Contender>& contenders = study.contenders;
  EXPECT_NEAR(work, planned, 1e-9 * planned) << "what was to be done is what was done";
  EXPECT_EQ(work_of(plan, scratch.folder()), work_of_dissections(plan)) << "of courses nothing is left to do";
  const double alone = work_of_dissections(plan);
  ComparisonPlan early = plan;
  early.expected = 0.25;
  EXPECT_LT(work_of(early, scratch / "elsewhere"), planned);
  EXPECT_GT(work_of(early, scratch / "elsewhere"), planned / 4);
  EXPECT_GT(alone, 0);
  ASSERT_EQ(contenders.size(), std::size(kHeadCounts));
  Context context(1);
  for (std::size_t n = 0; n < contenders.size(); ++n) {
    const Contender& contender = contenders[n];
    EXPECT_EQ(contender.heads, kHeadCounts[n]);
    for (std::size_t seed = 0; seed < 2; ++seed) {
      const Course& course = contender.courses[seed];
      EXPECT_EQ(course.plan.training.seed, seed + 1);
      EXPECT_EQ(course.plan.model.layers[0].heads, contender.heads);
      EXPECT_EQ(course.plan.model.hidden, 8);
      EXPECT_EQ(contender.entropies(seed).size(), static_cast<std::size_t>(contender.heads));
      EXPECT_EQ(course.model != nullptr, seed == 0) << "of the first seed the model is kept";
      const std::string name = "copy-" + std::to_string(contender.heads) + (seed == 0 ? "" : "-seed-2");
      EXPECT_TRUE(std::filesystem::exists(scratch / (name + "/course.json"))) << name;
      EXPECT_EQ(to_json(contender.removals[seed]), course.conclusion) << name;
    }
    const train::Task& task = *contender.courses[0].task;
    const train::Batch batch = task.batch(train::Split::validation, 0, 32);
    std::vector<heads::Probe> probes;
    probes.push_back(heads::make_probe(batch.tokens, batch.lengths, task.special_tokens(), 1));
    const heads::Survey survey = heads::survey(context, *contender.courses[0].model, probes);
    for (std::size_t h = 0; h < survey.heads.size(); ++h) {
      EXPECT_DOUBLE_EQ(contender.entropies(0)[h],
                       survey.heads[h].mean(Statistic::normalised_entropy, Statistic::normalised_rows));
    }
  }
  ASSERT_EQ(study.anatomies.size(), 1u);
  EXPECT_EQ(study.anatomies[0].examination.roles.size(), 8u);
  EXPECT_TRUE(std::filesystem::exists(scratch / "copy-8-pruned/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "copy-8-pruned-seed-2"));

  // On another rank the courses are trained alone, and come to the same.
  const io::Scratch ranked;
  run(train_for(plan, ranked.folder(), kNobody));
  EXPECT_FALSE(std::filesystem::exists(ranked / "copy-8-pruned"));
  EXPECT_EQ(io::slurp(ranked / "copy-16-seed-2/course.json"), io::slurp(scratch / "copy-16-seed-2/course.json"));
}

// Each order goes until a point is lost, or to the end; what is left is judged where nothing was ranked or stopped.
TEST(Removals, RankJudgeAndReportOnDifferentSequences) {
  Context context(1);
  const auto task = train::make_task({.name = "copy", .context = 9});
  const train::Plan plan = make_plan("copy", 1, 32, 4, {.steps = 60, .batch = 16, .rate = 5e-3});
  train::Plan small = plan;
  small.task.context = 9;
  const Course course = follow(context, small, {.every = 60, .sequences = 64}, kNobody);
  for (const bool to_the_end : {false, true}) {
    const Removal found =
        remove_heads(context, *course.model, *task, {.samples = 32, .random_orders = 2, .to_the_end = to_the_end});
    const exam::Material material = exam::make_material(*task, {.samples = 32});
    const auto accuracy = [&](const std::vector<Examples>& examples, const std::vector<HeadId>& gone) {
      model::Gates gates(course.model->config());
      gates.shut(gone);
      return model::score(context, *course.model, examples, gates.get()).accuracy();
    };
    EXPECT_EQ(found.accuracy, accuracy(material.reporting, {}));
    EXPECT_EQ(found.ranked_loss, found.accuracy - accuracy(material.reporting, found.ranked.removed()));
    EXPECT_EQ(found.by_gradient_loss, found.accuracy - accuracy(material.reporting, found.by_gradient.removed()));
    EXPECT_EQ(found.ranked.accuracy, accuracy(material.judging, {}));
    const HeadId first = found.ranked.steps[0].removed;
    EXPECT_EQ(found.ranked.steps[0].accuracy, accuracy(material.judging, {first}));
    for (const HeadId& other : model::all_heads(course.model->config())) {
      EXPECT_LE(accuracy(material.ranking, {other}), accuracy(material.ranking, {first})) << "the first costs least";
    }
    ASSERT_EQ(found.random.size(), 2u);
    for (const PruneCurve* curve : {&found.ranked, &found.by_gradient, &found.random[0], &found.random[1]}) {
      if (to_the_end) {
        EXPECT_EQ(curve->steps.size(), 4u);
      } else {
        EXPECT_EQ(curve->steps.size(), std::min<std::size_t>(4, curve->within_budget + 1));
      }
    }
  }
}

// The whole study, as the findings report it, and the quick one. Its work is known before it begins.
TEST(Study, IsOfThisExtent) {
  for (const bool quick : {false, true}) {
    const io::Scratch scratch;
    const auto removal = [&](std::int64_t samples) {
      return quick ? RemovalPlan{.samples = 64, .random_orders = 2}
                   : RemovalPlan{.samples = samples, .random_orders = 5};
    };
    const ComparisonPlan copy{.task = "copy",
                              .layers = 1,
                              .width = 256,
                              .hidden = 512,
                              .steps = quick ? 60 : 120,
                              .batch = 32,
                              .every = 1,
                              .sequences = 64,
                              .rate = 1e-3,
                              .seeds = quick ? 1u : 10u,
                              .dissected = 1,
                              .removal = removal(128),
                              .expected = quick ? 1 : 0.4};
    const ComparisonPlan classify{.task = "classify",
                                  .layers = 1,
                                  .width = 256,
                                  .hidden = 512,
                                  .steps = quick ? 60 : 640,
                                  .batch = 64,
                                  .every = 20,
                                  .sequences = 512,
                                  .rate = 1e-3,
                                  .seeds = quick ? 1u : 5u,
                                  .dissected = 1,
                                  .removal = removal(512),
                                  .expected = quick ? 1 : 0.85};
    const ComparisonPlan grammar{.task = "grammar",
                                 .layers = 1,
                                 .width = 256,
                                 .hidden = 512,
                                 .steps = quick ? 60 : 240,
                                 .batch = 16,
                                 .every = 20,
                                 .sequences = 256,
                                 .rate = 1e-3,
                                 .seeds = quick ? 1u : 6u,
                                 .dissected = quick ? 1u : 6u,
                                 .removal = removal(256),
                                 .expected = 1};
    const FormationPlan formation{
        .width = 128, .heads = 2, .steps = quick ? 220 : 300, .batch = 32, .every = 10, .seeds = quick ? 1u : 3u};
    const double work = work_of(copy, scratch.folder()) + work_of(classify, scratch.folder()) +
                        work_of(formation, scratch.folder()) + work_of(grammar, scratch.folder());
    std::int64_t planned = 0;
    const auto stop = [&](std::int64_t, std::int64_t total) {
      planned = total;
      throw Interrupted();
    };
    EXPECT_THROW(run_study({.folder = scratch / "study", .quick = quick, .threads = 1}, stop), Interrupted);
    EXPECT_NEAR(static_cast<double>(planned), 1e3 * work, 1) << (quick ? "quick" : "whole");
  }
}

// A study of one seed and hardly a step.
class TinyStudy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const io::Scratch scratch;
    results_ = new Results;
    const Watch watch = [](double work) { done_ += work; };
    planned_ = work_of(kFormation, scratch.folder());
    run(form(kFormation, scratch.folder(), watch, results_->formations));
    results_->tasks.resize(2);
    run(compare(plan_of("classify"), scratch.folder(), kNobody, results_->tasks[0]));
    run(compare(plan_of("grammar"), scratch.folder(), kNobody, results_->tasks[1]));
    pruned_is_there_ = std::filesystem::exists(scratch / "grammar-8-pruned/run.json");
  }
  static void TearDownTestSuite() { delete results_; }

  static ComparisonPlan plan_of(const std::string& task) {
    return {.task = task,
            .width = 16,
            .hidden = 8,
            .steps = 4,
            .batch = 4,
            .every = 4,
            .sequences = 64,
            .seeds = 1,
            .removal = kFewSequences};
  }
  static const TaskStudy& grammar() { return results_->tasks[1]; }
  static const Anatomy& anatomy() { return grammar().anatomies[0]; }
  static const Course& course() { return grammar().dissected().courses[0]; }
  static inline const FormationPlan kFormation{.width = 16, .heads = 2, .steps = 2, .batch = 4, .every = 1, .seeds = 1};
  static inline double planned_ = 0, done_ = 0;  // work
  Context context_{1};
  static Results* results_;
  static bool pruned_is_there_;
};
Results* TinyStudy::results_ = nullptr;
bool TinyStudy::pruned_is_there_ = false;

TEST_F(TinyStudy, IsAsMuchWorkAsWasPlanned) {
  EXPECT_NEAR(done_, planned_, 1e-9 * planned_);
  const io::Scratch scratch;
  FormationPlan formation = kFormation;
  formation.seeds = 3;
  EXPECT_NEAR(work_of(formation, scratch.folder()), 3 * planned_, 1e-9);
  Results results;
  EXPECT_EQ(form(formation, scratch.folder(), kNobody, results.formations).size(), 9u);
  for (const auto* seeds : {&results.formations.two_layers, &results.formations.one_layer})
    EXPECT_EQ(seeds->size(), 3u);
  EXPECT_EQ(results.formations.fixed_length.size(), 3u);
  EXPECT_EQ(results.formations.knock_outs.size(), 3u);
}

TEST_F(TinyStudy, FormationsAreWatchedAndJudged) {
  const Formations& formations = results_->formations;
  for (const auto& [one, layers, task, name] :
       {std::tuple<const Formation&, std::size_t, std::string, std::string>{formations.two_layers[0], 2, "repeat",
                                                                            "repeat, two layers"},
        {formations.one_layer[0], 1, "repeat", "repeat, one layer"},
        {formations.fixed_length[0], 2, "repeat-fixed", "repeat of fixed length, two layers"}}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(one.name, name);
    EXPECT_EQ(one.course.task->name(), task);
    EXPECT_EQ(one.course.plan.model.layers.size(), layers);
    EXPECT_EQ(one.course.plan.model.feed_forward, model::FeedForward::none);
    ASSERT_EQ(one.course.points.size(), 3u);
    const auto survey_of = [&](const std::vector<heads::Probe>& probes) {
      return heads::survey(context_, *one.course.model, probes);
    };
    const heads::Survey ours = survey_of(repeat_probes(*one.course.task)),
                        naive = survey_of(repeat_probes(*one.course.task, 32));
    const std::vector<heads::HeadRoles> judged = heads::roles(ours, ours);
    double best = 0, best_naive = 0;
    for (std::size_t h = 0; h < ours.heads.size(); ++h) {
      EXPECT_DOUBLE_EQ(one.previous(one.course.points.back())[h], previous_score(ours.heads[h]));
      // The curve ends where the role's score is.
      const double score = judged[h].score_in("induction")->score;
      EXPECT_DOUBLE_EQ(one.induction(one.course.points.back())[h], score);
      EXPECT_EQ(one.roles[h].score_in("induction")->score, score);
      best = std::max(best, score);
      best_naive = std::max(best_naive, heads::roles(naive, naive)[h].score_in("induction")->score);
    }
    EXPECT_DOUBLE_EQ(one.ours, best);
    EXPECT_DOUBLE_EQ(one.naive, best_naive);
  }
}

// Segments differ in length, or all have the one that is asked for; the first token of the task comes first.
TEST_F(TinyStudy, ProbesRepeatWhatTheyAreAskedTo) {
  const auto task = train::make_task({.name = "repeat"});
  std::set<std::int64_t> lengths;
  for (const std::optional<std::int64_t> asked : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{24}}) {
    const heads::Probe probe = std::move(repeat_probes(*task, asked)[0]);
    const std::int64_t B = probe.tokens.shape()[0], T = probe.tokens.shape()[1];
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int32_t* row = probe.tokens.as<std::int32_t>() + b * T;
      EXPECT_EQ(row[0], task->special_tokens()[0]);
      const std::int64_t length = std::find(row + 2, row + T, row[1]) - (row + 1);
      if (asked) {
        EXPECT_EQ(length, *asked);
      } else {
        lengths.insert(length);
      }
    }
  }
  EXPECT_EQ(*lengths.begin(), 20);
  EXPECT_LE(*lengths.rbegin(), 31);
  EXPECT_GT(lengths.size(), 5u);
}

// However long the task, segments have 21 to 32 tokens.
TEST(RepeatProbes, HaveSegmentsOfUpTo32Tokens) {
  const auto task = train::make_task({.name = "repeat", .context = 100});
  const std::vector<heads::Probe> probes = repeat_probes(*task);
  std::set<std::int64_t> lengths;
  for (std::int64_t b = 0; b < 32; ++b) {
    const std::int32_t* row = probes[0].tokens.as<std::int32_t>() + b * 100;
    std::int64_t length = 1;
    while (!std::equal(row + 1 + length, row + 100, row + 1)) ++length;
    lengths.insert(length);
  }
  EXPECT_EQ(*lengths.begin(), 21);
  EXPECT_EQ(*lengths.rbegin(), 32);
}

TEST_F(TinyStudy, RelationsNameTheBestHead) {
  const heads::Survey& survey = anatomy().examination.survey;
  ASSERT_EQ(anatomy().relations.size(), survey.chance.relations.size());
  for (const auto& [name, found] : anatomy().relations) {
    double best = 0;
    HeadId id = survey.heads[0].id;
    for (const heads::HeadSurvey& head : survey.heads) {
      if (head.relations.at(name).value() <= best) continue;
      best = head.relations.at(name).value();
      id = head.id;
    }
    EXPECT_EQ(found.accuracy, best) << name;
    EXPECT_EQ(found.head, id) << name;
    EXPECT_EQ(found.offset, survey.chance.relations.at(name)) << name;
  }
}

TEST_F(TinyStudy, ThePrunedModelHasLostTheHeadsThatMayGo) {
  const Contender& contender = grammar().dissected();
  EXPECT_TRUE(pruned_is_there_);
  EXPECT_EQ(contender.removals[0].ranked.steps.size(), 8u) << "to the end, to be drawn";
  EXPECT_EQ(anatomy().parameters, course().model->parameter_count());
  const auto smaller = heads::without_heads(*course().model, contender.removals[0].ranked.removed());
  EXPECT_EQ(anatomy().pruned_parameters, smaller->parameter_count());
}

TEST_F(TinyStudy, ThePageShowsWhatTheModelsDo) {
  const std::vector<report::Model> shown = models(context_, *results_);
  ASSERT_EQ(shown.size(), 5u);
  EXPECT_EQ(shown[0].name, "repeat, two layers");
  EXPECT_EQ(shown[1].name, "classify, 8 heads");
  EXPECT_EQ(shown[2].name, "grammar, 8 heads");
  EXPECT_EQ(shown[3].name, "repeat, one layer");
  EXPECT_EQ(shown[4].name, "repeat of fixed length, two layers");
  const exam::Examination& examination = anatomy().examination;
  const std::vector<HeadId> gone = grammar().dissected().removals[0].ranked.removed();
  ASSERT_EQ(shown[2].heads.size(), 8u);
  for (std::size_t n = 0; n < 8; ++n) {
    const report::Head& head = shown[2].heads[n];
    const HeadImportance& importance = examination.importance[n];
    EXPECT_EQ(head.layer, static_cast<int>(importance.id.layer));
    EXPECT_EQ(head.head, static_cast<int>(importance.id.head));
    EXPECT_EQ(head.kept, std::find(gone.begin(), gone.end(), importance.id) == gone.end());
    EXPECT_EQ(head.importance, importance.normalised);
    EXPECT_EQ(head.damage, importance.zero.mean);
    EXPECT_EQ(head.damage_low, importance.zero.low);
    EXPECT_EQ(head.damage_high, importance.zero.high);
    const heads::RoleScore* role = examination.roles[n].role();
    ASSERT_NE(role, nullptr) << "after a few steps they average";
    EXPECT_EQ(head.role, role->role);
    EXPECT_EQ(head.score, role->score);
    EXPECT_EQ(head.roles.size(), examination.roles[n].scores.size());
    const auto mean = [&](Statistic value, Statistic count) { return examination.survey.heads[n].mean(value, count); };
    const std::vector<std::pair<std::string, double>> statistics{
        {"entropy (nats)", mean(Statistic::entropy, Statistic::rows)},
        {"entropy, relative", mean(Statistic::normalised_entropy, Statistic::normalised_rows)},
        {"largest weight", mean(Statistic::max_weight, Statistic::rows)},
        {"on the first key", mean(Statistic::first_weight, Statistic::rows)},
        {"on itself", mean(Statistic::self_weight, Statistic::self_rows)},
        {"on the key before", mean(Statistic::previous_weight, Statistic::previous_rows)},
        {"mean distance", mean(Statistic::distance, Statistic::rows)},
        {"adds to the logit of the right answer", importance.logit.mean}};
    EXPECT_EQ(head.statistics, statistics);
  }
  EXPECT_EQ(shown[0].samples.size(), 2u);
  EXPECT_EQ(shown[2].samples.size(), 4u);
  EXPECT_EQ(shown[0].note, "Trained on random segments of 8 to 32 tokens, repeated.");
  EXPECT_EQ(shown[2].note, "The task: " + course().task->summary() + ".");
  EXPECT_EQ(shown[3].note, "The same task as the first, with one layer.");
  EXPECT_EQ(shown[4].note, "All segments have 32 tokens, so looking back a fixed distance is enough.");
  for (const report::Model& model : shown) {
    for (const report::Sample& text : model.samples) {
      ASSERT_GT(text.tokens.size(), 6u);
      std::string name = text.tokens[0];
      for (std::size_t n = 1; n < 6; ++n) name += " " + text.tokens[n];
      EXPECT_EQ(text.name, name + " …");
    }
  }
}

TEST(Page, SaysWhatItIsAbout) {
  const auto minute = [] {
    std::ostringstream text;
    const std::time_t now = std::time(nullptr);
    text << std::put_time(std::gmtime(&now), "%Y-%m-%d %H:%M UTC");
    return text.str();
  };
  Results results;
  results.target = "a machine";
  results.threads = 3;
  results.seconds = 12.9;
  for (const bool quick : {false, true}) {
    results.quick = quick;
    const std::string before = minute();
    const auto lines = about(results);
    const std::string date = lines.at(3).second;
    EXPECT_TRUE(date == before || date == minute()) << date;
    std::vector<std::pair<std::string, std::string>> expected{{"version", std::string(version())},
                                                              {"device", "a machine"},
                                                              {"threads", "3"},
                                                              {"date", date},
                                                              {"time", "12 s"},
                                                              {"to open a model", "polyhead serve models/NAME"}};
    if (quick) expected.emplace_back("extent", "quick: fewer seeds and steps");
    EXPECT_EQ(lines, expected);
  }
}

// Weights of a head over a text: every row adds up to 1 and sees nothing that comes later; no two heads are the same.
TEST_F(TinyStudy, SamplesHoldTheWeightsOfEveryHead) {
  const report::Model shown = models(context_, *results_)[2];
  for (std::size_t number = 0; number < shown.samples.size(); ++number) {
    const report::Sample& sample = shown.samples[number];
    const train::Sequence sequence =
        course().task->sequence(train::Split::validation, 99, static_cast<std::int64_t>(number));
    const std::size_t T = std::min<std::size_t>(sequence.tokens.size(), 40);
    ASSERT_EQ(sample.tokens.size(), T);
    for (std::size_t t = 0; t < T; ++t) EXPECT_EQ(sample.tokens[t], course().task->token_text(sequence.tokens[t]));
    ASSERT_EQ(sample.heads.size(), 8u);
    EXPECT_EQ(sample.heads[5], (std::pair<int, int>{0, 5}));
    ASSERT_EQ(sample.weights.size(), 8 * T * T);
    for (std::size_t row = 0; row < 8 * T; ++row) {
      double sum = 0;
      for (std::size_t key = 0; key < T; ++key) {
        sum += static_cast<double>(sample.weights[row * T + key]);
        EXPECT_TRUE(key <= row % T || sample.weights[row * T + key] == 0);
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    const auto head = [&](std::size_t n) {
      return std::vector<float>(sample.weights.begin() + static_cast<std::ptrdiff_t>(n * T * T),
                                sample.weights.begin() + static_cast<std::ptrdiff_t>((n + 1) * T * T));
    };
    for (std::size_t n = 1; n < 8; ++n) EXPECT_NE(head(n), head(n - 1));
  }
}

}  // namespace
}  // namespace polyhead::study
