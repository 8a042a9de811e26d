// Shapes and numbers of every step, as the command shows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "cli/run.h"

namespace polyhead::cli {
namespace {

nlohmann::json step(const nlohmann::json& report, const std::string& name) {
  for (const auto& row : report["steps"]) {
    if (row["step"] == name) return row;
  }
  throw std::runtime_error("no step " + name);
}

using Shape = std::vector<int>;
using Numbers = std::vector<double>;

TEST(Trace, SplitsAndMergesHeads) {
  const auto report = json_of("trace");
  EXPECT_EQ(step(report, "x")["shape"].get<Shape>(), (Shape{4, 16, 512}));
  EXPECT_EQ(step(report, "split")["shape"].get<Shape>(), (Shape{4, 16, 4, 128}));
  EXPECT_EQ(step(report, "q by head")["shape"].get<Shape>(), (Shape{4, 4, 16, 128}));
  EXPECT_EQ(step(report, "weights")["shape"].get<Shape>(), (Shape{4, 4, 16, 16}));
  EXPECT_EQ(step(report, "merged")["shape"].get<Shape>(), (Shape{4, 16, 512}));
  EXPECT_EQ(step(report, "output")["shape"].get<Shape>(), (Shape{4, 16, 512}));
  EXPECT_TRUE(step(report, "x")["values"].is_null()) << "too many to show";
  EXPECT_LT(report["weight_sum_error"], 1e-5);
  EXPECT_LT(report["engine_error"], 1e-5);
  EXPECT_EQ(report["columns_changed_before_projection"], 128) << "a head owns its part of the width";
  EXPECT_EQ(report["columns_changed_after_projection"], 512) << "W_O mixes heads";
}

TEST(Trace, SmallSizesShowConsistentNumbers) {
  const auto report = json_of("trace --batch 1 --tokens 3 --width 4 --heads 2 --causal");
  const auto weights = step(report, "weights")["values"].get<Numbers>();
  const auto v = step(report, "v")["values"].get<Numbers>();
  const auto merged = step(report, "merged")["values"].get<Numbers>();
  ASSERT_EQ(weights.size(), 2u * 3 * 3);
  EXPECT_EQ(weights[0], 1) << "the first token sees only itself";
  EXPECT_TRUE(step(report, "scores")["values"][1].is_null()) << "a hidden key has no score";
  // Head h of token i owns columns 2h and 2h + 1 of the merged width.
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t c = 2 * h; c < 2 * h + 2; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j < 3; ++j) sum += weights[(h * 3 + i) * 3 + j] * v[j * 4 + c];
        EXPECT_NEAR(merged[i * 4 + c], sum, 1e-6);
      }
}

// Everything once more, from the seed on and in double: batch, tokens and width of their own, every head and sequence.
class Again {
 public:
  static constexpr std::size_t B = 2, T = 11, C = 12, H = 3, D = C / H;

  explicit Again(bool causal, std::uint64_t seed) : bits_(seed) {
    numbers["x"] = drawn(B * T * C, 1);
    for (const char* name : {"q", "k", "v"}) numbers[name] = times(numbers["x"], drawn(C * C, 1.0 / C));
    const Numbers w_o = drawn(C * C, 1.0 / C);
    for (const std::string name : {"q", "k", "v"}) numbers[name + " by head"] = by_head(numbers[name]);
    numbers["split"] = numbers["q"];
    const Numbers &q = numbers["q by head"], &k = numbers["k by head"], &v = numbers["v by head"];
    for (std::size_t bh = 0; bh < B * H; ++bh) {
      for (std::size_t i = 0; i < T; ++i) add_row(&q[(bh * T + i) * D], &k[bh * T * D], &v[bh * T * D], i, causal);
    }
    numbers["merged"] = side_by_side(numbers["heads"]);
    numbers["output"] = times(numbers["merged"], w_o);
  }

  std::map<std::string, Numbers> numbers;

 private:
  Numbers drawn(std::size_t count, double variance) {
    Numbers made(count);
    for (double& number : made) {
      number = static_cast<float>(std::sqrt(3 * variance) * (2 * (static_cast<double>(bits_() >> 11) * 0x1p-53) - 1));
    }
    return made;
  }
  static Numbers times(const Numbers& x, const Numbers& w) {
    Numbers y(x.size());
    for (std::size_t n = 0; n < x.size(); ++n)
      for (std::size_t c = 0; c < C; ++c) y[n] += x[n / C * C + c] * w[c * C + n % C];
    return y;
  }
  static Numbers by_head(const Numbers& x) {
    Numbers y;
    for (std::size_t b = 0; b < B; ++b)
      for (std::size_t h = 0; h < H; ++h)
        for (std::size_t t = 0; t < T; ++t)
          for (std::size_t d = 0; d < D; ++d) y.push_back(x[(b * T + t) * C + h * D + d]);
    return y;
  }
  static Numbers side_by_side(const Numbers& x) {
    Numbers y;
    for (std::size_t b = 0; b < B; ++b)
      for (std::size_t t = 0; t < T; ++t)
        for (std::size_t c = 0; c < C; ++c) y.push_back(x[((b * H + c / D) * T + t) * D + c % D]);
    return y;
  }
  void add_row(const double* q, const double* k, const double* v, std::size_t i, bool causal) {
    Numbers scores(T), output(D);
    double sum = 0;
    for (std::size_t j = 0; j < T; ++j) {
      for (std::size_t d = 0; d < D; ++d) scores[j] += q[d] * k[j * D + d] / std::sqrt(double{D});
      if (causal && j > i) scores[j] = -INFINITY;
      sum += std::exp(scores[j]);
    }
    for (std::size_t j = 0; j < T; ++j) {
      numbers["scores"].push_back(scores[j]);
      numbers["weights"].push_back(std::exp(scores[j]) / sum);
      for (std::size_t d = 0; d < D; ++d) output[d] += std::exp(scores[j]) / sum * v[j * D + d];
    }
    numbers["heads"].insert(numbers["heads"].end(), output.begin(), output.end());
  }

  std::mt19937_64 bits_;
};

const std::string kAgain = "trace --batch 2 --tokens 11 --width 12 --heads 3 --seed 5";

TEST(Trace, EveryNumberOfEverySequence) {
  for (const bool causal : {false, true}) {
    const auto report = json_of(kAgain + (causal ? " --causal" : ""));
    const Again again(causal, 5);
    ASSERT_EQ(report["steps"].size(), again.numbers.size());
    for (const auto& [name, expected] : again.numbers) {
      const auto found = step(report, name)["values"];
      ASSERT_EQ(found.size(), expected.size()) << name;
      for (std::size_t n = 0; n < expected.size(); ++n) {
        ASSERT_EQ(found[n].is_null(), std::isinf(expected[n])) << name << " " << n;
        if (found[n].is_null()) continue;
        ASSERT_NEAR(found[n].get<double>(), expected[n], 1e-5) << name << " " << n;
      }
    }
  }
}

// The matrix below a title, its columns put together again where they go below each other.
std::vector<std::vector<std::string>> matrix_below(const std::string& text, const std::string& title) {
  const auto lines = lines_of(text);
  const auto at = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(title); });
  std::vector<std::vector<std::string>> rows(Again::T);
  for (auto line = at; at != lines.end() && ++line != lines.end() && !line->empty();) {
    std::istringstream words(*line);
    std::string token, number;
    std::size_t row = 0;
    if (!(words >> token) || token != "token") continue;  // the names of the columns
    for (words >> row; words >> number;) rows.at(row).push_back(number);
  }
  return rows;
}

// All matrices that are printed, digit by digit but for the last, which rounding may turn.
TEST(Trace, EveryPrintedMatrix) {
  const std::string text = output_of(kAgain + " --causal").text;
  const Again again(true, 5);
  const auto expect_matrix = [&](const std::string& title, const Numbers& numbers, std::size_t first,
                                 std::size_t columns) {
    SCOPED_TRACE(title);
    const auto rows = matrix_below(text, title);
    for (std::size_t t = 0; t < Again::T; ++t) {
      ASSERT_EQ(rows[t].size(), columns);
      for (std::size_t c = 0; c < columns; ++c) {
        const double expected = numbers.at(first + t * columns + c);
        if (std::isinf(expected)) {
          ASSERT_EQ(rows[t][c], "hidden");
        } else {
          ASSERT_NEAR(std::stod(rows[t][c]), expected, 0.00051) << t << ", " << c;
        }
      }
    }
  };
  constexpr std::size_t T = Again::T, C = Again::C, D = Again::D;
  for (const std::string name : {"x", "q", "k", "v", "merged", "output"}) {
    expect_matrix(name + ": ", again.numbers.at(name), 0, C);
  }
  for (std::size_t h = 0; h < Again::H; ++h) {
    const std::string head = ", head " + std::to_string(h) + ": ";
    for (const std::string name : {"q by head", "heads"}) {
      expect_matrix(name + head, again.numbers.at(name), h * T * D, D);
    }
    for (const std::string name : {"scores", "weights"}) {
      expect_matrix(name + head, again.numbers.at(name), h * T * T, T);
    }
  }
}

// Means over the rows of both sequences, from the weights.
TEST(Trace, WhatEveryHeadDid) {
  const auto report = json_of(kAgain + " --causal");
  const Numbers weights = Again(true, 5).numbers.at("weights");
  for (std::size_t h = 0; h < Again::H; ++h) {
    double entropy = 0, normalised = 0, largest = 0, first = 0, self = 0, previous = 0;
    for (std::size_t b = 0; b < Again::B; ++b) {
      for (std::size_t t = 0; t < Again::T; ++t) {
        const double* row = &weights[((b * Again::H + h) * Again::T + t) * Again::T];
        double nats = 0;
        for (std::size_t j = 0; j <= t; ++j) nats -= row[j] * std::log(row[j]);
        entropy += nats;
        normalised += t > 0 ? nats / std::log(double(t + 1)) : 0;
        largest += *std::max_element(row, row + t + 1);
        first += row[0];
        self += row[t];
        previous += t > 0 ? row[t - 1] : 0;
      }
    }
    const double rows = double{Again::B} * Again::T, later = double{Again::B} * (Again::T - 1);
    const auto& found = report["head_statistics"][h];
    EXPECT_NEAR(found["entropy"], entropy / rows, 1e-5);
    EXPECT_NEAR(found["normalised_entropy"], normalised / later, 1e-5);
    EXPECT_NEAR(found["max_weight"], largest / rows, 1e-5);
    EXPECT_NEAR(found["first"], first / rows, 1e-5);
    EXPECT_NEAR(found["self"], self / rows, 1e-5);
    EXPECT_NEAR(found["previous"], previous / later, 1e-5);
  }
}

TEST(Trace, SameSeedSameNumbers) {
  const std::string small = "trace --tokens 3 --width 4 --heads 2 --format csv";
  EXPECT_EQ(output_of(small).text, output_of(small).text);
  EXPECT_NE(output_of(small).text, output_of(small + " --seed 2").text);
}

TEST(Trace, CsvHasOneNumberALine) {
  const auto lines = lines_of(output_of("trace --batch 1 --tokens 2 --width 2 --heads 1 --format csv").text);
  EXPECT_EQ(lines[0], "step,shape,element,value");
  EXPECT_TRUE(lines[1].starts_with("x,\"[1,2,2]\",0,"));
  EXPECT_EQ(lines.size(), 1u + 13 * 4);
}

TEST(Trace, CrewsComeToTheExactSums) {
  const auto report = json_of("trace --example crews");
  const auto output = step(report, "output")["values"].get<Numbers>();
  const Numbers expected{.620, .190, .085, .210, .355, .410, .120, .275};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(output[i], expected[i], 1e-6);
    EXPECT_NEAR(step(report, "output without head 0")["values"][i], i < 4 ? 0 : expected[i], 1e-6);
    EXPECT_NEAR(step(report, "output without head 1")["values"][i], i < 4 ? expected[i] : 0, 1e-6);
  }
  const std::string text = output_of("trace --example crews").text;
  EXPECT_TRUE(contains(text, "= o0      0.620   0.190   0.085   0.210")) << text;
  EXPECT_TRUE(contains(text, "= o1      0.355   0.410   0.120   0.275")) << text;
}

TEST(Trace, SizesThatDoNotFit) {
  EXPECT_EQ(output_of("trace --width 10 --heads 3").code, 3);
  EXPECT_EQ(output_of("trace --tokens 100000").code, 3);
  EXPECT_TRUE(contains(errors_of("trace --tokens 100000").text, "choose smaller sizes"));
}

}  // namespace
}  // namespace polyhead::cli
