// bench and info: their numbers belong to the machine, their form does not.
#include <gtest/gtest.h>

#include "cli/run.h"

namespace polyhead::cli {
namespace {

TEST(Bench, OneShapeWithAndWithoutMask) {
  const auto report = json_of("bench --shape 1,2,33,16 --shape 2,1,8,8 --threads 1");
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["threads"], 1);
  ASSERT_EQ(report["shapes"].size(), 4u);
  const auto& row = report["shapes"][1];
  EXPECT_EQ(row["mask"], "causal");
  EXPECT_EQ(row["tokens"], 33);
  const double seconds = row["seconds"];
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(row["flops_per_second"].get<double>() * seconds, 4 * 2 * 33 * 33 * 16 / 2.0, 1);
  EXPECT_NEAR(row["scores_per_second"].get<double>() * seconds, 2 * 33 * 34 / 2.0, 1);
}

TEST(Bench, TypesMasksAndStatistics) {
  for (const std::string type : {"f32", "f16", "bf16"}) {
    const std::string bench = "bench --shape 1,1,8,8 --causal --dtype " + type;
    for (const std::string set : {"none", "light", "full"}) {
      const auto report = json_of(std::string(bench).append(" --statistics ").append(set));
      EXPECT_EQ(report["dtype"], type);
      EXPECT_EQ(report["statistics"], set);
      ASSERT_EQ(report["shapes"].size(), 1u);
      EXPECT_EQ(report["shapes"][0]["mask"], "causal");
    }
  }
  EXPECT_EQ(json_of("bench --shape 1,1,8,8 --no-causal")["shapes"][0]["mask"], "none");
}

TEST(Bench, EveryOpCountsItsWork) {
  const double attention = 4 * 2 * 33 * 33 * 16, projection = 2 * 33 * 32 * 32;  // of H = 2, T = 33, D = 16
  const std::pair<std::string, double> ops[] = {{"attention", attention},
                                                {"backward", 2.5 * attention},
                                                {"decode", attention / 33},
                                                {"layer", 4 * projection + attention},
                                                {"training", 12 * projection + 3.5 * attention},
                                                {"projection", 3 * projection}};
  for (const auto& [op, flops] : ops) {
    const auto report = json_of("bench --no-causal --shape 1,2,33,16 --threads 1 --op " + op);
    EXPECT_EQ(report["op"], op);
    ASSERT_EQ(report["shapes"].size(), 1u) << op;
    const auto& row = report["shapes"][0];
    EXPECT_NEAR(row["flops_per_second"].get<double>() * row["seconds"].get<double>(), flops, 1) << op;
  }
  EXPECT_EQ(output_of("bench --op backward --statistics light").code, 2);
  EXPECT_EQ(output_of("bench --op nonsense").code, 2);
  EXPECT_EQ(output_of("bench --op decode --causal").code, 2);
  EXPECT_EQ(output_of("bench --op layer --shape 1,1000,1,1000").code, 3);
}

TEST(Bench, ShapesThatAreNone) {
  for (const std::string shape : {"1,2,3", "1,2,3,4,5", "1,2,3,0", "a,b,c,d", "1,,3,4", "1,2,3,4,"}) {
    EXPECT_EQ(output_of("bench --shape " + shape).code, 2) << shape;
  }
  EXPECT_EQ(output_of("bench --shape 1000000,1000000,10,10").code, 3);
}

TEST(Info, SaysWhatThereIs) {
  const auto report = json_of("info");
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ("polyhead " + report["version"].get<std::string>() + "\n", output_of("--version").text);
  EXPECT_GE(report["threads"], 1);
  const auto targets = report["targets"].get<std::vector<std::string>>();
  EXPECT_NE(std::find(targets.begin(), targets.end(), report["target"].get<std::string>()), targets.end());
  EXPECT_EQ(report["cuda"].get<bool>(), report["cuda_reason"].get<std::string>().empty());
  ASSERT_FALSE(report["paths"].empty());
  for (const auto& row : report["paths"]) EXPECT_FALSE(row["path"].get<std::string>().empty()) << row;
  EXPECT_TRUE(contains(output_of("info").text, report["target"].get<std::string>()));
}

}  // namespace
}  // namespace polyhead::cli
