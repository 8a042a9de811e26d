// The study's parts: jobs, courses, and findings that say no more than the numbers do.
#include "study/study.h"

#include <gtest/gtest.h>

#include <atomic>

#include "study/findings.h"

namespace polyhead::study {
namespace {

TEST(Jobs, AllRunOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> sum{0};
    std::vector<Job> jobs;
    for (int n = 1; n <= 20; ++n) jobs.push_back([&, n](Context& context) { sum += n * context.threads(); });
    run_jobs(threads, jobs);
    EXPECT_EQ(sum, 210);
  }
}

TEST(Jobs, TheFirstFailureEndsIt) {
  std::atomic<int> begun{0};
  std::vector<Job> jobs(50, [&](Context&) {
    ++begun;
    throw Interrupted();
  });
  EXPECT_THROW(run_jobs(2, jobs), Interrupted);
  EXPECT_LE(begun, 2);
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

TEST(Course, LooksWhenItIsToldAndLearns) {
  Context context(1);
  const train::Plan plan = make_plan("copy", 1, 32, 4, {.steps = 25, .batch = 8, .rate = 3e-3});
  int steps = 0;
  std::vector<std::int64_t> looked;
  const Course course = follow(
      context, plan, 10, [&] { ++steps; },
      [&](const Point& point, model::Transformer&) { looked.push_back(point.step); });
  EXPECT_EQ(steps, 25);
  EXPECT_EQ(looked, (std::vector<std::int64_t>{0, 10, 20, 25}));
  EXPECT_LT(course.points.back().loss, course.points.front().loss);
  const Course again = follow(context, plan, 10, [] {});
  EXPECT_EQ(again.points.back().loss, course.points.back().loss);
  EXPECT_THROW(follow(context, plan, 10, [] { throw Interrupted(); }), Interrupted);
}

Contender contender(const std::string& task, std::int64_t heads, const std::vector<double>& final_accuracies) {
  Contender made{task, heads, {}, {}};
  for (const double accuracy : final_accuracies) {
    made.courses.push_back(course_with({0, accuracy}));
    made.entropies.emplace_back(static_cast<std::size_t>(heads), 0.5);
  }
  return made;
}

// Results that say nothing but what the contenders say.
Results results_with(std::vector<Contender> copy, std::vector<Contender> classify) {
  Results results;
  results.copy = std::move(copy);
  results.classify = std::move(classify);
  for (Formation* formation :
       {&results.formations.two_layers, &results.formations.one_layer, &results.formations.fixed_length}) {
    formation->course = course_with({0, 0.5});
  }
  results.anatomy.examination.importance.resize(4);
  results.anatomy.random.resize(1);
  return results;
}

std::string all_findings(const Results& results) {
  std::string text;
  for (const report::Finding& finding : findings(results)) text += finding.text + "\n";
  return text;
}

// Five head counts with two seeds, as the study has them.
std::vector<Contender> five(const std::string& task, const std::vector<std::vector<double>>& accuracies) {
  std::vector<Contender> made;
  for (std::size_t n = 0; n < accuracies.size(); ++n) made.push_back(contender(task, kHeadCounts[n], accuracies[n]));
  return made;
}

TEST(Findings, TellATrendFromNoise) {
  const std::string text =
      all_findings(results_with(five("copy", {{0.90, 0.97}, {0.96, 0.91}, {0.93, 0.99}, {0.92, 0.95}, {0.98, 0.90}}),
                                five("classify", {{0.30, 0.35}, {0.40, 0.45}, {0.70, 0.80}, {0.93, 0.90}, {0.99, 1}})));
  EXPECT_NE(text.find("“copy”, after 10 steps, the accuracy does not depend on the number of heads beyond noise"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("“classify”, after 10 steps, the accuracy rises with the number of heads"), std::string::npos)
      << text;
  EXPECT_NE(text.find("99.0 % to 100.0 % with 16 heads"), std::string::npos) << text;
}

// Two contenders with two seeds each: whatever they show, it is too little to say.
TEST(Findings, AFewRunsProveNothing) {
  const std::string text =
      all_findings(results_with(five("copy", {{1, 1}, {1, 1}}), five("classify", {{0.30, 0.31}, {0.93, 0.94}})));
  EXPECT_EQ(text.find("rises"), std::string::npos) << text;
  EXPECT_NE(text.find("rank correlation 0.00, p = 1"), std::string::npos) << text;
}

TEST(Findings, NameTheBestHeadWithItsOwnScore) {
  Results results = results_with(five("copy", {{1, 1}}), five("classify", {{1, 1}}));
  results.formations.two_layers.roles = {{{0, 1}, {{"induction", 0.5, 0.4, 0.1}}},
                                         {{1, 0}, {{"induction", 0.9, 0.4, 0.85}}}};
  results.formations.two_layers.ours = 0.9;  // of the one that does not hold
  EXPECT_NE(all_findings(results).find("best induction head 0.1 (0.50)"), std::string::npos) << all_findings(results);
}

TEST(Findings, DoNotPraiseARankingThatDoesNotHelp) {
  Results results = results_with(five("copy", {{1}}), five("classify", {{1}}));
  results.anatomy.random[0].within_budget = 2;
  EXPECT_NE(all_findings(results).find("the ranking does not help here"), std::string::npos);
  results.anatomy.iterative.within_budget = 3;
  EXPECT_EQ(all_findings(results).find("the ranking does not help here"), std::string::npos);
}

}  // namespace
}  // namespace polyhead::study
