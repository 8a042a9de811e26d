// The study's parts: jobs, courses, and findings that say no more than the numbers do.
#include "study/study.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "io/scratch.h"
#include "study/findings.h"

namespace polyhead::study {
namespace {

TEST(Jobs, AllRunOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> sum{0};
    std::vector<Job> jobs;
    for (int n = 1; n <= 20; ++n) jobs.push_back([&, n](Context& context) { sum += n * context.threads(); });
    run_jobs(Device{}, threads, jobs);
    EXPECT_EQ(sum, 210);
  }
}

TEST(Jobs, TheFirstFailureEndsIt) {
  std::atomic<int> begun{0};
  std::vector<Job> jobs(50, [&](Context&) {
    ++begun;
    throw Interrupted();
  });
  EXPECT_THROW(run_jobs(Device{}, 2, jobs), Interrupted);
  EXPECT_LE(begun, 2);
}

// The other thread, whose jobs go well, does not begin another either.
TEST(Jobs, AFailureEndsThoseOfOtherThreads) {
  std::atomic<bool> failing = false;
  std::atomic<int> done{0};
  std::vector<Job> jobs(1000, [&](Context&) {
    while (!failing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++done;
  });
  jobs[0] = [&](Context&) {
    failing = true;
    throw Interrupted();
  };
  EXPECT_THROW(run_jobs(Device{}, 2, jobs), Interrupted);
  EXPECT_LT(done, 999);
}

Course course_with(const std::vector<double>& accuracies) {
  Course course;
  for (std::size_t n = 0; n < accuracies.size(); ++n) {
    course.points.push_back({static_cast<std::int64_t>(10 * n), 1, accuracies[n]});
  }
  return course;
}

TEST(Course, StepsToAnAccuracyThatStays) {
  EXPECT_EQ(course_with({0.1, 0.96, 0.5, 0.97, 0.99}).steps_to(0.95), 30);
  EXPECT_EQ(course_with({0.1, 0.96, 0.5}).steps_to(0.95), std::nullopt);
  EXPECT_EQ(course_with({0.95}).steps_to(0.95), 0);
}

TEST(Course, StillGainingLooksAtTheLastQuarter) {
  EXPECT_NEAR(course_with({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.7}).still_gaining(), 0.1, 1e-12);
  EXPECT_NEAR(course_with({0.1, 0.9, 0.9, 0.9, 0.9}).still_gaining(), 0, 1e-12);
  EXPECT_EQ(course_with({0.5}).still_gaining(), 0);
}

class Following : public ::testing::Test {
 protected:
  Following() { plan_.task.context = 9; }  // a look reads hundreds of sequences
  Course follow_with(const Route& route, const Observer& observe = {}) {
    return follow(
        context_, plan_, route,
        [&](double work) {
          ++calls_;
          work_ += work;
        },
        observe);
  }

  io::Scratch scratch_;
  Context context_{1};
  train::Plan plan_ = make_plan("copy", 1, 32, 4, {.steps = 25, .batch = 8, .rate = 3e-3});
  int calls_ = 0;
  double work_ = 0;
};

TEST_F(Following, LooksWhenItIsToldAndLearns) {
  const Course course = follow_with({.every = 10}, [](model::Transformer& model) {
    return std::vector<double>{static_cast<double>(model.config().head_count())};
  });
  EXPECT_EQ(calls_, 25 + 4);
  EXPECT_NEAR(work_, work_of(plan_, {.every = 10}), 1e-9) << "what was promised is what was told";
  std::vector<std::int64_t> looked;
  for (const Point& point : course.points) {
    looked.push_back(point.step);
    EXPECT_EQ(point.observed, std::vector<double>{4});
  }
  EXPECT_EQ(looked, (std::vector<std::int64_t>{0, 10, 20, 25}));
  EXPECT_LT(course.points.back().loss, course.points.front().loss);
  EXPECT_EQ(follow_with({.every = 10}).points.back().loss, course.points.back().loss);
  EXPECT_THROW(follow(context_, plan_, {.every = 10}, [](double) { throw Interrupted(); }), Interrupted);
}

TEST_F(Following, EndsAtTheSecondLookThatIsGoodEnough) {
  EXPECT_EQ(follow_with({.every = 5, .enough = 0}).points.back().step, 5);
  EXPECT_EQ(follow_with({.every = 5, .enough = 1.5}).points.back().step, 25);
  // One look is not enough: an accuracy may be so high for a moment.
  plan_.training.steps = 12;
  const std::vector<Point> all = follow_with({.every = 1}).points;
  const auto second_in_a_row = [&](double enough) {
    for (std::size_t n = 1; n < all.size(); ++n) {
      if (all[n - 1].accuracy >= enough && all[n].accuracy >= enough) return all[n].step;
    }
    return all.back().step;
  };
  for (const std::size_t n : {std::size_t{3}, std::size_t{6}}) {
    const double enough = all[n].accuracy;
    EXPECT_EQ(follow_with({.every = 1, .enough = enough}).points.back().step, second_in_a_row(enough)) << enough;
  }
}

// What is read has the numbers of what was trained, and the bits of its model.
TEST_F(Following, ACourseThatHasEndedIsReadNotTrained) {
  const Route route{.every = 10, .folder = scratch_ / "copy"};
  const auto observe = [](model::Transformer& model) {
    return std::vector<double>{1.0 / 3, model.parameters()[0]->value.as<float>()[0]};
  };
  const Course first = follow_with(route, observe);
  calls_ = 0;
  EXPECT_EQ(work_of(plan_, route), 0) << "nothing is left to do";
  const Course again = follow_with(route, observe);
  EXPECT_EQ(calls_, 0);
  ASSERT_EQ(again.points.size(), first.points.size());
  for (std::size_t n = 0; n < first.points.size(); ++n) {
    EXPECT_EQ(again.points[n].step, first.points[n].step);
    EXPECT_EQ(again.points[n].loss, first.points[n].loss);
    EXPECT_EQ(again.points[n].accuracy, first.points[n].accuracy);
    EXPECT_EQ(again.points[n].observed, first.points[n].observed);
  }
  EXPECT_EQ(observe(*again.model), observe(*first.model));

  plan_.training.seed = 2;  // another course: trained, and kept in its place
  follow_with(route, observe);
  EXPECT_GT(calls_, 0);
  const auto trains_again = [&](const std::string& file, const std::string& content) {
    io::spill(scratch_ / ("copy/" + file), content);
    calls_ = 0;
    follow_with(route, observe);
    EXPECT_GT(calls_, 0) << file;
  };
  std::string weights = io::slurp(scratch_ / "copy/model.safetensors"),
              course = io::slurp(scratch_ / "copy/course.json");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  trains_again("model.safetensors", weights);
  trains_again("course.json", course.substr(0, course.size() / 2));
  trains_again("course.json", "{}");
  course.replace(course.find("\"loss\": "), 8, "\"loss\": {}, \"x\": ");
  trains_again("course.json", course);
}

// Whatever its numbers depend on makes another course of it.
TEST_F(Following, ACourseOfAnotherPlanIsTrained) {
  plan_.training.steps = 2;
  const train::Plan plan = plan_;
  const Route route{.every = 1, .keep_model = false, .folder = scratch_ / "copy"};
  const auto trains = [&](const Route& way) {
    calls_ = 0;
    follow_with(way);
    return calls_ > 0;
  };
  EXPECT_TRUE(trains(route));
  const std::vector<std::pair<const char*, std::function<void(train::Plan&)>>> changes{
      {"steps", [](train::Plan& p) { p.training.steps = 3; }},
      {"batch", [](train::Plan& p) { p.training.batch = 9; }},
      {"rate", [](train::Plan& p) { p.training.rate = 4e-3; }},
      {"warmup", [](train::Plan& p) { p.training.warmup += 1; }},
      {"decay", [](train::Plan& p) { p.training.decay += 0.1; }},
      {"clip", [](train::Plan& p) { p.training.clip += 0.1; }},
      {"seed", [](train::Plan& p) { p.training.seed = 5; }},
      {"data", [](train::Plan& p) { p.task.seed = 5; }},
      {"width", [](train::Plan& p) { p.model = model::make_config(model::Kind::gpt, 1, 16, 4); }}};
  for (const auto& [name, change] : changes) {
    change(plan_ = plan);
    EXPECT_TRUE(trains(route)) << name;
    EXPECT_FALSE(trains(route)) << name << ": now it is that one";
    plan_ = plan;
    EXPECT_TRUE(trains(route)) << name << ": nor is that one the first";
  }
  EXPECT_TRUE(trains({.every = 2, .keep_model = false, .folder = scratch_ / "copy"})) << "other looks";
  EXPECT_TRUE(trains(route));
  EXPECT_TRUE(trains({.every = 1, .enough = 0.5, .keep_model = false, .folder = scratch_ / "copy"})) << "another end";
}

TEST_F(Following, AModelThatIsNotKeptIsNotWritten) {
  const Route route{.every = 10, .keep_model = false, .folder = scratch_ / "copy"};
  EXPECT_EQ(follow_with(route).model, nullptr);
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "copy/course.json"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "copy/model.safetensors"));
  calls_ = 0;
  EXPECT_EQ(follow_with(route).points.size(), 4u);
  EXPECT_EQ(calls_, 0);
}

// Courses that end with these accuracies, at the budget; those at 99 % and more were there a look before.
Contender contender(const std::string& task, std::int64_t heads, const std::vector<double>& final_accuracies) {
  Contender made{task, heads, {}};
  for (const double accuracy : final_accuracies) {
    made.courses.push_back(course_with({0, accuracy, accuracy}));
    made.courses.back().plan.training.steps = 20;
    made.courses.back().points.back().observed.assign(static_cast<std::size_t>(heads), 0.5);
  }
  return made;
}

// Results that say nothing but what the contenders say.
Results results_with(std::vector<Contender> copy, std::vector<Contender> classify) {
  Results results;
  results.copy = std::move(copy);
  results.classify = std::move(classify);
  for (auto* seeds :
       {&results.formations.two_layers, &results.formations.one_layer, &results.formations.fixed_length}) {
    seeds->resize(2);
    for (Formation& formation : *seeds) formation.course = course_with({0, 0.5});
  }
  results.formations.knock_outs.resize(2);
  results.anatomies.resize(2);
  for (Anatomy& anatomy : results.anatomies) {
    anatomy.examination.importance.resize(4);
    anatomy.random.resize(1);
    anatomy.saving.before =
        anatomy.saving.after = {.heads = 4, .parameters = 100, .seconds_of_one = 1, .seconds_of_16 = 1};
  }
  return results;
}

std::string all_findings(const Results& results) {
  std::string text;
  for (const report::Finding& finding : findings(results)) text += finding.text + "\n";
  return text;
}
void expect_said(const Results& results, const std::string& what) {
  const std::string text = all_findings(results);
  EXPECT_NE(text.find(what), std::string::npos) << what << "\nin\n" << text;
}
void expect_unsaid(const Results& results, const std::string& what) {
  const std::string text = all_findings(results);
  EXPECT_EQ(text.find(what), std::string::npos) << what << "\nin\n" << text;
}

// Five head counts with two seeds, as the study has them.
std::vector<Contender> five(const std::string& task, const std::vector<std::vector<double>>& accuracies) {
  std::vector<Contender> made;
  for (std::size_t n = 0; n < accuracies.size(); ++n) made.push_back(contender(task, kHeadCounts[n], accuracies[n]));
  return made;
}
const std::vector<std::vector<double>> kAllSolved{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};

TEST(Findings, TellATrendFromNoise) {
  const Results results =
      results_with(five("copy", {{0.90, 0.97}, {0.96, 0.91}, {0.93, 0.98}, {0.92, 0.95}, {0.98, 0.90}}),
                   five("classify", {{0.30, 0.35}, {0.40, 0.45}, {0.70, 0.80}, {0.93, 0.90}, {0.99, 1}}));
  expect_said(
      results,
      "Ability: on “copy” (2 seeds, trained to a stable 99 % or for 20 steps), final accuracy shows no trend with");
  expect_said(
      results,
      "“classify” (2 seeds, trained to a stable 99 % or for 20 steps), final accuracy rises with the number of heads");
  expect_said(results, "93.0 % to 98.0 % with 4 heads (2 of 2 seeds fall short)");
  expect_unsaid(results, "with 16 heads (2 of 2 seeds fall short); the others solve it.\nSpeed: on “classify”");
}

TEST(Findings, WhereNoneSolvesItThereAreNoOthers) {
  const Results results =
      results_with(five("copy", {{0.5, 0.5}, {0.5, 0.5}}), five("classify", {{0.4, 0.5}, {0.5, 0.4}}));
  expect_unsaid(results, "the others solve it");
  expect_said(results, "Speed: on “copy”, no run reaches 99 %, so there is nothing to compare.");
  expect_said(results, "Entropy: on “classify”, too few models solved the task");
}

TEST(Findings, ATaskThatAllSolveTellsNothingOfAbility) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  expect_said(
      results,
      "Ability: on “copy” (2 seeds, trained to a stable 99 % or for 20 steps), every number of heads solves the task "
      "with every seed: it does not separate them");
  for (Contender& c : results.classify) {  // the more heads, the sooner
    for (Course& course : c.courses) course.points[1].step = 1000 / c.heads;
  }
  expect_said(results, "Speed: on “classify”, more heads need fewer steps to reach 99 % (rank correlation -1.00");
  expect_said(results, "): 1000 with 1 head, 500 with 2 heads");
}

// One seed of ten that is not solved must not be passed over: not in ability, not in speed, not in entropy.
TEST(Findings, AnUnsolvedSeedIsSaid) {
  auto copy = kAllSolved;
  copy[3][1] = 0.8;
  Results results = results_with(five("copy", copy), five("classify", kAllSolved));
  expect_said(results, "80.0 % to 100.0 % with 8 heads (1 of 2 seeds fall short); the others solve it.");
  expect_unsaid(results, "still improving");
  results.copy[3].courses[1].points[1].accuracy = 0.5;  // half a look before
  results.copy[3].courses[1].points.insert(results.copy[3].courses[1].points.begin() + 1, {5, 1, 0.5});
  results.copy[3].courses[1].points.back().accuracy = 0.8;
  expect_said(results, "(1 of 2 seeds fall short, 1 of them still improving)");
  results.copy[4].courses[0].points.back().accuracy = 0.5;
  EXPECT_EQ(results.copy[4].solved(), 1u);
  EXPECT_EQ(results.copy[4].mean_entropies().size(), 1u) << "what has not learnt it does not count";
  ASSERT_TRUE(steps_to_solve(results.copy[4]).has_value());
  results.copy[4].courses[1].points.back().accuracy = 0.5;
  EXPECT_FALSE(steps_to_solve(results.copy[4]).has_value());
}

TEST(Findings, EntropiesAreComparedWithTheirIntervals) {
  Results results =
      results_with(five("copy", kAllSolved), five("classify", {{0.5, 0.5}, {1, 1}, {1, 1}, {1, 1}, {0.5, 1}}));
  const auto set = [](Contender& c, const std::vector<double>& means) {
    for (std::size_t n = 0; n < means.size(); ++n) c.courses[n].points.back().observed = {means[n]};
  };
  set(results.copy[0], {0.30, 0.31});
  set(results.copy[4], {0.60, 0.62});
  expect_said(results,
              "on “copy”, heads attend more broadly with 16 heads than with 1 head: mean relative entropy 0.61");
  set(results.copy[4], {0.1, 0.6});  // two seeds as far apart say nothing
  expect_said(results,
              "on “copy”, heads cannot be shown to attend more broadly or narrowly with 16 heads than with 1 head");
  set(results.copy[0], {0.3, 0.4});
  set(results.copy[4], {0.34, 0.35});  // all of the one interval lies within the other
  expect_said(results, "on “copy”, heads cannot be shown to attend more broadly or narrowly");
  set(results.copy[0], {0.30, 0.31});
  set(results.copy[4], {0.10, 0.11});
  expect_said(results, "on “copy”, heads attend more narrowly with 16 heads than with 1 head");
  expect_said(results, "with 8 heads than with 2 heads");  // 16 was solved by one seed, 1 by none
}

// Two contenders with two seeds each: whatever they show, it is too little to say.
TEST(Findings, AFewRunsProveNothing) {
  const Results results = results_with(five("copy", {{1, 1}, {1, 1}}), five("classify", {{0.30, 0.31}, {0.93, 0.94}}));
  expect_unsaid(results, "accuracy rises");
  expect_said(results, "rank correlation 0.00, p = 1");
}

TEST(Findings, CountTheSeedsThatHaveAHeadAndNameItsScore) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  results.formations.two_layers[0].roles = {
      {{0, 1}, {{"induction", 0.55, 0.4, 0.1, "", heads::Interval{0.52, 0.58}}}},
      {{1, 0}, {{"induction", 0.9, 0.4, 0.85, "", heads::Interval{0.88, 0.96}}}}};  // it beats no control
  expect_said(results,
              "with induction heads in 1 of 2 seeds (best scores 0.55; 1 too close to call) and previous-token");
  results.formations.two_layers[1].roles = {{{1, 1}, {{"induction", 0.96, 0.4, 0.1}}}};
  expect_said(results, "with induction heads in 2 of 2 seeds (best scores 0.55 to 0.96;");
}

TEST(Findings, DoNotPraiseARankingThatDoesNotHelp) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  for (Anatomy& anatomy : results.anatomies) {
    anatomy.random[0].within_budget = 2;
    anatomy.iterative.steps.resize(4);
  }
  expect_said(results, "Ranking does not help here");
  results.anatomies[0].iterative.within_budget = 4;
  results.anatomies[1].iterative.within_budget = 2;
  expect_said(results, "beats every random order in only 1 of 2 seeds");
  results.anatomies[1].iterative.within_budget = 3;
  expect_said(results, "beats every random order with every seed");
  expect_said(results, "Of 4 heads, 3 to 4 can be removed");
}

TEST(Findings, SayWhatPruningSaves) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  for (Anatomy& anatomy : results.anatomies) {
    anatomy.saving.before = {.heads = 4, .parameters = 200, .accuracy = 0.9};
    anatomy.saving.after = {.heads = 3, .parameters = 150, .accuracy = 0.8};
  }
  expect_said(results,
              "have 25.0 % fewer parameters; on sequences that pruning never saw they reach 80.0 % where the "
              "originals reach 90.0 %.");
}

// Two values come as far apart by chance in either order.
TEST(Findings, CountTrendsOfBothKindsAsChance) {
  expect_said(results_with(five("copy", kAllSolved), five("classify", {{0.3}, {0.9}})),
              "rank correlation 1.00, p = 1)");
  expect_said(results_with(five("copy", kAllSolved), five("classify", {{0.9}, {0.3}})),
              "rank correlation -1.00, p = 1)");
}

TEST(Findings, ALinkHasAHeadOnlyAboveTheOffsetAndItsMargin) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  results.anatomies[0].relations = {{"subject-verb", {0.85, 0.25, {0, 1}}}};
  results.anatomies[1].relations = {{"subject-verb", {0.33, 0.27, {1, 0}}}};
  auto& roles = results.anatomies[1].examination.roles;
  roles = {{{1, 0}, {{"subject-verb", 0.33, 0.37, 0.27, "", heads::Interval{0.30, 0.38}}}}};
  expect_said(
      results,
      "The grammar's link “subject-verb” has a head in 1 of 2 seeds: the best head looks at the linked word in "
      "33.0 % to 85.0 % of cases, the best fixed offset in 25.0 % to 27.0 %; too close to call in 1 of 2 seeds.");
  results.anatomies[1].relations["subject-verb"].accuracy = 0.43;
  roles[0].scores[0].interval = heads::Interval{0.39, 0.47};
  expect_said(results, "has a head in 2 of 2 seeds");
  expect_unsaid(results, "too close to call in");
}

TEST(Findings, SayWhatGoesWithTheHeadsThatCopy) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  results.formations.knock_outs = {{.nothing = 0.99, .previous = 0.3, .induction = 0.03, .both = 0.02, .others = 0.98},
                                   {.nothing = 0.97}};
  expect_said(results,
              "Two layers copy with an accuracy of 97.0 % to 99.0 %; without previous-token heads: 30.0 %; without "
              "induction heads: 3.0 %; without both: 2.0 %; without all other heads: 98.0 %.");
}

TEST(Findings, SayWhereANaiveDetectorIsFooled) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  std::vector<Formation>& fixed = results.formations.fixed_length;
  fixed[0].naive = 0.95;
  fixed[0].ours = 0.04;
  fixed[1].naive = 0.35;
  fixed[1].ours = 0.05;
  expect_said(results,
              "Their best induction scores are 0.35 to 0.95 at that length and 0.04 to 0.05 at others. In 1 of 2 seeds "
              "the heads look back a fixed distance, which fools");
  fixed[0].roles = {{{1, 0}, {{"induction", 0.9, 0.4, 0.1}}}};  // it found the real thing
  expect_unsaid(results, "fools a detector");
}

TEST(Findings, SayHowAlikeGradientAndDamageRank) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  for (const auto& [lower, said] :
       {std::pair{0.75, "rank the heads alike: Spearman's correlation is 0.75 to 0.90."},
        {0.5, "rank the heads similarly, not alike: Spearman's correlation is 0.50 to 0.90."},
        {0.1, "rank the heads differently: Spearman's correlation is 0.10 to 0.90."}}) {
    results.anatomies[0].examination.gradient_and_zero = 0.9;
    results.anatomies[1].examination.gradient_and_zero = lower;
    expect_said(results, said);
  }
}

TEST(Findings, SayHowSureTheyAre) {
  Results results = results_with(five("copy", {{0.1, 0.1}, {0.2, 0.2}, {0.3, 0.3}, {0.4, 0.4}, {0.5, 0.5}}),
                                 five("classify", {{0.1, 0.4}, {0.2, 0.3}, {0.1, 0.5}, {0.4, 0.2}, {0.5, 0.4}}));
  expect_said(results, "(rank correlation 1.00, p < 0.001)");
  expect_said(results, ", p = 0.");
}

TEST(Findings, SayWhatSpeaksAgainstTheRanking) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  const auto curve = [](const std::vector<double>& accuracies) {
    PruneCurve made{0, 1, {}, 0};
    for (const double accuracy : accuracies) made.steps.push_back({{}, 0, accuracy});
    return made;
  };
  Anatomy& anatomy = results.anatomies[0];
  anatomy.one_shot = curve({0.9, 0.9, 0.5, 0.4, 0.1});
  anatomy.random = {curve({0.8, 1.0, 0.6, 0.6, 0.1}), curve({0.8, 0.7, 0.6, 0.6, 0.1})};
  EXPECT_EQ(anatomy.one_shot_below_random(), 3u);
  expect_said(results, "from 3 heads on it does worse than the average random order, in 1 of 2 seeds");
  anatomy.one_shot = curve({0.7, 0.9, 0.9, 0.9, 0.1});
  EXPECT_EQ(anatomy.one_shot_below_random(), std::nullopt) << "it must stay so";
  anatomy.random = {curve({0.75, 1, 0.5, 0.5, 0}), curve({0.75, 0.5, 0.5, 0.5, 0})};
  anatomy.one_shot = curve({0.5, 0.75, 0.5, 0.5, 0});
  EXPECT_EQ(anatomy.one_shot_below_random(), std::nullopt) << "as good is not worse";
}

TEST(Findings, ALabelThatDoesNotExplainIsSaid) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  for (Anatomy& anatomy : results.anatomies) {
    HeadImportance& head = anatomy.examination.importance[2];
    head.id = {0, 2};
    head.zero = {1.5, 1.4, 1.6};
    head.logit = {2.25, 2, 3};
    anatomy.examination.roles.resize(4);
    anatomy.examination.roles[2] = {{0, 2}, {{"averaging", 0.95, 0.9, 0}}};
  }
  expect_said(results,
              "seed 1, 0.2 (averaging), which adds 2.25 to the logit of the right word and whose removal raises the "
              "loss by 1.50");
  expect_said(results, "In 2 of 2 seeds its role does not say why");
  for (Anatomy& anatomy : results.anatomies) anatomy.examination.roles[2] = {{0, 2}, {{"duplicate", 0.9, 0.4, 0}}};
  expect_unsaid(results, "its role does not say why");
}

}  // namespace
}  // namespace polyhead::study
