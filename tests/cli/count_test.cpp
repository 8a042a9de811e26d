// The numbers that textbooks give, from the command that counts them.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/run.h"

namespace polyhead::cli {
namespace {

// One line of an itemised count.
nlohmann::json part(const nlohmann::json& report, const std::string& name) {
  for (const auto& row : report["parts"]) {
    if (row["part"] == name) return row;
  }
  throw std::runtime_error("no part " + name);
}

TEST(Count, FourSeparateHeadsOf32) {
  const auto report = json_of("count layer-128x4");
  EXPECT_EQ(part(report, "W_Q")["weights"], 16384);
  EXPECT_EQ(part(report, "Q, K, V")["weights"], 49152);
  EXPECT_EQ(part(report, "Q, K, V")["biases"], 0);
  EXPECT_EQ(part(report, "W_O")["weights"], 16384);
  EXPECT_EQ(part(report, "W_O")["biases"], 128);
  EXPECT_EQ(part(report, "total")["model_parameters"], 49152 + 16384 + 128);
  EXPECT_EQ(report["head_dim"], 32);
}

TEST(Count, FourMatricesOfGpt2Small) {
  const auto report = json_of("count gpt2");
  EXPECT_EQ(part(report, "attention")["weights"], 2359296);
  EXPECT_EQ(part(report, "attention")["weights"].get<int>() + part(report, "attention")["biases"].get<int>(), 2362368);
  EXPECT_EQ(part(report, "total")["model_parameters"], 124439808);
}

TEST(Count, KnownModelsHaveTheirPublishedSizes) {
  struct Known {
    std::string name;
    int width, heads, head_dim;
    std::int64_t parameters;
  };
  const std::vector<Known> known{{"gpt2", 768, 12, 64, 124439808},
                                 {"gpt2-medium", 1024, 16, 64, 354823168},
                                 {"gpt2-large", 1280, 20, 64, 774030080},
                                 {"gpt3", 12288, 96, 128, 174604259328},
                                 {"llama-7b", 4096, 32, 128, 6738415616}};
  const auto report = json_of("count");
  for (const Known& model : known) {
    bool found = false;
    for (const auto& row : report["models"]) {
      if (row["model"] != model.name) continue;
      found = true;
      EXPECT_EQ(row["width"], model.width) << model.name;
      EXPECT_EQ(row["heads"], model.heads) << model.name;
      EXPECT_EQ(row["head_dim"], model.head_dim) << model.name;
      EXPECT_EQ(row["parameters"], model.parameters) << model.name;
      EXPECT_EQ(row["layer_weights"], std::int64_t{4} * model.width * model.width) << model.name;
    }
    EXPECT_TRUE(found) << model.name;
  }
}

TEST(Count, BaseTransformerAttentionAgainstFeedForward) {
  const auto report = json_of("count transformer-base");
  EXPECT_EQ(part(report, "attention")["times"], 18);
  EXPECT_EQ(part(report, "attention")["model_weights"], 18874368);
  EXPECT_EQ(part(report, "attention")["model_parameters"], 18911232);
  EXPECT_EQ(part(report, "FFN")["model_weights"], 25165824);
  EXPECT_EQ(part(report, "FFN")["model_parameters"], 25196544);
  EXPECT_EQ(report["head_dim"], 64);
  const std::string text = output_of("count transformer-base").text;
  EXPECT_TRUE(contains(text, "18,874,368  42.9 %  25,165,824  57.1 %")) << text;
  EXPECT_TRUE(contains(text, "18,911,232  42.9 %  25,196,544  57.1 %")) << text;
}

TEST(Count, OneWideHeadCostsTheSame) {
  const auto eight = json_of("count transformer-base"), one = json_of("count transformer-base --heads 1");
  EXPECT_EQ(one["head_dim"], 512);
  EXPECT_EQ(eight["parts"], one["parts"]);
  EXPECT_TRUE(contains(output_of("count layer-512x8").text, "One head of 512 instead of 8 of 64"));
}

TEST(Count, LayerWithoutBiases) {
  const auto report = json_of("count layer-512x8");
  EXPECT_EQ(part(report, "total")["model_parameters"], 4 * 512 * 512);
}

TEST(Count, FlopsOfOneLayer) {
  // Four matrices of 512 x 512 and 16 x 16 pairs in 512 dimensions, twice; a multiply-add is two.
  const auto report = json_of("count layer-512x4");
  EXPECT_EQ(report["tokens"], 16);
  EXPECT_EQ(part(report, "total")["flops_sequence"], 2 * 16 * 4 * 512 * 512 + 2 * 2 * 16 * 16 * 512);
  EXPECT_EQ(part(report, "total")["flops_last_token"], 2 * 4 * 512 * 512 + 2 * 2 * 16 * 512);
  const auto causal = json_of("count layer-512x4 --causal");
  EXPECT_EQ(part(causal, "scores q.k")["flops_sequence"], 2 * (16 * 17 / 2) * 512);
}

TEST(Count, AnyConfiguration) {
  const auto report = json_of("count --width 512 --heads 8 --kv-heads 2 --no-bias --tokens 100");
  EXPECT_EQ(part(report, "W_K")["weights"], 512 * 128);
  EXPECT_EQ(part(report, "total")["model_parameters"], 2 * 512 * 512 + 2 * 512 * 128);
  const auto wide = json_of("count --width 512 --heads 8 --head-dim 100 --ff 2048 --layers 2+3 --vocab 1000 --bias");
  EXPECT_EQ(part(wide, "W_Q")["weights"], 512 * 800);
  EXPECT_EQ(part(wide, "W_Q")["times"], 2 + 2 * 3);
  EXPECT_EQ(part(wide, "FFN")["times"], 5);
  EXPECT_EQ(part(wide, "FFN")["biases"], 2048 + 512);
  EXPECT_EQ(part(wide, "tokens")["weights"], 512000);
}

TEST(Count, CsvHasAHeaderAndARowForEveryPart) {
  const auto lines = lines_of(output_of("count gpt2 --format csv").text);
  ASSERT_EQ(lines.size(), 1 + json_of("count gpt2")["parts"].size());
  EXPECT_TRUE(lines[0].starts_with("part,kind,shape,weights,"));
  EXPECT_TRUE(lines[4].starts_with("\"Q, K, V\",sum,,1769472,"));
}

TEST(Count, SizesThatDoNotFit) {
  EXPECT_EQ(output_of("count gpt2 --heads 7").code, 3);
  EXPECT_TRUE(contains(errors_of("count gpt2 --heads 7").text, "768 does not divide into 7 heads (5 left over)"));
  EXPECT_EQ(output_of("count gpt2 --kv-heads 5").code, 3);
  EXPECT_EQ(output_of("count gpt3 --tokens 1000000000 --layers 100000").code, 3);
}

}  // namespace
}  // namespace polyhead::cli
