// What polyhead plan forecasts, beside sums by hand. That ranks send what it says is in tests/ranks/traffic_test.cpp.
#include "cli/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cli/run.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/memory.h"

namespace polyhead::cli {
namespace plans {

const Rates kRates{.training = 4e9, .forward = 2e9, .sums = 1e9, .steps = 5e8, .merges = 1e8};
const Link kFree{.latency = 0, .bandwidth = 1e30};

Workload work_of(std::int64_t batch, std::int64_t parts) {
  Workload work{.config = model::make_config(model::Kind::gpt, 3, 64, 4), .batch = batch, .tokens = 50, .parts = parts};
  work.config.vocabulary = 100;
  work.config.context = 50;
  work.sequences = 40;
  work.window = 50;
  work.at_once = 10;
  return work;
}

// Three layers of four matrices of 64 x 64 and two of 64 x 256, pairs that a causal mask leaves, and logits.
TEST(Plan, CountsOperationsAsCountDoes) {
  const double layer = 2.0 * 50 * (4 * 64 * 64 + 2 * 64 * 256) + 4.0 * 64 * (50 * 51 / 2);
  EXPECT_EQ(forward_flops(work_of(1, 1).config, 7, 50), 7 * (3 * layer + 2.0 * 50 * 64 * 100));
  for (const std::string name : {"gpt2", "llama-7b"}) {
    const auto counted = json_of("count " + name + " --tokens 64");
    const auto planned = json_of("plan " + name + " --tokens 64 --ranks 1 --gflops 1 --gigabytes 1e6");
    double flops = 0;
    for (const auto& part : counted["parts"]) {
      if (part["part"] == "total") flops = part["flops_sequence"];
    }
    double prefill = 0;
    for (const auto& row : planned["forecasts"]) {
      if (row["work"] == "prefill") prefill = row["shared"];
    }
    const double logits = 2.0 * 64 * (name == "gpt2" ? 768.0 * 50257 : 4096.0 * 32000);  // of which prefill has one row
    EXPECT_NEAR(1e9 * prefill, flops - logits, 1) << name;
  }
}

// Sixteen parts: 2, 4, 8 and 16 ranks have as many each, 3 and 7 do not.
TEST(Plan, AStepIsAsLongAsThatOfTheRankWithMostParts) {
  const Workload work = work_of(16, 16);
  const double n = model::parameter_count(work.config), sequence = 3 * forward_flops(work.config, 1, 50) / 4e9;
  for (const auto& [ranks, most] : {std::pair(1, 16), {2, 8}, {3, 6}, {4, 4}, {7, 3}, {8, 2}, {16, 1}}) {
    const Forecast found = forecast_training(work, kRates, kFree, ranks);
    const double own = most * sequence + (2 * most - 1) * n / 1e9;
    EXPECT_NEAR(found.shared + found.uneven, own, 1e-12) << ranks;
    EXPECT_NEAR(found.repeated, n / 1e9 + n / 5e8, 1e-12) << ranks;
    // Sums that wait: at most one for each level of the tree, and none within a rank.
    EXPECT_LE(found.sending, 4.001 * n / 1e9) << ranks;
    EXPECT_EQ(found.sending > 0, ranks > 1) << ranks;
  }
}

TEST(Plan, MessagesOfAStepGoUpATreeAndDownAgain) {
  const Workload work = work_of(16, 16);
  const double gradient = 4 * model::parameter_count(work.config);
  const Link link{.latency = 1, .bandwidth = gradient};  // two seconds for a gradient
  const Forecast found = forecast_training(work, kRates, link, 4);
  const double sums = 2 * gradient / 4 / 1e9;  // of two levels
  // Two levels up, two down; twice three texts from the others, which hold 16 losses.
  EXPECT_NEAR(found.sending, 4 * 2 + sums + 2 * 3 + 16 * 8 / gradient, 1e-9);
  EXPECT_EQ(found.bytes, 3 * gradient + 3 * gradient + 3 * (16 * 8 + 2 * 8 * 4));
}

// Numbers of every layer: heads, gradients of q, k and v, four rows as wide as the stream, two hidden ones; then
// logits.
TEST(Plan, RanksThatShareAPassDivideIt) {
  Workload work = work_of(16, 16);
  const double n = model::parameter_count(work.config), sequence = 3 * forward_flops(work.config, 1, 50) / 4e9;
  const double numbers = 16 * 50 * (3 * (64 + 3 * 64 + 4 * 64 + 2 * 256) + 100 + 64);
  const Link link{.latency = 1, .bandwidth = 4 * numbers};
  for (const std::int64_t heads : {2, 3}) {
    work.heads = heads;
    const double others = static_cast<double>(heads - 1);
    const Forecast found = forecast_training(work, kRates, link, heads);
    EXPECT_NEAR(found.shared, 16 * sequence / static_cast<double>(heads) + 31 * n / 1e9, 1e-12);
    // Two of four heads are more than a third.
    const double pairs = 16 * 3 * 3 * 4.0 * 64 * (50 * 51 / 2) / 4e9;
    EXPECT_NEAR(found.uneven, heads == 2 ? 0 : pairs * (1.0 / 2 - 1.0 / 3), 1e-12);
    EXPECT_EQ(found.bytes, others * (4 * (numbers + n) + 8 * static_cast<double>(heads)));
    // Sixteen passes of 26 messages, one for the gradient, and one that asks whether to stop.
    EXPECT_NEAR(found.sending, others * (16 * 26 + 1 + 1 + (1 + n / numbers) / static_cast<double>(heads)), 1e-6);
  }
  work.heads = 2;
  const Forecast four = forecast_training(work, kRates, link, 4);
  EXPECT_NEAR(four.shared, 8 * sequence / 2 + 15 * n / 1e9, 1e-12);
  EXPECT_EQ(four.bytes, 4 * numbers + 2 * 4 * n + 2 * (2 * 4 * n + 8 * 16 + 8 * 2) + 3 * 8 * 4);
}

TEST(Plan, RanksOfACausalSequenceHaveHalvesOfEqualWork) {
  Workload work = work_of(1, 1);
  work.tokens = 40;
  const Forecast one = forecast_prefill(work, kRates, kFree, 1), four = forecast_prefill(work, kRates, kFree, 4);
  EXPECT_NEAR(four.shared, one.shared / 4, 1e-12);
  EXPECT_EQ(one.uneven, 0);
  EXPECT_NEAR(four.uneven, 0, 1e-12);
  // The first halves go to three others each, the second ones to 0, 1, 2 and 3: five tokens each, in three layers.
  EXPECT_EQ(four.bytes, 3 * (4 * 3 + 6) * 5 * 4 * 2 * 64);  // 4 bytes of keys and values
  for (model::LayerHeads& heads : work.config.layers) heads.window = 5;
  EXPECT_LT(forecast_prefill(work, kRates, kFree, 4).bytes, four.bytes);
  work.config.kind = model::Kind::encoder;
  EXPECT_NEAR(forecast_prefill(work, kRates, kFree, 4).uneven, 0, 1e-12);
}

TEST(Plan, AScanIsPassesFromEveryHeadsLayerOn) {
  Workload work = work_of(1, 1);
  work.surveys = 4;
  const double whole = forward_flops(work.config, 40, 50), output = 40 * 2.0 * 50 * 64 * 100,
               layer = (whole - output) / 3;
  const double knock_outs = (4 * (3 + 2 + 1) * layer + (12 + 1) * output) / 2e9;
  const Forecast one = forecast_scan(work, kRates, kFree, 1);
  EXPECT_NEAR(one.shared, knock_outs, 1e-9);
  EXPECT_NEAR(one.uneven, 0, 1e-9);
  EXPECT_NEAR(one.repeated, 3 * whole / 4e9 + 4 * whole / 2e9 + 3 * layer / 2e9, 1e-9);
  EXPECT_EQ(one.sending, 0);
  EXPECT_EQ(one.bytes, 0);
  const Forecast many = forecast_scan(work, kRates, kFree, 4096);  // a job for one in twenty of them
  EXPECT_GT(many.seconds(), whole / 2e9 * 5);
  EXPECT_EQ(worth_of({one, many}).why, "what is not divided");
}

// A gradient, surveys, the walk up all layers, and of one's own models the means. Roles of models that others trained
// are kept, so that one survey is left of four.
TEST(Plan, AScanOfAnothersModelSurveysOnce) {
  const io::Scratch scratch;
  const std::string run = (scratch / "run").string();
  ASSERT_EQ(output_of("train repeat --steps 1 --layers 1 --width 16 --heads 2 --out " + run).code, 0);
  model::Config gpt2 = model::make_config(model::Kind::gpt, 12, 768, 12);
  gpt2.vocabulary = 50257;
  const auto expect_passes = [](const std::string& name, const model::Config& config, double passes) {
    const auto plan = json_of("plan " + name + " --ranks 1 --gflops 1 --gigabytes 1 --tokens 16");
    const std::int64_t sequences = plan["sequences"], window = plan["window"];
    const double whole = forward_flops(config, sequences, window);
    const auto logits = static_cast<double>(2 * sequences * window * config.width * config.vocabulary);
    for (const auto& row : plan["forecasts"]) {
      if (row["work"] != "scan") continue;
      EXPECT_NEAR(1e9 * row["repeated"].get<double>() / (passes * whole + whole - logits), 1, 1e-9) << name;
    }
  };
  expect_passes("gpt2", gpt2, 3 + 1);
  expect_passes(run, model::load_config(run), 3 + 4 + 1);
}

TEST(Plan, SaysWhereRanksStopPaying) {
  const auto taking = [](std::int64_t ranks, double shared, double uneven, double repeated, double sending) {
    return Forecast{ranks, shared, uneven, repeated, sending, 0, 0};
  };
  const Forecast one = taking(1, 8, 0, 0, 0), two = taking(2, 4, 0, 0, 1);
  EXPECT_EQ(worth_of({one, two}).ranks, 2);
  EXPECT_EQ(worth_of({one, two}).why, "");
  EXPECT_EQ(worth_of({one, two, taking(4, 2, 0, 0, 2.1)}).ranks, 2);  // 4.1 s instead of 5: 22 %
  EXPECT_EQ(worth_of({one, two, taking(4, 2, 0, 0, 1.9)}).ranks, 4);
  EXPECT_EQ(worth_of({one, two, taking(4, 2, 0, 0, 2.1)}).why, "messages");
  EXPECT_EQ(worth_of({one, taking(2, 4, 3.9, 0, 0)}).why, "ranks that wait for the slowest");
  EXPECT_EQ(worth_of({one, taking(2, 1, 2, 4, 1)}).why, "what is not divided");
}

nlohmann::json row_of(const nlohmann::json& report, const std::string& work, int ranks) {
  for (const auto& row : report["forecasts"]) {
    if (row["work"] == work && row["ranks"] == ranks) return row;
  }
  return nullptr;
}

// As training asks for it before it begins: 16 parts are five levels of gradients.
TEST(Plan, HasTheMemoryOfTheRun) {
  const std::string rates = " --gflops 100 --gigabytes 10";
  const auto report = json_of("plan gpt2 --batch 32 --parts 16 --ranks 24 --tokens 512" + rates);
  model::Config config = model::make_config(model::Kind::gpt, 12, 768, 12);
  config.vocabulary = 50257;
  config.context = 1024;
  config.tied = true;
  const double copies = 4 * model::parameter_count(config) * (5 + 5);
  const double passes = model::pass_bytes(config, {.batch = 2, .tokens = 512, .backward = true}) +
                        model::pass_bytes(config, {.batch = 32, .tokens = 512});
  EXPECT_EQ(row_of(report, "training", 8)["memory"], copies + passes + 8 * 8 * 32 * 512);
  EXPECT_EQ(report["parameters"], 124439808);
  EXPECT_TRUE(row_of(report, "training", 24).is_null());  // more ranks than parts
  EXPECT_FALSE(row_of(report, "scan", 24).is_null());
  EXPECT_TRUE(contains(report["training_pays"], "as many as the batch has parts")) << report["training_pays"];
}

// Rates are measured, and what they come to is forecast from them.
TEST(Plan, MeasuresWhatItIsNotTold) {
  const io::Scratch scratch;
  const Workload work = work_of(6, 6);
  io::spill(scratch / "config.json", model::to_json(work.config));
  const auto report = json_of("plan '" + (scratch / "config.json").string() + "' --batch 6 --threads 1 --ranks 4");
  EXPECT_EQ(report["rates_from"],
            "Measured here on 1 thread by processor time, with 3 of 3 layers, width 64, 1 x 50 tokens.");
  const Rates rates{report["training_flops_per_second"], report["forward_flops_per_second"], report["sums_per_second"],
                    report["steps_per_second"], report["merges_per_second"]};
  const Link link = kAssumedLink;
  EXPECT_EQ(report["latency"], link.latency);
  EXPECT_EQ(report["bandwidth"], link.bandwidth);
  for (const int ranks : {1, 2, 4}) {
    EXPECT_DOUBLE_EQ(row_of(report, "training", ranks)["seconds"],
                     forecast_training(work, rates, link, ranks).seconds());
    EXPECT_DOUBLE_EQ(row_of(report, "prefill", ranks)["seconds"], forecast_prefill(work, rates, link, ranks).seconds());
  }
}

}  // namespace plans
}  // namespace polyhead::cli
