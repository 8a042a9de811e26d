// Tables and figures of the study: every number stands in the row, the column and the series that are named after it.
#include "study/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "io/json.h"
#include "study/results_json.h"

namespace polyhead::study {
namespace {

using Numbers = std::vector<double>;
using Words = std::vector<std::string>;

Course course_of(std::vector<Point> points, const train::Plan& plan = {}) {
  Course course;
  course.plan = plan;
  course.points = std::move(points);
  return course;
}

PruneCurve curve(double whole, const Numbers& accuracies, std::size_t within) {
  PruneCurve made{0, whole, {}, within};
  for (std::size_t n = 0; n < accuracies.size(); ++n) {
    made.steps.push_back({{0, static_cast<std::int64_t>(accuracies.size() - 1 - n)}, 0, accuracies[n]});
  }
  return made;
}

// Half of the heads can go in the order of what each costs, a quarter by gradient, an eighth or none in random order.
Removal removal(std::int64_t heads, double loss) {
  const auto to_go = [&](std::int64_t share, double first) {
    Numbers accuracies(static_cast<std::size_t>(heads), 0.1);
    accuracies[0] = first;
    return curve(0.9, accuracies, static_cast<std::size_t>(heads / share));
  };
  return {.ranked = to_go(2, 0.8),
          .by_gradient = to_go(4, 0.7),
          .random = {to_go(8, 0.6), to_go(32, 0.4)},
          .accuracy = 0.88,
          .ranked_loss = loss,
          .by_gradient_loss = 0.01};
}

// One seed that is solved at the second look and ends there, one that never is.
Contender contender(const std::string& task, std::int64_t heads, double loss) {
  train::Plan plan;
  plan.model.width = 64;
  plan.model.head_dim = 64 / heads;
  plan.training.steps = 150;
  plan.model.layers = {{heads, heads, 0}};
  Contender made{task, heads, {}, {removal(heads, 0.02), removal(heads, 0.005)}};
  const Point last{10, 0.3, 1.0, {0.5, 0.2, 0.4}};
  made.courses.push_back(course_of({{0, loss, 0.1, {0.8}}, {5, 0.5, 0.99, {0.6}}, last}, plan));
  made.courses.push_back(
      course_of({{0, loss, 0.2, {0.9}}, {5, 0.7, 0.5, {0.7}}, {10, 0.6, 0.6, {0.6}}, {15, 0.5, 0.8, {0.5}}}, plan));
  return made;
}

Formation formation(const std::string& name, double naive, double ours, double accuracy) {
  Formation made{name,
                 course_of({{0, 2, 0.1, {0.1, 0.2, 0.01, 0.02}}, {10, 1, accuracy, {0.3, 0.4, 0.5, 0.06}}}),
                 {},
                 naive,
                 ours};
  made.roles = {{{0, 0}, {{"previous token", 0.3, 0.4, 0.1}}}, {{1, 0}, {{"induction", ours, 0.4, 0.1}}}};
  return made;
}

Anatomy anatomy(double more) {
  Anatomy made;
  made.examination.importance = {{.id = {0, 0},
                                  .normalised = 0.6,
                                  .zero = {0.5 + more, 0.4, 0.6},
                                  .mean = {0.05, 0.04, 0.06},
                                  .accuracy_loss = 0.01,
                                  .logit = {1.5, 1, 2}},
                                 {.id = {0, 1},
                                  .normalised = 0.8,
                                  .zero = {0.2, 0.1, 0.3},
                                  .mean = {0.02, 0.01, 0.03},
                                  .accuracy_loss = 0.04,
                                  .logit = {0.7, 0, 1}}};
  made.examination.roles = {{{0, 0}, {{"averaging", 0.95, 0.9, 0}}}, {{0, 1}, {{"induction", 0.1, 0.4, 0.1}}}};
  made.examination.survey.heads.resize(2);
  for (std::size_t n = 0; n < 2; ++n) {
    auto& sums = made.examination.survey.heads[n].sums;
    sums[static_cast<std::size_t>(Statistic::entropy)] = 3 + static_cast<double>(n);
    sums[static_cast<std::size_t>(Statistic::rows)] = 2;
  }
  made.examination.gradient_and_zero = 0.25;
  made.relations = {{"subject-verb", {0.75, 0.25, {0, 1}}}};
  made.parameters = 200;
  made.pruned_parameters = 150;
  return made;
}

Results results() {
  Results made;
  for (const auto& [task, loss] : {std::pair{"copy", 2.0}, {"classify", 3.0}, {"grammar", 4.0}}) {
    TaskStudy& study = made.tasks.emplace_back();
    study.task = task;
    for (const std::int64_t heads : kHeadCounts) study.contenders.push_back(contender(task, heads, loss));
    study.anatomies.push_back(anatomy(0));
  }
  made.tasks.back().anatomies.push_back(anatomy(0.3));
  made.formations.two_layers.push_back(formation("two", 0.9, 0.95, 0.99));
  made.formations.two_layers.push_back(formation("two", 0.8, 0.2, 0.79));
  made.formations.one_layer.push_back(formation("one", 0.1, 0.15, 0.3));
  made.formations.fixed_length.push_back(formation("fixed", 1, 0.05, 1));
  made.formations.knock_outs = {{.nothing = 0.99,
                                 .previous = 0.3,
                                 .induction = 0.03,
                                 .both = 0.02,
                                 .others = 0.98,
                                 .previous_heads = "0.0",
                                 .induction_heads = "1.0"},
                                {.nothing = 0.97}};
  return made;
}

std::string text_of(const report::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
  if (!std::holds_alternative<double>(cell)) return "";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", std::get<double>(cell));
  return digits;
}

void expect_rows(const std::string& id, const Words& columns, const std::vector<Words>& rows) {
  for (const report::Table& table : tables(results())) {
    if (table.id != id) continue;
    EXPECT_EQ(table.columns, columns);
    ASSERT_GE(table.rows.size(), rows.size());
    for (std::size_t n = 0; n < rows.size(); ++n) {
      Words found;
      for (const report::Cell& cell : table.rows[n]) found.push_back(text_of(cell));
      EXPECT_EQ(found, rows[n]) << id << ", row " << n;
    }
    return;
  }
  FAIL() << "no table " << id;
}

TEST(Tables, HaveTheirNumbersUnderTheirNames) {
  expect_rows("comparison",
              {"task", "width", "heads", "head width", "budget", "solved", "accuracy, lowest", "accuracy, highest",
               "steps to 99 %"},
              {{"copy", "64", "1", "64", "150", "1 of 2", "0.8", "1", "5 to 5"},
               {"copy", "64", "2", "32", "150", "1 of 2", "0.8", "1", "5 to 5"}});
  expect_rows("knock-outs",
              {"seed", "previous-token heads", "induction heads", "all open", "without previous-token",
               "without induction", "without both", "without all others"},
              {{"1", "0.0", "1.0", "0.99", "0.3", "0.03", "0.02", "0.98"}, {"2", "", "", "0.97", "", "", "", ""}});
  expect_rows("controls", {"model", "seed", "accuracy", "naive score", "our score", "induction head?"},
              {{"two", "1", "0.99", "0.9", "0.95", "yes"},
               {"two", "2", "0.79", "0.8", "0.2", "no"},
               {"one", "1", "0.3", "0.1", "0.15", "no"},
               {"fixed", "1", "1", "1", "0.05", "no"}});
  expect_rows("relations", {"relation", "seed", "best head", "accuracy", "best fixed offset"},
              {{"subject-verb", "1", "0.1", "0.75", "0.25"}});
  expect_rows("heads",
              {"head", "role", "score", "entropy (nats)", "importance", "logit of the right word",
               "rise of the loss without it", "accuracy lost without it", "stays"},
              {{"0.0", "averaging", "0.95", "1.5", "0.6", "1.5", "0.5", "0.01", "yes"},
               {"0.1", "none known", "", "2", "0.8", "0.7", "0.2", "0.04", "yes"}});
  expect_rows("removals",
              {"task", "heads", "models", "by what each costs alone", "by gradient", "random order",
               "accuracy of the whole", "lost, by cost", "lost, by gradient", "lose more than a point"},
              {{"copy", "1", "2", "0", "0", "0", "0.88", "0.0125", "0.01", "1"},
               {"copy", "2", "2", "1", "0", "0", "0.88", "0.0125", "0.01", "1"},
               {"copy", "4", "2", "2", "1", "0", "0.88", "0.0125", "0.01", "1"},
               {"copy", "8", "2", "4", "2", "0.5", "0.88", "0.0125", "0.01", "1"}});
}

// Every number stands under its name, and what there is not is null.
TEST(Json, HasEveryNumberUnderItsName) {
  Results all = results();
  TaskStudy& grammar = all.tasks.back();
  for (Anatomy& one : grammar.anatomies) {
    one.examination.untrained = {{{0, 0}, {{"averaging", 0.99, 0.9, 0}}}};
    one.examination.importance[0].gradient = 0.06;
    one.examination.importance[0].accuracy_loss = 0.03;
  }
  grammar.contenders[3].courses[1].plan.training.seed = 2;
  const io::Json json = io::parse_json(to_json(all), "study.json");
  const auto at = [&](const char* place) { return json.at(io::Json::json_pointer(place)).dump(); };
  for (const auto& [place, expected] : std::vector<std::pair<const char*, std::string>>{
           {"/tasks/copy/contenders/1/task", R"("copy")"},
           {"/tasks/classify/contenders/1/task", R"("classify")"},
           {"/tasks/copy/contenders/1/heads", "2"},
           {"/tasks/copy/contenders/1/head_dim", "32"},
           {"/tasks/copy/contenders/1/width", "64"},
           {"/tasks/copy/contenders/1/budget", "150"},
           {"/tasks/copy/contenders/1/seeds/0/accuracy", "1.0"},
           {"/tasks/copy/contenders/1/seeds/0/steps_to_99_percent", "5"},
           {"/tasks/copy/contenders/1/seeds/0/relative_entropy", "[0.5,0.2,0.4]"},
           {"/tasks/copy/contenders/1/seeds/0/validation/step", "[0,5,10]"},
           {"/tasks/copy/contenders/1/seeds/0/validation/loss", "[2.0,0.5,0.3]"},
           {"/tasks/copy/contenders/1/seeds/0/validation/accuracy", "[0.1,0.99,1.0]"},
           {"/formation/two_layers/0/name", R"("two")"},
           {"/formation/two_layers/0/naive_induction_score", "0.9"},
           {"/formation/two_layers/0/induction_score", "0.95"},
           {"/formation/two_layers/0/roles/0/head", R"("0.0")"},
           {"/formation/two_layers/0/roles/0/role", "null"},
           {"/formation/two_layers/0/roles/1/role", R"("induction")"},
           {"/formation/two_layers/0/roles/1/scores/0",
            R"({"role":"induction","score":0.95,"threshold":0.4,"control":0.1,"holds":true})"},
           {"/formation/two_layers/1/steps/1",
            R"({"step":10,"loss":1.0,"accuracy":0.79,"previous_token":[0.3,0.4],"induction":[0.5,0.06]})"},
           {"/formation/one_layer/0/name", R"("one")"},
           {"/formation/fixed_length/0/name", R"("fixed")"},
           {"/formation/knock_outs/0",
            R"({"previous_token_heads":"0.0","induction_heads":"1.0","nothing_shut":0.99,"without_previous_token":0.3,)"
            R"("without_induction":0.03,"without_both":0.02,"without_others":0.98})"},
           {"/formation/knock_outs/1/without_others", "null"},
           {"/tasks/copy/equal_steps", "10.0"},
           {"/tasks/copy/equal_loss", "0.5"},
           {"/tasks/copy/contenders/1/all_heads", "2"},
           {"/tasks/copy/contenders/1/seeds/0/relative_entropy_at_equal_loss", "0.6"},
           {"/tasks/copy/contenders/1/seeds/1/relative_entropy_at_equal_steps", "0.6"},
           {"/tasks/copy/contenders/1/seeds/0/removal/ranked/within_budget", "1"},
           {"/tasks/copy/contenders/1/seeds/0/removal/ranked/steps/0",
            R"({"layer":0,"head":1,"loss":0.0,"accuracy":0.8})"},
           {"/tasks/copy/contenders/3/seeds/0/removal/by_gradient/within_budget", "2"},
           {"/tasks/copy/contenders/3/seeds/0/removal/random/0/within_budget", "1"},
           {"/tasks/copy/contenders/3/seeds/0/removal/accuracy", "0.88"},
           {"/tasks/copy/contenders/3/seeds/0/removal/ranked_loss", "0.02"},
           {"/tasks/copy/contenders/3/seeds/0/removal/by_gradient_loss", "0.01"},
           {"/tasks/grammar/anatomies/1/seed", "2"},
           {"/tasks/grammar/anatomies/0/roles/0/role", R"("averaging")"},
           {"/tasks/grammar/anatomies/0/roles_untrained/0/scores/0/score", "0.99"},
           {"/tasks/grammar/anatomies/0/importance/0",
            R"({"head":"0.0","gradient":0.06,"normalised":0.6,"damage_zero":{"mean":0.5,"low":0.4,"high":0.6},)"
            R"("damage_mean":{"mean":0.05,"low":0.04,"high":0.06},"logit":{"mean":1.5,"low":1.0,"high":2.0},)"
            R"("accuracy_loss":0.03})"},
           {"/tasks/grammar/anatomies/0/rank_correlation", "0.25"},
           {"/tasks/grammar/anatomies/0/relations/subject-verb",
            R"({"head":"0.1","accuracy":0.75,"best_offset":0.25})"},
           {"/tasks/grammar/anatomies/0/most_damaging", R"("0.0")"},
           {"/tasks/grammar/anatomies/0/parameters", "200"},
           {"/tasks/grammar/anatomies/0/pruned_parameters", "150"}}) {
    EXPECT_EQ(at(place), expected) << place;
  }
  EXPECT_FALSE(json["tasks"]["copy"]["contenders"][1]["seeds"][1].contains("steps_to_99_percent"))
      << "it never got there";
}

class Figures : public ::testing::Test {
 protected:
  Figures() {
    for (const char* name : {"first", "second", "third", "fourth"}) {
      report::Model model{
          name, "", {}, {{"text", {"a", "b"}, {}, {{0, 0}, {0, 1}}, {1, 0, 0.25F, 0.75F, 1, 0, 0.5F, 0.5F}}}};
      model.heads.resize(2);
      model.heads[1].head = 1;
      model.heads[1].role = "induction";
      model.heads[0].kept = models_.size() != 2;  // of the third, all can go
      model.heads[1].kept = models_.empty();
      models_.push_back(model);
    }
    all_ = figures(results_, models_);
  }

  template <class Plot>
  Plot plot(const std::string& id) const {
    for (const report::Figure& figure : all_) {
      if (figure.id == id) return std::get<Plot>(figure.plot);
    }
    throw std::logic_error("no figure " + id);
  }
  static void expect_near(const Numbers& found, const Numbers& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t n = 0; n < found.size(); ++n) EXPECT_NEAR(found[n], expected[n], 1e-12) << n;
  }

  Results results_ = results();
  std::vector<report::Model> models_;
  std::vector<report::Figure> all_;
};

// A seed that has ended stays where it was.
TEST_F(Figures, CoursesAreMeansOverSeedsWithTheirEnds) {
  for (const char* id : {"accuracy-copy", "accuracy-classify", "accuracy-grammar"}) {
    SCOPED_TRACE(id);
    const auto lines = plot<report::Lines>(id);
    ASSERT_EQ(lines.series.size(), 5u);
    EXPECT_EQ(lines.series[0].name, "1 head");
    EXPECT_EQ(lines.series[4].name, "16 heads");
    EXPECT_EQ(lines.series[0].x, (Numbers{0, 5, 10, 15}));
    expect_near(lines.series[0].y, {0.15, 0.745, 0.8, 0.9});
    expect_near(lines.series[0].low, {0.1, 0.5, 0.6, 0.8});
    expect_near(lines.series[0].high, {0.2, 0.99, 1, 1});
  }
}

// One seed ends at step 10 with a loss of 0.3, the other at step 15 with 0.5.
TEST_F(Figures, EntropiesAreComparedWhereAllRunsHaveBeen) {
  const auto loss = plot<report::Lines>("entropy-loss"), steps = plot<report::Lines>("entropy-steps");
  ASSERT_EQ(loss.series.size(), 3u);
  EXPECT_EQ(loss.series[2].name, "grammar");
  EXPECT_EQ(loss.x_ticks, (Numbers{1, 2, 4, 8, 16}));
  expect_near(loss.series[0].y, Numbers(5, (0.6 + 0.5) / 2));
  const double seen = (0.5 + 0.2 + 0.4) / 3;  // of three heads
  expect_near(steps.series[0].y, Numbers(5, (seen + 0.6) / 2));
  EXPECT_LT(loss.series[0].low[0], loss.series[0].y[0]);
  EXPECT_GT(loss.series[0].high[0], loss.series[0].y[0]);
}

TEST_F(Figures, EntropiesAreThoseOfTheFirstSeedInOrder) {
  const auto grid = plot<report::Grid>("entropy-copy");
  EXPECT_EQ(grid.rows[1], "2 heads");
  ASSERT_EQ(grid.values.size(), 5u * 16);
  expect_near({grid.values.begin(), grid.values.begin() + 3}, {0.2, 0.4, 0.5});
  EXPECT_TRUE(std::isnan(grid.values[3])) << "it has no more";
}

TEST_F(Figures, FormationFollowsTheBestHeadOfEachKind) {
  const auto lines = plot<report::Lines>("formation");
  const std::pair<std::string, Numbers> expected[] = {{"accuracy, two layers", {0.1, 0.89}},
                                                      {"best induction head", {0.02, 0.5}},
                                                      {"best previous-token head", {0.2, 0.4}},
                                                      {"accuracy, one layer", {0.1, 0.3}}};
  ASSERT_EQ(lines.series.size(), 4u);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(lines.series[n].name, expected[n].first);
    expect_near(lines.series[n].y, expected[n].second);
  }
  const auto grid = plot<report::Grid>("evolution");
  EXPECT_EQ(grid.rows, (Words{"0.0 previous token", "1.0 induction"}));
  EXPECT_EQ(grid.columns, (Words{"0", "10"}));
  expect_near(grid.values, {0.1, 0.3, 0.02, 0.06});
}

TEST_F(Figures, HeadsHaveTheirDamage) {
  const auto damage = plot<report::Bars>("damage"), alone = plot<report::Bars>("alone");
  EXPECT_EQ(damage.categories, (Words{"0.0", "0.1"}));
  ASSERT_EQ(damage.series.size(), 2u);
  EXPECT_EQ(damage.series[0].name, "output made 0");
  expect_near(damage.series[0].values, {0.5, 0.2});
  expect_near(damage.series[0].low, {0.4, 0.1});
  expect_near(damage.series[0].high, {0.6, 0.3});
  expect_near(damage.series[1].values, {0.05, 0.02});
  expect_near(damage.series[1].low, {0.04, 0.01});
  expect_near(damage.series[1].high, {0.06, 0.03});
  ASSERT_EQ(alone.series.size(), 3u);
  EXPECT_EQ(alone.series[1].name, "classify");
  expect_near(alone.series[1].values, {0.04, 0.01});
}

TEST_F(Figures, PruningBeginsWithTheWholeModel) {
  const auto lines = plot<report::Lines>("pruning");
  ASSERT_EQ(lines.series.size(), 3u);
  EXPECT_EQ(lines.series[0].x, (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  expect_near(lines.series[0].y, {0.9, 0.8, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
  EXPECT_EQ(lines.series[1].name, "by gradient");
  EXPECT_NEAR(lines.series[1].y[1], 0.7, 1e-12);
  EXPECT_NEAR(lines.series[2].y[1], 0.5, 1e-12);
  EXPECT_NEAR(lines.series[2].low[1], 0.4, 1e-12);
  EXPECT_NEAR(lines.series[2].high[1], 0.6, 1e-12);
}

TEST_F(Figures, HeadsThatCanGoAreSharesOfAll) {
  const auto bars = plot<report::Bars>("removal");
  EXPECT_EQ(bars.categories, (Words{"copy 8", "copy 16", "classify 8", "classify 16", "grammar 8", "grammar 16"}));
  ASSERT_EQ(bars.series.size(), 3u);
  expect_near(bars.series[0].values, Numbers(6, 0.5));
  expect_near(bars.series[1].values, Numbers(6, 0.25));
  expect_near(bars.series[2].values, Numbers(6, 0.0625));
}

TEST_F(Figures, SurvivorsAreThoseThatAreKept) {
  const auto heads = [&](const char* id) { return plot<report::HeadGrid>(id).heads; };
  ASSERT_EQ(heads("survivors-copy").size(), 1u);
  EXPECT_EQ(heads("survivors-copy")[0].title, "layer 0 · head 0");
  EXPECT_EQ(heads("survivors-classify").size(), 2u) << "none stays, so all are drawn";
  for (const report::Figure& figure : all_) {
    if (figure.id == "survivors-classify") {
      EXPECT_EQ(figure.title, "All heads can go, task classify");
    }
  }
}

TEST_F(Figures, EveryHeadHasItsOwnWeights) {
  const auto grid = plot<report::HeadGrid>("heads-repeat");
  ASSERT_EQ(grid.heads.size(), 2u);
  EXPECT_EQ(grid.heads[1].title, "layer 0 · head 1");
  EXPECT_EQ(grid.heads[1].note, "induction");
  EXPECT_EQ(grid.heads[0].weights, (std::vector<float>{1, 0, 0.25F, 0.75F}));
  EXPECT_EQ(grid.heads[1].weights, (std::vector<float>{1, 0, 0.5F, 0.5F}));
}

}  // namespace
}  // namespace polyhead::study
