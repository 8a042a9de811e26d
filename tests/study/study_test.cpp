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
  results.anatomy.importance.resize(4);
  results.anatomy.random.resize(1);
  return results;
}

std::string all_findings(const Results& results) {
  std::string text;
  for (const report::Finding& finding : findings(results)) text += finding.text + "\n";
  return text;
}

TEST(Findings, SayNoDifferenceWhereSeedsOverlap) {
  std::vector<Contender> copy, classify;
  copy.push_back(contender("copy", 1, {0.90, 0.97}));
  copy.push_back(contender("copy", 2, {0.95, 0.99}));
  classify.push_back(contender("classify", 1, {0.30, 0.35}));
  classify.push_back(contender("classify", 2, {0.93, 0.96}));
  const std::string text = all_findings(results_with(std::move(copy), std::move(classify)));
  EXPECT_NE(text.find("“copy” the number of heads makes no difference beyond noise"), std::string::npos) << text;
  EXPECT_NE(
      text.find(
          "“classify” the number of heads decides. After 10 steps: 94.5 % with 2 heads (93.0 % to 96.0 % over seeds)"),
      std::string::npos)
      << text;
}

TEST(Findings, AdmitThatOneSeedIsOne) {
  std::vector<Contender> copy, classify;
  copy.push_back(contender("copy", 1, {1}));
  copy.push_back(contender("copy", 2, {1}));
  classify.push_back(contender("classify", 1, {0.30}));
  classify.push_back(contender("classify", 2, {0.93}));
  const std::string text = all_findings(results_with(std::move(copy), std::move(classify)));
  EXPECT_NE(text.find("all reach 100.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("with one seed only"), std::string::npos) << text;
  EXPECT_EQ(text.find("decides"), std::string::npos) << text;
}

TEST(Findings, DoNotPraiseARankingThatDoesNotHelp) {
  std::vector<Contender> copy, classify;
  copy.push_back(contender("copy", 1, {1}));
  classify.push_back(contender("classify", 1, {1}));
  Results results = results_with(std::move(copy), std::move(classify));
  results.anatomy.random[0].within_budget = 2;
  EXPECT_NE(all_findings(results).find("the ranking does not help here"), std::string::npos);
  results.anatomy.iterative.within_budget = 3;
  EXPECT_EQ(all_findings(results).find("the ranking does not help here"), std::string::npos);
}

}  // namespace
}  // namespace polyhead::study
