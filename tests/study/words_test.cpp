// All that the study says and draws of made-up results, word for word and number for number, beside the file that holds
// it. Every number of the results is another, so that one in a wrong place shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "core/draws.h"
#include "io/json.h"
#include "study/figures.h"
#include "study/findings.h"
#include "study/results_json.h"
#include "support/kept.h"

namespace polyhead::study {
namespace words {

// Numbers of three digits, none like the one before it.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : draws_(seed, 0, 0, 0) {}
  double between(double low, double high) {
    const double share = draws_.below(10001) / 1e4;
    return std::round(1000 * (low + share * (high - low))) / 1000;
  }
  std::vector<double> some(std::size_t count, double low, double high) {
    std::vector<double> all;
    while (all.size() < count) all.push_back(between(low, high));
    return all;
  }

 private:
  Draws draws_;
};

// What the two kinds of results are like.
struct Kind {
  std::uint64_t seed;
  std::size_t seeds;
  double least;      // of a final accuracy
  double induction;  // the score of the best head
  double rank;       // correlation of gradient and damage
};
constexpr Kind kMixed{1, 3, 0.8, 0.41, 0.45}, kSolvedByAll{2, 1, 0.995, 0.9, 0.8};

Course course(Numbers& numbers, const Kind& kind, std::size_t looks, std::size_t observed, double last,
              std::int64_t width = 64, std::int64_t head_dim = 8) {
  Course made;
  made.plan.model.width = width;
  made.plan.model.head_dim = head_dim;
  made.plan.training.steps = 150 + width;
  made.plan.training.seed = kind.seed + looks;
  made.task = train::make_task({.name = "grammar"});
  for (std::size_t n = 0; n < looks; ++n) {
    const double accuracy = n + 2 < looks   ? numbers.between(0.1, 0.7)
                            : n + 1 < looks ? last - (looks % 3 == 0 ? 0.05 : 0.002)
                                            : last;
    made.points.push_back(
        {static_cast<std::int64_t>(10 * n), numbers.between(0.1, 3), accuracy, numbers.some(observed, 0.05, 0.95)});
  }
  return made;
}

PruneCurve curve(Numbers& numbers, std::size_t heads, std::size_t within, std::size_t first) {
  PruneCurve made{numbers.between(0.1, 1), numbers.between(0.9, 0.95), {}, within};
  for (std::size_t n = 0; n < heads; ++n) {
    const std::size_t head = (n + first) % heads;
    made.steps.push_back({{0, static_cast<std::int64_t>(head)}, numbers.between(0.1, 3), numbers.between(0.1, 0.89)});
  }
  return made;
}

Removal removal(Numbers& numbers, std::size_t heads) {
  Removal made{
      .ranked = curve(numbers, heads, heads / 2, 0), .by_gradient = curve(numbers, heads, heads / 3, 1), .random = {}};
  for (const std::size_t less : {2, 1, 3}) made.random.push_back(curve(numbers, heads, heads / 2 / less, 2));
  made.accuracy = numbers.between(0.8, 0.9);
  made.ranked_loss = numbers.between(-0.02, 0.03);
  made.by_gradient_loss = numbers.between(-0.02, 0.03);
  return made;
}

std::vector<Contender> contenders(Numbers& numbers, const Kind& kind, const std::string& task) {
  std::vector<Contender> made;
  std::size_t later = 0;  // more heads, more looks
  for (const std::int64_t heads : kHeadCounts) {
    Contender one{task, heads, {}, {}};
    for (std::size_t seed = 0; seed < kind.seeds + 1; ++seed) {
      const bool solves = seed < 2 && heads != 4;
      const double last = solves || kind.least > 0.99 ? numbers.between(0.995, 1) : numbers.between(kind.least, 0.98);
      one.courses.push_back(course(numbers, kind, 4 + seed + later, static_cast<std::size_t>(heads), last,
                                   task == "copy" ? 64 : 128, 64 / heads));
      one.courses.back().plan.model.layers = {{heads, heads, 0}};
      one.courses.back().task = train::make_task({.name = task});
      one.removals.push_back(removal(numbers, static_cast<std::size_t>(heads)));
    }
    made.push_back(std::move(one));
    later += 2;
  }
  return made;
}

heads::HeadRoles roles_of(HeadId id, double previous, double induction) {
  const auto score = [](const char* role, double value) {
    return heads::RoleScore{.role = role,
                            .score = value,
                            .threshold = 0.4,
                            .control = 0.1,
                            .interval = heads::Interval{value - 0.05, value + 0.05}};
  };
  return {id, {score("previous token", previous), score("induction", induction), {"averaging", 0.2, 0.9, 0}}};
}

Formation formation(Numbers& numbers, const Kind& kind, const std::string& name, double induction, double last) {
  Formation made{name, course(numbers, kind, 3, 8, last), {}, numbers.between(0.5, 0.9), induction};
  made.roles = {roles_of({0, 0}, numbers.between(0.6, 0.9), 0.02), roles_of({0, 1}, 0.05, 0.03),
                roles_of({1, 0}, 0.01, induction), roles_of({1, 1}, 0.04, 0.06)};
  return made;
}

// Of a model with eight heads; links of words are known of the last task alone.
Anatomy anatomy(Numbers& numbers, const Kind& kind, std::size_t seed, bool links) {
  Anatomy made;
  exam::Examination& found = made.examination;
  found.loss = numbers.between(0.1, 1);
  found.accuracy = numbers.between(0.9, 1);
  for (std::size_t n = 0; n < static_cast<std::size_t>(kDissected); ++n) {
    const HeadId id{0, static_cast<std::int64_t>(n)};
    const auto estimate = [&](double low, double high) {
      const double mean = numbers.between(low, high);
      return Estimate{mean, mean - 0.011, mean + 0.013};
    };
    HeadImportance importance;
    importance.id = id;
    importance.gradient = numbers.between(0, 1);
    importance.normalised = numbers.between(0, 1);
    importance.zero = estimate(0, 0.8);
    importance.mean = estimate(0, 0.5);
    importance.logit = estimate(-1, 3);
    importance.accuracy_loss = numbers.between(0, 0.3);
    found.importance.push_back(importance);
    found.roles.push_back(n == seed ? heads::HeadRoles{id, {{"averaging", 0.95, 0.9, 0}}}
                                    : roles_of(id, numbers.between(0.2, 0.9), numbers.between(0, 0.9)));
    found.untrained.push_back(roles_of(id, numbers.between(0, 0.2), numbers.between(0, 0.2)));
    found.survey.heads.emplace_back().id = id;
    for (double& sum : found.survey.heads.back().sums) sum = numbers.between(1, 50);
  }
  found.gradient_and_zero = kind.rank + 0.1 * static_cast<double>(seed);
  if (links) {
    made.relations = {{"pronoun", {0.51 + 0.1 * static_cast<double>(seed), 0.31, {0, 2}}},
                      {"subject-verb", {numbers.between(0.7, 0.9), numbers.between(0.2, 0.4), {0, 1}}}};
  }
  made.parameters = 2000;
  made.pruned_parameters = 1500 - static_cast<std::int64_t>(seed);
  return made;
}

Results results(const Kind& kind) {
  Numbers numbers(kind.seed);
  Results made;
  for (const std::string task : {"copy", "classify", "grammar"}) {
    TaskStudy& study = made.tasks.emplace_back();
    study.task = task;
    study.contenders = contenders(numbers, kind, task);
    for (std::size_t seed = 0; seed < (task == "grammar" ? kind.seeds : 1); ++seed) {
      study.anatomies.push_back(anatomy(numbers, kind, seed, task == "grammar"));
    }
  }
  Formations& formations = made.formations;
  for (std::size_t seed = 0; seed < kind.seeds; ++seed) {
    const double induction = kind.induction - 0.2 * static_cast<double>(seed);
    formations.two_layers.push_back(formation(numbers, kind, "two", induction, numbers.between(0.9, 1)));
    formations.one_layer.push_back(formation(numbers, kind, "one", 0.03, numbers.between(0.1, 0.3)));
    formations.fixed_length.push_back(formation(numbers, kind, "fixed", 0.07, numbers.between(0.8, 1)));
    KnockOut shut{.nothing = numbers.between(0.9, 1), .previous_heads = "0.0", .induction_heads = "1.0"};
    if (seed != 1) shut.previous = numbers.between(0.2, 0.3);
    if (seed != 1) shut.induction = numbers.between(0.1, 0.2);
    if (seed == 0) shut.both = numbers.between(0, 0.1);
    if (seed == 0) shut.others = numbers.between(0.8, 0.9);
    formations.knock_outs.push_back(shut);
  }
  made.seconds = 321.5;
  made.quick = kind.seeds == 1;
  made.target = "a target";
  made.threads = 3;
  return made;
}

// ---- as text

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += " " + digits(value);
  return text;
}

std::string list(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += " | " + value;
  return text;
}

template <class Series>
std::string with_band(const Series& series, const std::vector<double>& values) {
  std::string text = "  " + series.name + ":" + list(values) + "\n";
  if (!series.low.empty()) text += "    low" + list(series.low) + "\n    high" + list(series.high) + "\n";
  return text;
}

std::string text_of(const report::Lines& lines) {
  std::string text = "  " + lines.x_label + " / " + lines.y_label + (lines.log_x ? ", logarithmic" : "") + "\n";
  for (const report::Series& series : lines.series)
    text += with_band(series, series.y) + "    x" + list(series.x) + "\n";
  for (const report::Event& event : lines.events) text += "  event " + digits(event.x) + " " + event.label + "\n";
  return text + (lines.x_ticks.empty() ? "" : "  ticks" + list(lines.x_ticks) + "\n");
}

std::string text_of(const report::Bars& bars) {
  std::string text = "  " + bars.x_label + " / " + bars.y_label + list(bars.categories) + "\n";
  for (const report::BarSeries& series : bars.series) text += with_band(series, series.values);
  return text;
}

std::string text_of(const report::Grid& grid) {
  std::string text = "  " + grid.x_label + " / " + grid.y_label + " / " + grid.value_label + ", full " +
                     digits(grid.full) + (grid.numbers ? ", with numbers\n" : "\n");
  return text + " " + list(grid.rows) + "\n " + list(grid.columns) + "\n " + list(grid.values) + "\n";
}

std::string text_of(const report::HeadGrid& grid) {
  std::string text = " " + list(grid.queries) + "\n " + list(grid.keys) + "\n";
  for (const report::HeadPanel& head : grid.heads) {
    text += "  " + head.title + ", " + head.note + ":" +
            list(std::vector<double>(head.weights.begin(), head.weights.end())) + "\n";
  }
  return text + "  in " + std::to_string(grid.columns) + " columns\n";
}

std::string text_of(const report::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
  return std::holds_alternative<double>(cell) ? digits(std::get<double>(cell)) : "";
}

// Models with some heads over two tokens, to be drawn.
std::vector<report::Model> models(Numbers& numbers) {
  std::vector<report::Model> made;
  for (const std::string name : {"repeat", "copy", "classify", "grammar"}) {
    report::Model model{name, "", {}, {}};
    for (int head = 0; head < (name == "grammar" ? 5 : 2); ++head) {
      report::Head& one = model.heads.emplace_back();
      one.layer = head / 2;
      one.head = head % 2;
      one.role = head == 0 ? "self" : "";
      one.kept = name != "classify" && head != 1;  // of one, all can go
    }
    const std::vector<double> weights = numbers.some(4 * model.heads.size(), 0, 1);
    model.samples.push_back({"a", {name, "b"}, {}, {}, {weights.begin(), weights.end()}});
    made.push_back(model);
  }
  return made;
}

std::string all_of(const Results& results) {
  std::string text;
  for (const report::Finding& finding : findings(results)) text += finding.figure + ": " + finding.text + "\n";
  Numbers numbers(9);
  for (const report::Figure& figure : figures(results, models(numbers))) {
    text += "\nfigure " + figure.id + ": " + figure.title + "\n  " + figure.caption + "\n";
    text += std::visit([](const auto& plot) { return text_of(plot); }, figure.plot);
  }
  for (const report::Table& table : tables(results)) {
    text += "\ntable " + table.id + ": " + table.title + "\n  " + table.caption + "\n " + list(table.columns) + "\n";
    for (const std::vector<report::Cell>& row : table.rows) {
      text += " ";
      for (const report::Cell& cell : row) text += " | " + text_of(cell);
      text += "\n";
    }
  }
  return text;
}

// What lies deep stands on one line.
std::string lines_of(const io::Json& json, const std::string& place, int depth) {
  if (depth == 0 || !json.is_structured()) return place + " " + json.dump() + "\n";
  std::string text;
  for (const auto& [name, value] : json.items()) text += lines_of(value, place + "/" + name, depth - 1);
  return text;
}

std::string text_of(const report::Chapter& chapter) {
  std::string text = "\n" + chapter.question + "\n  " + chapter.verdict + "\n  But " + chapter.caveat + "\n " +
                     list(chapter.answers) + "\n";
  for (const report::Example& example : chapter.examples) {
    text += "  " + example.task + ": " + example.asks + "\n   ";
    for (const report::Example::Token& token : example.tokens)
      text += token.wanted ? " [" + token.text + "]" : " " + token.text;
    text += (example.answer.empty() ? "" : " -> " + example.answer) + "\n";
  }
  return text;
}

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/study" / name;
}

TEST(StudyWords, OfMixedResults) { expect_kept(fixture("mixed.txt"), all_of(results(kMixed))); }

TEST(StudyWords, OfOneSeedThatDoesItAll) { expect_kept(fixture("one_seed.txt"), all_of(results(kSolvedByAll))); }

TEST(StudyWords, OfTheFile) {
  io::Json json = io::parse_json(to_json(results(kSolvedByAll)), "study.json");
  json.erase("version");
  expect_kept(fixture("json.txt"), lines_of(json, "", 4));
}

TEST(StudyWords, OfTheQuestions) {
  std::string text;
  for (const Kind& kind : {kMixed, kSolvedByAll}) {
    for (const report::Chapter& chapter : chapters(results(kind))) text += text_of(chapter);
  }
  expect_kept(fixture("questions.txt"), text);
}

}  // namespace words
}  // namespace polyhead::study
