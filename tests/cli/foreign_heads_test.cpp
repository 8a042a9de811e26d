// polyhead heads and prune on a model of others and a text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/foreign.h"
#include "cli/plant.h"

namespace polyhead::cli {
namespace {

using io::slurp, io::spill;
using nlohmann::json;

class ForeignHeads : public Foreign {
 protected:
  ForeignHeads() {
    std::string text;
    for (unsigned n = 0; n < 400; ++n) text += static_cast<char>('a' + n * n / 7 % 16);
    spill(scratch_ / "text", text);
    text_ = " --length 8 --text " + (scratch_ / "text").string();
  }
  std::string on_text(const std::string& line) const { return line + " " + scratch_.folder() + text_; }
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  void take(const std::string& model) const {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::remove(scratch_ / name);
      std::filesystem::copy_file(llama_fixture().parent_path() / model / name, scratch_ / name);
    }
  }
  static void expect_refused(int code, const std::string& arguments, const std::vector<std::string>& says) {
    const Ran ran = errors_of(arguments);
    EXPECT_EQ(ran.code, code) << arguments << '\n' << ran.text;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.text, part)) << part << " in: " << ran.text;
  }

  std::string text_;
};

TEST_F(ForeignHeads, AreExaminedOnAText) {
  const json report = json_of(on_text("heads --damage"));
  EXPECT_EQ(report["text"], "text");
  EXPECT_EQ(report["samples"], 16);
  ASSERT_EQ(report["heads"].size(), 8u);
  for (const json& head : report["heads"]) {
    EXPECT_GT(head["entropy"], 0);
    EXPECT_LE(head["damage_zero_low"], head["damage_zero"]);
  }
  const std::string shown = output_of(on_text("heads --damage")).text;
  EXPECT_TRUE(contains(shown, "perplexity")) << shown;
  EXPECT_TRUE(contains(shown, "damage")) << shown;
}

TEST_F(ForeignHeads, SaysThatWindowsAreShorterThanAskedFor) {
  const Ran ran = errors_of("heads " + scratch_.folder() + " --length 64 --text " + at("text"));
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(contains(ran.text, "The model has room for 13 tokens, so windows have 13, not 64")) << ran.text;
  EXPECT_FALSE(contains(errors_of(on_text("heads")).text, "--length"));
}

TEST_F(ForeignHeads, NothingIsTakenOutWithoutDamage) {
  const json whole = json_of(on_text("heads --damage")), report = json_of(on_text("heads"));
  for (std::size_t n = 0; n < 8; ++n) {
    const json &head = report["heads"][n], &other = whole["heads"][n];
    for (const char* key : {"damage_zero", "damage_mean_high", "accuracy_loss", "logit"})
      EXPECT_TRUE(head[key].is_null());
    for (const char* key : {"entropy", "gradient", "importance", "most_similar"}) EXPECT_EQ(head[key], other[key]);
  }
  EXPECT_TRUE(report["rank_correlation_gradient_zero"].is_null());
  const std::string shown = output_of(on_text("heads")).text;
  EXPECT_TRUE(contains(shown, "Note: damage was not measured: --damage takes out")) << shown;
  EXPECT_FALSE(contains(lines_of(shown)[2], "damage")) << shown;
  EXPECT_EQ(report["damage_measured"], 0);
  EXPECT_EQ(whole["damage_measured"], 8);
  EXPECT_EQ(json_of(on_text("heads --no-damage")), report);
}

TEST_F(ForeignHeads, TheGradientMayBeLeftOut) {
  const json whole = json_of(on_text("heads --damage")), report = json_of(on_text("heads --damage --no-gradient"));
  EXPECT_EQ(report["loss"], whole["loss"]);
  for (std::size_t n = 0; n < 8; ++n) {
    const json &head = report["heads"][n], &other = whole["heads"][n];
    for (const char* key : {"gradient", "importance"}) EXPECT_TRUE(head[key].is_null());
    for (const char* key : {"entropy", "damage_zero", "logit"}) EXPECT_EQ(head[key], other[key]);
  }
  EXPECT_TRUE(report["rank_correlation_gradient_zero"].is_null());
  EXPECT_FALSE(contains(output_of(on_text("heads --no-gradient")).text, "gradient  "));
}

std::vector<std::string> heads_in(const std::string& table) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(table)) {
    if (line.size() > 3 && std::isdigit(static_cast<unsigned char>(line[0])) != 0 && line[1] == '.') {
      names.push_back(line.substr(0, 3));
    }
  }
  return names;
}

TEST_F(ForeignHeads, AreSortedChosenAndCounted) {
  const json all = json_of(on_text("heads --damage --sort damage --top 3"));
  ASSERT_EQ(all["heads"].size(), 8u) << "JSON has all of them, in their order";
  EXPECT_EQ(all["heads"][7]["head"], "1.3");
  const auto sorted = [&](const char* key) {
    std::vector<std::pair<double, std::string>> heads;
    for (const json& head : all["heads"]) heads.emplace_back(-head[key].get<double>(), head["head"]);
    std::sort(heads.begin(), heads.end());
    std::vector<std::string> names;
    for (const auto& [value, name] : heads) names.push_back(name);
    return names;
  };
  for (const auto& [name, key] : std::vector<std::pair<const char*, const char*>>{{"damage", "damage_zero"},
                                                                                  {"gradient", "importance"},
                                                                                  {"entropy", "entropy"},
                                                                                  {"on-first", "first_weight"},
                                                                                  {"max-weight", "max_weight"}}) {
    EXPECT_EQ(heads_in(output_of(on_text(std::string("heads --damage --sort ") + name)).text), sorted(key)) << name;
  }
  const std::string few = output_of(on_text("heads --damage --sort damage --top 3")).text;
  std::vector<std::string> three = sorted("damage_zero");
  three.resize(3);
  EXPECT_EQ(heads_in(few), three);
  EXPECT_TRUE(contains(few, "and 5 more heads (--top)")) << few;
  expect_refused(2, on_text("heads --sort damage"), {"--sort damage: goes with --damage"});
  expect_refused(2, on_text("heads --sort damge"), {"did you mean 'damage'?"});
}

TEST_F(ForeignHeads, AreChosenByTheirRole) {
  const json all = json_of(on_text("heads"));
  std::vector<std::string> with, without;
  for (const json& head : all["heads"]) (head["role"].is_null() ? without : with).push_back(head["head"]);
  ASSERT_FALSE(with.empty()) << all["roles_found"];
  ASSERT_FALSE(without.empty()) << all["roles_found"];
  EXPECT_EQ(heads_in(output_of(on_text("heads --role averaging")).text), with);
  EXPECT_EQ(heads_in(output_of(on_text("heads --role none")).text), without);
  const std::string nobody = output_of(on_text("heads --role first-token")).text;
  EXPECT_TRUE(contains(nobody, "No head has this role. The highest score is 0.")) << nobody;
  EXPECT_TRUE(heads_in(nobody).empty()) << nobody;
  expect_refused(2, on_text("heads --role inducton"), {"--role", "first token", "did you mean 'induction'?"});
  const json alone = json_of(on_text("heads --role averaging --damage"));
  EXPECT_EQ(alone["damage_measured"], with.size()) << "of the others nobody asked";
  EXPECT_EQ(alone["heads"].size(), 8u);
  for (const json& head : alone["heads"]) {
    EXPECT_EQ(head["damage_zero"].is_number(), std::count(with.begin(), with.end(), head["head"]) == 1);
  }
}

// A pass is begun in any time, and none after it is over.
TEST_F(ForeignHeads, DamageKeepsToATime) {
  const json all = json_of(on_text("heads --damage")), some = json_of(on_text("heads --samples 16 --damage 0.000001s"));
  EXPECT_EQ(json_of(on_text("heads --damage 1h")), all);
  const std::int64_t measured = some["damage_measured"];
  EXPECT_GT(measured, 0);
  EXPECT_LT(measured, 8);
  const auto by_gradient = [](const json& one, const json& other) { return one["gradient"] < other["gradient"]; };
  const json& first = *std::max_element(some["heads"].begin(), some["heads"].end(), by_gradient);
  EXPECT_TRUE(first["damage_zero"].is_number()) << "the most important one first";
  const std::string shown = output_of(on_text("heads --samples 16 --damage 0.000001s")).text;
  EXPECT_TRUE(contains(shown, " of 8 heads, those with the largest gradients")) << shown;
  for (const char* wrong : {"0s", "-1s", "3x", "1e999h"}) {
    expect_refused(2, on_text(std::string("heads --damage=") + wrong), {"expected a time, such as 30s, 2m or 1h"});
  }
  expect_refused(2, "heads --damage 3x " + scratch_.folder() + text_, {"expected a time", "found '3x'"});
}

// Gu et al. count them in sequences of 64 tokens.
TEST_F(ForeignHeads, SinksAreCounted) {
  EXPECT_TRUE(json_of(on_text("heads"))["sinks"].is_null()) << "in a context of 13 there is no room";
  set_config("max_position_embeddings", 64);
  const json sinks = json_of(on_text("heads"))["sinks"];
  EXPECT_GE(sinks, 0);
  EXPECT_LE(sinks, 1);
  const std::string text = output_of(on_text("heads")).text;
  EXPECT_TRUE(contains(text, "over windows of 64 tokens, give the first more\nthan 0.3 of their weight")) << text;
}

TEST_F(ForeignHeads, MeansAreThereIfAskedFor) {
  const json plain = json_of(on_text("heads --damage")), report = json_of(on_text("heads --means"));
  for (std::size_t n = 0; n < 8; ++n) {
    const json &head = report["heads"][n], &other = plain["heads"][n];
    EXPECT_EQ(head["damage_zero"], other["damage_zero"]);
    EXPECT_LE(head["damage_mean_low"], head["damage_mean"]);
    EXPECT_TRUE(other["damage_mean"].is_null());
  }
  EXPECT_TRUE(plain["rank_correlation_gradient_mean"].is_null());
  EXPECT_TRUE(report["rank_correlation_gradient_mean"].is_number());
  EXPECT_TRUE(contains(output_of(on_text("heads --means")).text, "as mean"));
  EXPECT_FALSE(contains(output_of(on_text("heads --damage")).text, "as mean"));
}

TEST_F(ForeignHeads, WhatDoesNotGoTogether) {
  expect_refused(2, "heads " + scratch_.folder(), {"--text"});
  expect_refused(4, on_text("heads --links " + at("none.jsonl")), {"none.jsonl"});
  expect_refused(2, on_text("prune --dry-run --fine-tune 3"), {"--fine-tune"});
  expect_refused(4, "heads " + scratch_.folder() + " --text " + at("none"), {"none"});
  expect_refused(3, "heads " + at("nowhere") + text_, {"nowhere", "expected a folder"});
  expect_refused(3, "heads " + llama_fixture().parent_path().string() + text_, {"found no config.json"});
  expect_refused(3, on_text("heads --samples 100"), {"300 windows of 8 tokens", "found 400 tokens"});
  std::filesystem::remove(scratch_ / "tokenizer.json");
  expect_refused(3, on_text("heads"), {"no tokenizer", "tokenizer.json"});
}

// A relation whose key is every token before the query is one that all heads follow, and by chance as well.
TEST_F(ForeignHeads, LinksAreByCharacters) {
  spill(scratch_ / "links.jsonl", R"({"text": "abcd", "query": [3, 4], "key": [0, 3], "relation": "before"})");
  const json report = json_of(on_text("heads --links " + at("links.jsonl")));
  int found = 0;
  for (const json& role : report["roles"]) {
    if (role["role"] != "predicts before") continue;
    ++found;
    EXPECT_EQ(role["score"], 1) << role;
    EXPECT_EQ(role["control"], 1) << role;
  }
  EXPECT_EQ(found, 8);
}

// An encoder has no answers: its heads are known by what its embedding owes to them.
TEST_F(ForeignHeads, OfAnEncoder) {
  take("bert");
  const json report = json_of(on_text("heads --damage"));
  EXPECT_TRUE(report["loss"].is_null());
  for (const json& head : report["heads"]) {
    EXPECT_TRUE(head["gradient"].is_null());
    EXPECT_TRUE(head["logit"].is_null());
    EXPECT_GT(head["damage_zero"], 0);
  }
  const std::string shown = output_of(on_text("heads --damage")).text;
  EXPECT_TRUE(contains(shown, "1 - cos")) << shown;
  EXPECT_FALSE(contains(shown, "accuracy")) << shown;
  expect_refused(2, on_text("prune --dry-run --order iterative"), {"--order", "damage or random"});
  expect_refused(3, "generate --prompt abc " + scratch_.folder(), {"an encoder"});
}

// Weights that are finite, and so large that what is computed with them is not.
TEST_F(ForeignHeads, WhatOverflowsIsSaidAndNotShown) {
  const std::string model = scratch_.folder(), page = " --out " + at("page.html") + " " + model;
  for (const char* name : {"model.norm.weight", "lm_head.weight"}) plant(at("model.safetensors"), name, 3e38f);
  expect_refused(3, "patch " + model + " --clean abcd --corrupted afcd --answer e --instead g", {"logit of token 0"});
  expect_refused(3, "patch " + model + " --clean abcd --corrupted afcd", {"not finite"});
  expect_refused(3, "view --prompt abc" + page, {"the loss after token", "not finite"});
  take("bert");
  for (const char* name : {"weight", "bias"})
    plant(at("model.safetensors"), std::string("encoder.layer.1.output.LayerNorm.") + name, 3e38f);
  expect_refused(3, on_text("heads --damage"), {"the model without head 0.0", "embedding of sequence 0 is not finite"});
  expect_refused(3, "view --prompt abc" + page, {"of its embedding, number 4 is not finite"});
  EXPECT_FALSE(std::filesystem::exists(at("page.html")));
}

TEST_F(ForeignHeads, PruneTakesEncodersByTheirEmbedding) {
  take("bert");
  const json pruned = json_of(on_text("prune --budget 5 --compare --out " + at("small")));
  EXPECT_EQ(pruned["order"], "damage");
  ASSERT_GT(pruned["heads_removed"], 0);
  const auto removed = pruned["heads_removed"].get<std::size_t>();
  EXPECT_LE(pruned["steps"][removed]["cosine_distance"], 0.05);
  EXPECT_FALSE(pruned["steps"][0].contains("accuracy"));
  EXPECT_GT(pruned["models"][1]["cosine_distance"], 0);
  EXPECT_TRUE(pruned["models"][1]["decode_seconds_batch_1"].is_null());
  EXPECT_EQ(pruned["orders"].back()["damage_cosine_distance"], pruned["orders"].back()["random_cosine_distance_high"])
      << "without any head";
  const std::string text = output_of(on_text("prune --budget 5 --dry-run")).text;
  EXPECT_TRUE(contains(text, "while the embedding stays within a cosine distance of 0.05")) << text;
  EXPECT_EQ(json_of("heads " + at("small") + text_)["heads"].size(), pruned["models"][1]["heads"]);
}

TEST_F(ForeignHeads, PatchSaysWhatComesBack) {
  const std::string texts = " --clean abcd --corrupted afcd ";
  const json report = json_of("patch " + scratch_.folder() + texts + "--answer e --instead g");
  EXPECT_EQ(report["answer"], "'e'");
  ASSERT_EQ(report["heads"].size(), 8u);
  for (std::size_t n = 1; n < 8; ++n) {
    EXPECT_GE(std::abs(report["heads"][n - 1]["restored"].get<double>()),
              std::abs(report["heads"][n]["restored"].get<double>()));
  }
  const std::string shown = output_of("patch " + scratch_.folder() + texts + "--answer e --instead g --top 3").text;
  EXPECT_TRUE(contains(shown, "and 5 heads that restore less")) << shown;
  expect_refused(2, "patch " + scratch_.folder() + " --clean ab", {"--corrupted"});
  expect_refused(2, "patch " + scratch_.folder() + " --clean ab --corrupted abc", {"2, found 3", "'a' 'b' 'c'"});
  expect_refused(2, "patch " + scratch_.folder() + texts + "--answer ef", {"--answer", "found 2", "'e', 'f'"});
  expect_refused(2, "patch " + scratch_.folder() + texts + "--answer e --instead e", {"'e'", "--instead"});
  expect_refused(2, "patch", {"no model given"});
}

TEST_F(ForeignHeads, CompareSaysWhatChanged) {
  const json same = json_of("compare " + scratch_.folder() + " " + llama_fixture().string() + text_);
  EXPECT_EQ(same["agreement"], 1);
  EXPECT_EQ(same["roles_changed"], 0);
  ASSERT_EQ(same["heads"].size(), 8u);
  EXPECT_EQ(same["heads"][5]["entropy_a"], same["heads"][5]["entropy_b"]);
  // Another base turns other columns: the weights are the same, and heads look elsewhere.
  const std::filesystem::path other = scratch_ / "other";
  std::filesystem::create_directory(other);
  std::filesystem::copy_file(llama_fixture() / "model.safetensors", other / "model.safetensors");
  json config = json::parse(slurp(llama_fixture() / "config.json"));
  config["rope_parameters"]["rope_theta"] = 2.0;
  spill(other / "config.json", config.dump());
  const json changed = json_of("compare " + scratch_.folder() + " " + other.string() + text_);
  EXPECT_LT(changed["agreement"], 1);
  EXPECT_NE(changed["heads"][5]["entropy_a"], changed["heads"][5]["entropy_b"]);
  EXPECT_EQ(changed["heads"][5]["entropy_a"], same["heads"][5]["entropy_a"]);
  expect_refused(3, "compare " + scratch_.folder() + " " + llama_fixture().parent_path().string() + "/mistral" + text_,
                 {"mistral", "heads by layer 4 4", "heads by layer 2 2"});
  expect_refused(2, "compare " + scratch_.folder(), {"expected two models"});
}

// What prune writes is the model that it prints, and heads, prune and generate take it like the one it comes from.
TEST_F(ForeignHeads, PruneWritesAModelThatReadsText) {
  set_config("eos_token_id", 7);
  const json pruned = json_of(on_text("prune --budget 20 --samples 8 --out " + at("small")));
  const json &before = pruned["models"][0], &after = pruned["models"][1];
  ASSERT_GT(pruned["heads_removed"], 0);
  EXPECT_LT(after["parameters"], before["parameters"]);
  EXPECT_EQ(slurp(at("small/tokenizer.json")), kTokenizer);
  EXPECT_EQ(json::parse(slurp(at("small/generation_config.json")))["eos_token_id"], json::array({7}));
  const json heads = json_of("heads --samples 8 " + at("small") + text_);
  EXPECT_EQ(heads["heads"].size(), after["heads"]);
  const json& last = pruned["steps"][pruned["heads_removed"].get<std::size_t>()];
  EXPECT_NEAR(heads["loss"], last["loss"].get<double>(), 1e-4) << "judged on the same windows";
  const Ran said = output_of("generate --prompt abc --tokens 3 --temperature 0 " + at("small"));
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.text.substr(0, 3), "abc");
  expect_refused(2, "heads " + at("small"), {"--text"});
}

// The GGUF file holds the same model; its tokenizer also has "<unk>".
TEST_F(ForeignHeads, PruneKeepsTheTokenizerOfGguf) {
  const std::string gguf = (llama_fixture() / "llama.gguf").string();
  const json pruned = json_of("prune --budget 20 --samples 8 --out " + at("small") + " " + gguf + text_);
  ASSERT_GT(pruned["heads_removed"], 0);
  EXPECT_LT(std::filesystem::file_size(at("small/tokenizer.gguf")), std::filesystem::file_size(gguf) / 2);
  const std::string rest = " --samples 8" + text_;
  const json heads = json_of("heads " + at("small") + rest), whole = json_of("heads " + gguf + rest);
  EXPECT_EQ(heads["heads"].size(), pruned["models"][1]["heads"]);
  EXPECT_NE(heads["loss"], whole["loss"]);
  EXPECT_EQ(output_of("generate --prompt abc --tokens 0 " + at("small")).text, "abc\n");
  spill(at("old.json"), kTokenizer);
  std::filesystem::create_directory(at("smaller"));
  std::filesystem::rename(at("old.json"), at("smaller/tokenizer.json"));
  const json again =
      json_of("prune --force --budget 50 --samples 8 --out " + at("smaller") + " " + at("small") + text_);
  EXPECT_EQ(again["models"][0]["heads"], pruned["models"][1]["heads"]);
  EXPECT_EQ(slurp(at("smaller/tokenizer.gguf")), slurp(at("small/tokenizer.gguf")));
  EXPECT_FALSE(std::filesystem::exists(at("smaller/tokenizer.json"))) << "it is not of this model";
}

TEST_F(ForeignHeads, PruneWritesAGgufForTransformers) {
  const std::string gguf = (llama_fixture() / "llama.gguf").string();
  const std::string line = "prune --layout transformers --budget 20 --samples 8 --out ";
  const json pruned = json_of(line + at("small") + " " + gguf + text_);
  ASSERT_GT(pruned["heads_removed"], 0);
  ASSERT_EQ(pruned["notes"].size(), 1u);
  EXPECT_TRUE(contains(pruned["notes"][0], "the tokenizer was not written")) << pruned["notes"];
  EXPECT_EQ(json::parse(slurp(at("small/config.json")))["architectures"], json::array({"LlamaForCausalLM"}));
}

}  // namespace
}  // namespace polyhead::cli
