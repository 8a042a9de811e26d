// Shapes and numbers of every step, as the command shows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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
    EXPECT_NEAR(step(report, "output without head 1")["values"][i], i < 4 ? 0 : expected[i], 1e-6);
    EXPECT_NEAR(step(report, "output without head 2")["values"][i], i < 4 ? expected[i] : 0, 1e-6);
  }
  const std::string text = output_of("trace --example crews").text;
  EXPECT_TRUE(contains(text, "= o1      0.620   0.190   0.085   0.210")) << text;
  EXPECT_TRUE(contains(text, "= o2      0.355   0.410   0.120   0.275")) << text;
}

TEST(Trace, SizesThatDoNotFit) {
  EXPECT_EQ(output_of("trace --width 10 --heads 3").code, 3);
  EXPECT_EQ(output_of("trace --tokens 100000").code, 3);
  EXPECT_TRUE(contains(errors_of("trace --tokens 100000").text, "choose smaller sizes"));
}

}  // namespace
}  // namespace polyhead::cli
