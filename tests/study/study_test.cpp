// The study's parts: jobs, courses, and findings that say no more than the numbers do.
#include "study/study.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "io/scratch.h"
#include "study/findings.h"
#include "study/words.h"

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
  EXPECT_TRUE(trains({.every = 1, .sequences = 64, .keep_model = false, .folder = scratch_ / "copy"}))
      << "shorter ones";
  EXPECT_TRUE(trains(route));
  EXPECT_TRUE(trains({.every = 1, .enough = 0.5, .keep_model = false, .folder = scratch_ / "copy"})) << "another end";
}

// What is found out at the end is kept with the course, and found out again only if it depends on something else.
TEST_F(Following, AConclusionIsKept) {
  const Route route{.every = 10, .sequences = 64, .keep_model = false, .folder = scratch_ / "copy"};
  int asked = 0;
  const auto concluding = [&](const std::string& mark) {
    return follow(context_, plan_, route, [](double) {}, {}, {.mark = mark, .find = [&](model::Transformer& model) {
                                                                ++asked;
                                                                return std::to_string(model.config().head_count());
                                                              }});
  };
  EXPECT_EQ(concluding("a").conclusion, "4");
  EXPECT_EQ(concluding("a").conclusion, "4");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(concluding("b").conclusion, "4");
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(follow_with(route).conclusion, "") << "nothing was asked";
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

// Of eight heads these may go in the three orders, and the pruned model loses so much.
Removal removal(std::size_t ranked, std::size_t by_gradient, std::size_t random, double loss = 0.005) {
  const auto curve = [](std::size_t within) {
    PruneCurve made{0, 0.9, {}, within};
    for (std::int64_t head = 0; head < kDissected; ++head) made.steps.push_back({{0, head}, 0, 0.9});
    return made;
  };
  return {.ranked = curve(ranked),
          .by_gradient = curve(by_gradient),
          .random = {curve(random), curve(random)},
          .accuracy = 0.9,
          .ranked_loss = loss};
}

// Courses that end with these accuracies, at the budget; those at 99 % and more were there a look before.
Contender contender(const std::string& task, std::int64_t heads, const std::vector<double>& final_accuracies) {
  Contender made{task, heads, {}, {}};
  for (const double accuracy : final_accuracies) {
    made.courses.push_back(course_with({0, accuracy, accuracy}));
    Course& course = made.courses.back();
    course.plan.training.steps = 20;
    course.plan.model.layers = {{heads, heads, 0}};
    for (Point& point : course.points) point.observed.assign(static_cast<std::size_t>(heads), 0.5);
    made.removals.push_back(removal(0, 0, 0));
  }
  return made;
}

TaskStudy task_of(std::vector<Contender> contenders) {
  TaskStudy task{contenders[0].task, std::move(contenders), {}};
  task.anatomies.resize(task.contenders[0].courses.size());
  for (Anatomy& anatomy : task.anatomies) {
    anatomy.examination.importance.resize(kDissected);
    anatomy.examination.roles.resize(kDissected);
    for (std::int64_t head = 0; head < kDissected; ++head) {
      anatomy.examination.roles[static_cast<std::size_t>(head)].id = {0, head};
    }
    anatomy.relations["link"] = {0.5, 0.25, {0, 0}};
  }
  return task;
}

// Results that say nothing but what the contenders say.
Results results_with(std::vector<Contender> copy, std::vector<Contender> classify) {
  Results results;
  results.tasks.push_back(task_of(std::move(copy)));
  results.tasks.push_back(task_of(std::move(classify)));
  for (auto* seeds :
       {&results.formations.two_layers, &results.formations.one_layer, &results.formations.fixed_length}) {
    seeds->resize(2);
    for (Formation& formation : *seeds) formation.course = course_with({0, 0.5});
  }
  results.formations.knock_outs.resize(2);
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
  expect_said(results, "93.0 % to 98.0 % with 4 heads, ");
  expect_said(results, "99.0 % to 100.0 % with 16 heads (2 of 2 seeds there).");
}

TEST(Findings, WhereNoneSolvesItThereAreNoOthers) {
  const std::vector<std::vector<double>> none{{0.5, 0.4}, {0.5, 0.5}, {0.4, 0.5}, {0.4, 0.4}, {0.5, 0.4}};
  const Results results = results_with(five("copy", none), five("classify", kAllSolved));
  expect_said(results, "40.0 % to 50.0 % with 16 heads.");
  expect_unsaid(results, "Speed: on “copy”");
  expect_said(results, "Speed: on “classify”");
}

TEST(Findings, ATaskThatAllSolveTellsNothingOfAbility) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  expect_said(
      results,
      "Ability: on “copy” (2 seeds, trained to a stable 99 % or for 20 steps), every number of heads solves the task "
      "with every seed: it does not separate them");
  for (Contender& c : results.tasks[1].contenders) {  // the more heads, the sooner
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
  expect_said(results,
              "80.0 % to 100.0 % with 8 heads (1 of 2 seeds there), 100.0 % with 16 heads (2 of 2 seeds there).");
  expect_unsaid(results, "still improving");
  std::vector<Point>& points = results.tasks[0].contenders[3].courses[1].points;
  points[1].accuracy = 0.5;  // half a look before
  points.insert(points.begin() + 1, {5, 1, 0.5, points[0].observed});
  points.back().accuracy = 0.8;
  expect_said(results, "Of those that fall short, 1 were still improving.");
  Contender& most = results.tasks[0].contenders[4];
  most.courses[0].points.back().accuracy = 0.5;
  EXPECT_EQ(most.solved(), 1u);
  ASSERT_TRUE(steps_to_solve(most).has_value());
  most.courses[1].points.back().accuracy = 0.5;
  EXPECT_FALSE(steps_to_solve(most).has_value());
}

Course course_through(const std::vector<std::array<double, 3>>& points) {  // step, loss, entropy
  Course course;
  for (const auto& [step, loss, entropy] : points) {
    course.points.push_back({static_cast<std::int64_t>(step), loss, 0.5, {entropy - 0.1, entropy + 0.1}});
  }
  return course;
}

TEST(Entropies, LieOnTheLineBetweenTwoValidations) {
  const Course course = course_through({{0, 2, 0.9}, {10, 1, 0.7}, {20, 1.2, 0.3}, {30, 0.4, 0.1}});
  EXPECT_NEAR(entropy_at_step(course, 0), 0.9, 1e-12);
  EXPECT_NEAR(entropy_at_step(course, 15), 0.5, 1e-12);
  EXPECT_NEAR(entropy_at_step(course, 30), 0.1, 1e-12);
  EXPECT_NEAR(entropy_at_loss(course, 3), 0.9, 1e-12);
  EXPECT_NEAR(entropy_at_loss(course, 1.25), 0.75, 1e-12) << "the first time";
  EXPECT_NEAR(entropy_at_loss(course, 0.8), 0.2, 1e-12);
}

TEST(Entropies, AreComparedWhereEveryRunHasBeen) {
  std::vector<Contender> contenders;
  contenders.push_back({"copy", 1, {}, {}});
  contenders.back().courses.push_back(course_through({{0, 2, 0.9}, {10, 0.3, 0.7}, {20, 0.5, 0.3}}));
  contenders.back().courses.push_back(course_through({{0, 2, 0.9}, {10, 0.6, 0.7}}));
  const Common common = common_of(contenders);
  EXPECT_EQ(common.step, 10);
  EXPECT_EQ(common.loss, 0.6);
}

// Entropies of every run, from few heads to many.
void set_entropies(TaskStudy& task, const std::vector<std::vector<double>>& values) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    for (std::size_t seed = 0; seed < 2; ++seed) {
      for (Point& point : task.contenders[n].courses[seed].points) point.observed = {values[n][seed]};
    }
  }
}

TEST(Findings, EntropiesAreComparedAtEqualLossAndEqualSteps) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  set_entropies(results.tasks[0], {{0.30, 0.31}, {0.4, 0.41}, {0.5, 0.51}, {0.55, 0.56}, {0.60, 0.62}});
  set_entropies(results.tasks[1], {{0.5, 0.3}, {0.4, 0.41}, {0.3, 0.5}, {0.5, 0.3}, {0.3, 0.5}});
  expect_said(results, "On “copy”, at 1.00 nats, heads attend more broadly the more there are (rank correlation 0.9");
  expect_said(results, "On “copy”, at step 20, heads attend more broadly");
  expect_said(results, "0.30 (0.24 to 0.37) with 1 head, 0.61 (0.48 to 0.74) with 16 heads.");
  expect_said(results, "On “classify”, at step 20, heads cannot be shown to");
  set_entropies(results.tasks[1], {{0.60, 0.62}, {0.55, 0.56}, {0.5, 0.51}, {0.4, 0.41}, {0.30, 0.31}});
  expect_said(results, "On “classify”, at step 20, heads attend more narrowly");
}

// A few runs, whatever they show, are too few to say so.
TEST(Findings, AFewRunsProveNothing) {
  const Results results =
      results_with(five("copy", {{1}, {1}, {1}, {1}, {1}}), five("classify", {{0.3}, {0.93}, {0.5}, {0.94}, {0.9}}));
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

// Both contenders with 8 heads and more.
void set_removals(TaskStudy& task, const std::vector<Removal>& by_seed) {
  for (Contender& contender : task.contenders) contender.removals = by_seed;
}

TEST(Findings, DoNotPraiseARankingThatDoesNotHelp) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  set_removals(results.tasks[0], {removal(2, 1, 2), removal(3, 1, 3)});
  expect_said(
      results,
      "On “copy”, 31.2 % of 8 heads and 15.6 % of 16 heads can go for at most one point of accuracy in the order of "
      "what each costs alone, 12.5 % and 6.2 % by gradient, 31.2 % and 15.6 % in random order.");
  expect_said(results, "Ranking is not shown to be better than chance: 0.0 % of the heads more.");
  set_removals(results.tasks[0], {removal(6, 1, 2), removal(7, 1, 3)});
  expect_said(results, "Ranking is better than chance: 37.5 %");
  set_removals(results.tasks[0], {removal(1, 1, 5), removal(1, 1, 5)});
  expect_said(results, "Ranking is worse than chance: -37.5 %");
}

// What neither ranked nor stopped has the last word.
TEST(Findings, SayHowManyPrunedModelsLoseMoreThanThePoint) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  set_removals(results.tasks[1], {removal(2, 1, 2, 0.013), removal(2, 1, 2, 0.007)});
  expect_said(
      results,
      "On “classify”, sequences that neither ranked nor stopped say that 2 of 4 pruned models lose more than the "
      "point, 1.3 % at most.");
  expect_said(results, "On “copy”, sequences that neither ranked nor stopped say that 0 of 4 pruned models lose more");
}

TEST(Findings, CountTheHeadsThatMatterLittleAlone) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  results.tasks[0].anatomies[1].examination.importance[3].accuracy_loss = 0.2;
  results.tasks[0].anatomies[1].examination.importance[4].accuracy_loss = 0.009;
  expect_said(results,
              "On “copy”, 15 of 16 heads of models with 8 heads cost less than a point when they are out alone.");
}

TEST(Findings, SayWhoStays) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  for (Contender& contender : results.tasks[0].contenders) contender.removals[0] = removal(6, 1, 1);
  results.tasks[0].anatomies[0].examination.roles[7].scores = {{"induction", 0.9, 0.4, 0.1}};
  results.tasks[0].anatomies[0].examination.roles[0].scores = {{"duplicate", 0.9, 0.4, 0.1}};
  expect_said(
      results,
      "On “copy”, 10 of 16 heads of 2 models stay (no known role 9, induction 1), the others go (no known role 5, "
      "duplicate 1). Roles are those");
}

// Two values come as far apart by chance in either order.
TEST(Findings, CountTrendsOfBothKindsAsChance) {
  const std::vector<std::vector<double>> rising{{0.1}, {0.2}, {0.3}, {0.4}, {0.5}},
      falling{{0.5}, {0.4}, {0.3}, {0.2}, {0.1}};
  const auto p_of = [](const std::vector<std::vector<double>>& accuracies) {  // 2 of 120 orders
    return trend(five("copy", accuracies), [](const Course& course) { return course.accuracy(); }).p;
  };
  EXPECT_NEAR(p_of(rising), 2.0 / 120, 0.01);
  EXPECT_NEAR(p_of(falling), 2.0 / 120, 0.01);
}

TEST(Findings, ALinkHasAHeadOnlyAboveTheOffsetAndItsMargin) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  results.tasks[1].anatomies[0].relations = {{"subject-verb", {0.85, 0.25, {0, 1}}}};
  results.tasks[1].anatomies[1].relations = {{"subject-verb", {0.33, 0.27, {1, 0}}}};
  auto& roles = results.tasks[1].anatomies[1].examination.roles;
  roles[0] = {{1, 0}, {{"subject-verb", 0.33, 0.37, 0.27, "", heads::Interval{0.30, 0.38}}}};
  expect_said(
      results,
      "The grammar's link “subject-verb” has a head in 1 of 2 seeds: the best head looks at the linked word in "
      "33.0 % to 85.0 % of cases, the best fixed offset in 25.0 % to 27.0 %; too close to call in 1 of 2 seeds.");
  results.tasks[1].anatomies[1].relations["subject-verb"].accuracy = 0.43;
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
    results.tasks[1].anatomies[0].examination.gradient_and_zero = 0.9;
    results.tasks[1].anatomies[1].examination.gradient_and_zero = lower;
    expect_said(results, said);
  }
}

TEST(Findings, SayHowSureTheyAre) {
  Results results = results_with(five("copy", {{0.1, 0.1}, {0.2, 0.2}, {0.3, 0.3}, {0.4, 0.4}, {0.5, 0.5}}),
                                 five("classify", {{0.1, 0.4}, {0.2, 0.3}, {0.1, 0.5}, {0.4, 0.2}, {0.5, 0.4}}));
  expect_said(results, "(rank correlation 1.00, p < 0.001)");
  expect_said(results, ", p = 0.");
}

TEST(Findings, ALabelThatDoesNotExplainIsSaid) {
  Results results = results_with(five("copy", kAllSolved), five("classify", kAllSolved));
  std::vector<Anatomy>& anatomies = results.tasks[1].anatomies;
  results.tasks[0].anatomies[0].relations.clear();  // of which nothing is said then
  for (Anatomy& anatomy : anatomies) {
    HeadImportance& head = anatomy.examination.importance[2];
    head.id = {0, 2};
    head.zero = {1.5, 1.4, 1.6};
    head.logit = {2.25, 2, 3};
    anatomy.examination.roles[2] = {{0, 2}, {{"averaging", 0.95, 0.9, 0}}};
  }
  expect_said(
      results,
      "The head of the first seed whose absence costs most is 0.2 (averaging): it adds 2.25 to the logit of the "
      "right word, and without it the loss rises by 1.50. In 2 of 2 seeds the role of that head does not say why");
  for (Anatomy& anatomy : anatomies) anatomy.examination.roles[2] = {{0, 2}, {{"duplicate", 0.9, 0.4, 0}}};
  expect_unsaid(results, "does not say why");
}

// What a conclusion says of a model is what was found out about it.
TEST(Removals, AreReadAsTheyWereWritten) {
  Removal made = removal(3, 2, 1, 0.03);
  made.by_gradient_loss = 1.0 / 3;
  made.random[1].steps[2] = {{1, 5}, 0.1, 0.7};
  const Removal read = removal_from(to_json(made));
  EXPECT_EQ(to_json(read), to_json(made));
  EXPECT_EQ(read.by_gradient_loss, 1.0 / 3);
  EXPECT_EQ(read.random[1].steps[2].removed, (HeadId{1, 5}));
  EXPECT_EQ(read.ranked.within_budget, 3u);
  EXPECT_EQ(read.mean_random(), 1);
}

}  // namespace
}  // namespace polyhead::study
