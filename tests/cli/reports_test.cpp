// What `polyhead heads` and `polyhead prune` say of made-up findings, in every format, beside the files that hold it.
// Every number is another, so that one in a wrong place shows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <regex>
#include <sstream>

#include "cli/compare.h"
#include "cli/heads.h"
#include "cli/prune.h"
#include "support/kept.h"

namespace polyhead::cli {
namespace reports {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/cli" / name;
}

int drawn = 0;  // since the test began
double number() { return 0.001 * ++drawn; }

Estimate estimate(double mean) { return {mean, mean - number(), mean + number()}; }

std::unique_ptr<model::Transformer> model_of(model::Kind kind) {
  model::Config config = model::make_config(kind, 1, 9, 3);
  config.vocabulary = config.context = 4;
  return std::make_unique<model::Transformer>(config, 1);
}

exam::Examination examination() {
  drawn = 0;
  exam::Examination found;
  found.loss = 1.23456;
  found.accuracy = 0.87654;
  for (std::int64_t h = 0; h < 3; ++h) {
    const HeadId id{0, h};
    HeadImportance& head = found.importance.emplace_back();
    head.id = id;
    head.gradient = number();
    head.normalised = 10 * number();
    head.zero = estimate(h == 1 ? 0.0001 : 1 + number());
    head.mean = estimate(2 + number());
    head.logit = estimate(-3 - number());
    head.accuracy_loss = number() - 0.02;
    found.roles.push_back({id,
                           {{"induction", 0.5 + number(), h == 0 ? 0.4 : 0.9, 0.1 + number()},
                            {"positional", 0.6 + number(), h == 1 ? 0.4 : 0.9, 0.2 + number(), "offset -2"},
                            {"averaging", 0.7 + number(), h == 2 ? 0.4 : 0.99, 0}}});
    found.untrained.push_back({id, {{"induction", number(), 0.4, 0.1}, {"averaging", 0.95 + number() / 100, 0.9, 0}}});
    found.nearest.push_back({{0, 2 - h}, 0.5 + number()});
    heads::HeadSurvey& survey = found.survey.heads.emplace_back();
    survey.id = id;
    for (double& sum : survey.sums) sum = 1 + number();
  }
  found.gradient_and_zero = 0.111;
  found.gradient_and_mean = 0.222;
  found.zero_and_mean = 0.333;
  return found;
}

// As on a page of so many columns or, with 0, as into a pipe, wherever the test runs.
std::string on_page(int columns, const std::function<std::string()>& text) {
  if (columns > 0) setenv("COLUMNS", std::to_string(columns).c_str(), 1);
  std::fflush(stdout);
  const int stdout_before = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  std::string shown = text();
  dup2(stdout_before, STDOUT_FILENO);
  close(stdout_before);
  close(nowhere);
  unsetenv("COLUMNS");
  return shown;
}

std::string all_formats(const Report& report) {
  std::string text;
  for (const char* format : {"table", "json", "csv"}) {
    testing::internal::CaptureStdout();
    print(report, format);
    std::fflush(stdout);
    text += std::string("-- ") + format + "\n" + testing::internal::GetCapturedStdout() + "\n";
  }
  return text;
}

// Three digits, also where rounding adds one.
TEST(Reports, NumbersHaveThreeDigitsAndTheirUnit) {
  for (const auto& [number, expected] : std::vector<std::pair<double, std::string>>{{0, "0 s"},
                                                                                    {1, "1.00 s"},
                                                                                    {9.994, "9.99 s"},
                                                                                    {9.996, "10.0 s"},
                                                                                    {99.94, "99.9 s"},
                                                                                    {99.96, "100 s"},
                                                                                    {999.4, "999 s"},
                                                                                    {999.6, "1.00 ks"},
                                                                                    {0.9994, "999 ms"},
                                                                                    {0.9996, "1.00 s"},
                                                                                    {-0.002, "-2.00 ms"},
                                                                                    {3.5e-6, "3.50 us"},
                                                                                    {4e-9, "4.00 ns"},
                                                                                    {4e-12, "0.00 ns"},
                                                                                    {2e15, "2.00 Ps"}}) {
    EXPECT_EQ(text_of(Value(number), Style::seconds), expected);
  }
  EXPECT_EQ(text_of(Value(-0.0004), Style::percent), "0.0 %");
  EXPECT_EQ(text_of(Value("-0.0 %"), Style::percent), "0.0 %");
  EXPECT_EQ(text_of(Value("+0.00 points"), Style::percent), "0.00 points");
  EXPECT_EQ(text_of(Value("-0.1 %"), Style::percent), "-0.1 %");
  EXPECT_EQ(text_of(Value("-0"), Style::words), "-0");
  EXPECT_EQ(text_of(Value(-0.0004), Style::decimal), "0.000");
  EXPECT_EQ(text_of(Value(-0.0006), Style::decimal), "-0.001");
  EXPECT_EQ(text_of(Value(0.0006), Style::percent), "0.1 %");
  EXPECT_EQ(text_of(Value(std::int64_t{1234567}), Style::count), "1,234,567");
  EXPECT_EQ(text_of(Value(std::int64_t{1234567}), Style::scaled), "1.23 M");
}

// What belongs together goes together, the least needed first.
TEST(Reports, TablesFitAPage) {
  Table table{.name = "t",
              .columns = {{"a", "a", Style::decimal, 1},
                          {"b", "b", Style::decimal, 2},
                          {"c", "of b", Style::decimal, 2},
                          {"d", ""}},
              .rows = {{0.25, 0.5, 0.75, std::string(79, 'w')}}};
  const auto shown = [&](int columns) { return on_page(columns, [&] { return text_of(table); }); };
  const std::string whole = "    a      b   of b\n0.250  0.500  0.750  " + std::string(79, 'w') + "\n";
  EXPECT_EQ(shown(100), whole);
  EXPECT_EQ(shown(0), whole);
  table.rows[0][3] = std::string(80, 'w');
  EXPECT_EQ(shown(100), "    a\n0.250  " + std::string(80, 'w') + "\nNo room for: b, of b (--wide shows all).\n");
  EXPECT_EQ(shown(0), "    a      b   of b\n0.250  0.500  0.750  " + std::string(80, 'w') + "\n");
}

// Words that are still too wide go on below: at a blank, after a sign, or anywhere.
TEST(Reports, LongWordsGoOnBelow) {
  Table table{.name = "t", .columns = {{"a", "a"}, {"b", "b", Style::count}}, .rows = {}};
  table.rows = {{std::string("one two three four five six seven eight nine"), std::int64_t{7}},
                {std::string("model.layers.0.self_attn.q_proj.weight.of.another"), std::int64_t{8}},
                {std::string(50, 'w'), std::int64_t{9}}};
  EXPECT_EQ(on_page(40, [&] { return text_of(table); }),
            "a                                      b\n"
            "one two three four five six seven      7\n"
            "eight nine\n"
            "model.layers.0.self_attn.q_proj.       8\n"
            "weight.of.another\n" +
                std::string(37, 'w') + "  9\n" + std::string(13, 'w') + "\n");
}

void expect_fits_a_page(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Reports, OfModelsSideBySideFitAPage) {
  const exam::Examination found = examination();
  Side side{found.survey, found.roles};
  const auto report = [&] {
    return on_page(100, [&] { return compare_report({"run", "other", "grammar", side, side}).text; });
  };
  EXPECT_NE(report().find("entropy   in B  distance   in B\n"), std::string::npos);
  for (heads::HeadRoles& head : side.roles) head.scores[0] = {"predicts subject-verb", 0.9, 0.4, 0.1, "noted"};
  expect_fits_a_page(report());
  EXPECT_NE(report().find("No room for: distance, in B (--wide shows all).\n"), std::string::npos) << report();
}

// What a head does to the logits stays beside where it looks; only what is shown is explained.
TEST(Reports, OfHeadsWithLongRolesKeepTheLogit) {
  exam::Examination found = examination();
  exam::Subject trained{.model = model_of(model::Kind::gpt), .about = "grammar"};
  trained.task = train::make_task({.name = "grammar"});
  const auto report = [&](int columns) {
    return on_page(columns, [&] { return heads_report({"run", 17, trained, found}, false).text; });
  };
  EXPECT_NE(report(120).find("Most like:"), std::string::npos);
  for (heads::HeadRoles& head : found.roles) head.scores[0] = {"predicts subject-verb", 0.9, 0.4, 0.1, "offset -2"};
  const std::string text = report(100);
  expect_fits_a_page(text);
  EXPECT_NE(text.find("accuracy   logit\n"), text.npos) << text;
  EXPECT_NE(text.find("Logit:"), text.npos) << text;
  EXPECT_NE(text.find("distance, previous, most like, on first\n(--wide shows all)."), text.npos) << text;
  EXPECT_EQ(text.find("Most like:"), text.npos) << text;
}

// Differences that are smaller than their last digit.
TEST(Reports, WhatRoundsToNothingHasNoSign) {
  exam::Examination found = examination();
  for (HeadImportance& head : found.importance) head.zero = {-1e-5, -2e-5, 1e-5};
  found.gradient_and_zero = found.gradient_and_mean = -0.001;
  const exam::Subject read{.model = model_of(model::Kind::gpt), .about = "book.txt"};
  Pruned pruned{.folder = "run", .out = "small", .order = "iterative", .budget = 2.5};
  exam::Facts& after = pruned.facts.after;
  after.heads = 3;
  after.parameters = after.bytes = 100'000;
  after.seconds_of_one = after.seconds_of_16 = 0.1;
  after.accuracy = 0.9;
  pruned.facts.before = after;
  after.parameters -= 1;
  after.seconds_of_one -= 1e-5;
  pruned.facts.of_one = pruned.facts.of_16 = {0.9998, 0.9999};
  after.accuracy -= 1e-6;
  after.loss -= 1e-5;
  const std::string text = heads_report({"run", 17, read, found}, false).text + prune_report(pruned).text;
  std::smatch signed_zero;
  EXPECT_FALSE(std::regex_search(text, signed_zero, std::regex(R"([-+]0\.0+(?![0-9]))"))) << text;
  EXPECT_NE(text.find("0.000 ± 0.000"), text.npos) << text;
  EXPECT_NE(text.find("0.00 points"), text.npos) << text;
}

TEST(KeptReports, OfHeads) {
  const exam::Examination found = examination();
  exam::Subject trained{.model = model_of(model::Kind::gpt), .about = "repeat-fixed"};
  trained.task = train::make_task({.name = "repeat-fixed"});
  const exam::Subject read{.model = model_of(model::Kind::gpt), .about = "book.txt"};
  exam::Examination with_sinks = examination();
  with_sinks.sinks = {0.4321, 0.4, 0.4642};
  const exam::Subject encoder{.model = model_of(model::Kind::encoder), .about = "book.txt"};
  expect_kept(fixture("heads_report.txt"), on_page(0, [&] {
                return all_formats(heads_report({"run", 17, trained, found}, false)) +
                       all_formats(heads_report({"run", 17, trained, found}, true)) +
                       heads_report({"model", 5, read, found, false}, false).text +
                       all_formats(heads_report({"model", 5, read, with_sinks}, false)) +
                       heads_report({"model", 5, read, found, true, true, false}, false).text +
                       all_formats(heads_report({"model", 5, encoder, found}, false));
              }));
}

PruneCurve curve(std::size_t within) {
  PruneCurve made{1 + number(), 0.9 + number() / 100, {}, within};
  for (std::int64_t n = 0; n < 3; ++n) made.steps.push_back({{0, (n + 1) % 3}, 2 + number(), 0.5 + number()});
  return made;
}

TEST(KeptReports, OfPruning) {
  const exam::Examination found = examination();
  Pruned pruned{.folder = "run", .out = "small", .order = "iterative", .budget = 2.5};
  pruned.curve = curve(2);
  pruned.roles = found.roles;
  pruned.left = {{0, 2}};
  pruned.roles_left = {{{0, 0}, found.roles[1].scores}};
  pruned.facts.before = {3, 1000, 4000, 0.001, 0.012, 0.0003, 0.0024, 0.9, 0.5};
  pruned.facts.after = {1, 700, 2900, 0.0009, 0.02, 0.0002, 0.0023, 0.885, 0.625};
  pruned.facts.of_one = {0.85, 0.95};
  pruned.facts.of_16 = {1.5, 1.7};
  pruned.facts.step_of_one = {0.6, 1.1};  // repeats disagree
  pruned.facts.step_of_16 = {0.9, 0.99};
  pruned.bytes_read = 4000;
  pruned.bytes_written = 5100;
  const auto all = [&] { return on_page(0, [&] { return all_formats(prune_report(pruned)); }); };
  const auto text_alone = [&] { return on_page(0, [&] { return prune_report(pruned).text; }); };
  std::string text = all();
  pruned.orders =
      Orders{{{"iterative", curve(1)}, {"one-shot", curve(1)}, {"damage", curve(2)}}, {curve(0), curve(1), curve(2)}};
  pruned.mean = true;
  pruned.fine_tuned = 40;
  pruned.missing = "the tokenizer was not written";
  text += all();
  pruned.curve.within_budget = 0;
  pruned.budget = 1;
  pruned.out.clear();
  pruned.facts.before.step_of_one = pruned.facts.before.step_of_16 = 0;  // as of a classifier
  text += text_alone();
  pruned.answers = false;
  pruned.orders->ranked.erase(pruned.orders->ranked.begin(), pruned.orders->ranked.begin() + 2);
  expect_kept(fixture("prune_report.txt"), text + all());
}

}  // namespace reports
}  // namespace polyhead::cli
