// What the desk answers: the numbers of the model itself, and words where there are none.
#include "serve/desk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "exam/page.h"
#include "model/score.h"
#include "polyhead/error.h"
#include "report/text.h"
#include "serve/models.h"
#include "support/kept.h"

namespace polyhead::serve {
namespace {

using nlohmann::json;

constexpr const char* kText = "the animal did not cross the road";

struct Open : Opened {
  using Opened::Opened;
  Desk desk{{{*observer, "m"}}, 64};

  json ask(const char* what, const json& question) {
    const Answer answer = desk.answer(what, question.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }
};

// The loss of the same tokens as model::score has it.
double scored(Open& open, const std::vector<std::int32_t>& tokens, const exam::GateList& list) {
  std::vector<Examples> examples(1);
  const auto count = std::ssize(tokens);
  examples[0].tokens = Tensor::empty({1, count}, DType::i32);
  examples[0].targets = Tensor::empty({1, count}, DType::i32);
  std::copy(tokens.begin(), tokens.end(), examples[0].tokens.as<std::int32_t>());
  std::copy(tokens.begin() + 1, tokens.end(), examples[0].targets.as<std::int32_t>());
  examples[0].targets.as<std::int32_t>()[count - 1] = -1;
  model::Gates gates(open.observer->model().config());
  for (const auto& [id, value] : list) gates.set(id, value);
  return model::score(open.context, open.observer->model(), examples, gates.get()).mean_loss();
}

double mean(const json& values) {
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [](double sum, const json& value) { return sum + value.get<double>(); }) /
         static_cast<double>(values.size());
}

TEST(Desk, ReadsATextAsTheModelDoes) {
  Open open(save_language_model);
  const std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  const json model = open.ask("read", {{"text", kText}}), sample = model["samples"][0];
  EXPECT_EQ(model["heads"].size(), 12u);
  EXPECT_EQ(sample["tokens"].size(), tokens.size());
  EXPECT_EQ(sample["losses"].size(), tokens.size() - 1);
  EXPECT_NEAR(mean(sample["losses"]), scored(open, tokens, {}), 1e-5);
  ASSERT_EQ(sample["predictions"].size(), tokens.size());
  EXPECT_FALSE(sample.contains("classes"));
  for (const json& row : sample["predictions"]) {
    double sum = 0, last = 1;
    for (const json& likely : row) {
      EXPECT_LE(likely[1].get<double>(), last);
      sum += last = likely[1].get<double>();
    }
    EXPECT_LE(sum, 1 + 1e-6);
  }
}

TEST(Desk, PartsOfCharactersAreShownAsBytes) {
  Open open(save_language_model);
  const json model = open.ask("read", {{"text", "\u2603"}});
  EXPECT_EQ(model["samples"][0]["tokens"], json({"⟨E2⟩", "⟨98⟩", "⟨83⟩"}));
}

TEST(Desk, GatesChangeWhatItSays) {
  Open open(save_language_model);
  const std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  const json gates = json::array({{0, 1, 0}, {2, 3, 1.5}});
  const json now = open.ask("read", {{"text", kText}, {"gates", gates}});
  EXPECT_NEAR(mean(now["samples"][0]["losses"]), scored(open, tokens, {{{0, 1}, 0.0F}, {{2, 3}, 1.5F}}), 1e-5);
  const json whole = open.ask("read", {{"text", kText}});
  EXPECT_NE(mean(now["samples"][0]["losses"]), mean(whole["samples"][0]["losses"]));
  EXPECT_EQ(now["heads"][2]["statistics"], whole["heads"][2]["statistics"]) << "the first layer reads the same";
  EXPECT_NE(now["heads"][6]["statistics"], whole["heads"][6]["statistics"]) << "the next one does not";
}

// [T,T] bytes, each the root of a weight in 255ths; their entropy is the statistic's.
TEST(Desk, AHeadsWeightsAreItsOwn) {
  Open open(save_language_model);
  const json whole = open.ask("read", {{"text", kText}});
  const Answer answer = open.desk.answer("head", json{{"text", kText}, {"head", {1, 2}}}.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.type, "application/octet-stream");
  const std::size_t T = whole["samples"][0]["tokens"].size();
  ASSERT_EQ(answer.body.size(), T * T);
  double entropies = 0;
  for (std::size_t i = 0; i < T; ++i) {
    double sum = 0, entropy = 0;
    for (std::size_t j = 0; j < T; ++j) {
      const double weight = std::pow(static_cast<unsigned char>(answer.body[i * T + j]) / 255.0, 2);
      sum += weight;
      if (weight > 0) entropy -= weight * std::log(weight);
      if (j > i) {
        EXPECT_EQ(weight, 0);
      }
    }
    EXPECT_NEAR(sum, 1, 0.03);
    entropies += entropy;
  }
  const json head = whole["heads"][6];
  EXPECT_EQ(head["layer"], 1);
  EXPECT_EQ(head["head"], 2);
  EXPECT_NEAR(entropies / static_cast<double>(T), head["statistics"]["entropy (nats)"].get<double>(), 0.03);
}

// One pass reads all heads, and what is kept answers for the text and the gates that it was read with alone.
TEST(Desk, ALayerIsItsHeads) {
  Open open(save_language_model);
  const std::vector<json> questions = {{{"text", kText}},
                                       {{"text", kText}, {"gates", {{0, 1, 0}}}},
                                       {{"text", "another text of as many"}, {"gates", {{0, 1, 0.5}}}}};
  std::set<std::string> different;
  for (int round = 0; round < 2; ++round) {
    for (json question : questions) {
      question["layer"] = 1;
      const std::string layer = open.desk.answer("layer", question.dump()).body;
      const auto tokens = open.observer->tokens_of(question["text"], 64);
      exam::GateList gates;
      for (const json& gate : question.value("gates", json::array())) {
        gates.push_back({{gate[0].get<std::size_t>(), gate[1].get<std::int64_t>()}, gate[2].get<float>()});
      }
      const Tensor weights = open.observer->weights(tokens, gates, 1);
      const auto bytes = report::quantised({weights.as<float>(), static_cast<std::size_t>(weights.view().count())});
      EXPECT_EQ(layer, std::string(bytes.begin(), bytes.end()));
      different.insert(layer);
      question.erase("layer");
      std::string heads;
      for (int head = 0; head < 4; ++head) {
        question["head"] = {1, head};
        heads += open.desk.answer("head", question.dump()).body;
      }
      EXPECT_EQ(layer, heads);
    }
  }
  EXPECT_EQ(different.size(), questions.size());
}

// Processor time: reading the others takes as good as none.
TEST(Desk, OnePassReadsEveryLayer) {
  Open open(save_tall_language_model);
  std::string text;
  for (int n = 0; n < 60; ++n) text += "a ";
  const auto ask = [&](int layer) {
    const std::clock_t began = std::clock();
    EXPECT_EQ(open.desk.answer("layer", json{{"text", text}, {"layer", layer}}.dump()).status, 200);
    return std::clock() - began;
  };
  const std::clock_t first = ask(17);
  std::clock_t others = 0;
  for (int layer = 0; layer < 30; ++layer) others += ask(layer);
  EXPECT_LT(others, first);
}

TEST(Desk, TwoModelsAnswerSideBySide) {
  Open one(save_language_model), other(save_other_language_model), encoder(save_encoder);
  Desk both({{*one.observer, "a/one"}, {*other.observer, "other"}}, 64);
  EXPECT_NE(both.page().find("<title>one and other</title>"), std::string::npos);
  const auto answer = [&](const char* what, json question) { return both.answer(what, question.dump()); };
  const json question = {{"text", kText}, {"gates", {{0, 1, 0}}}, {"head", {1, 2}}};
  for (Open* open : {&one, &other}) {
    json asked = question;
    asked["model"] = open == &one ? 0 : 1;
    EXPECT_EQ(json::parse(answer("read", asked).body)["samples"], open->ask("read", question)["samples"]);
    EXPECT_EQ(answer("head", asked).body, open->desk.answer("head", question.dump()).body);
  }
  EXPECT_NE(answer("head", question).body, other.desk.answer("head", question.dump()).body);
  EXPECT_EQ(answer("read", {{"text", "a"}, {"model", 2}}).status, 422);
  EXPECT_EQ(one.desk.answer("read", R"({"text": "a", "model": 1})").status, 422) << "there is one";

  json ranked = json::parse(answer("rank", {{"text", kText}, {"model", 1}}).body);
  EXPECT_EQ(json::parse(answer("rank", {{"text", kText}}).body)["done"], 0);
  while (both.work()) continue;
  ranked = json::parse(answer("rank", {{"text", kText}, {"model", 1}}).body);
  EXPECT_EQ(other.ask("rank", {{"text", kText}})["gradient"], ranked["gradient"]);
  EXPECT_NE(json::parse(answer("rank", {{"text", kText}}).body)["damage"], ranked["damage"]);
  EXPECT_THROW(Desk({{*one.observer, "one"}, {*encoder.observer, "encoder"}}, 64), Error);
}

TEST(Desk, RanksByWhatATextLosesWithoutEachHead) {
  Open open(save_language_model);
  EXPECT_FALSE(open.desk.work()) << "nobody asked";
  EXPECT_EQ(open.ask("rank", {{"text", kText}})["done"], 0);
  for (int n = 0; n < 12; ++n) EXPECT_TRUE(open.desk.work());
  EXPECT_FALSE(open.desk.work());
  const json ranked = open.ask("rank", {{"text", kText}});
  EXPECT_EQ(ranked["done"], 12);
  EXPECT_EQ(ranked["of"], 12);
  const std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  const double whole = scored(open, tokens, {});
  for (const std::size_t n : {0u, 5u, 11u}) {
    const HeadId id{n / 4, static_cast<std::int64_t>(n % 4)};
    EXPECT_NEAR(ranked["damage"][n].get<double>(), scored(open, tokens, {{id, 0.0F}}) - whole, 1e-5);
    EXPECT_GT(ranked["gradient"][n].get<double>(), 0);
  }
}

TEST(Desk, AnEncoderGivesItsEmbeddingAndAClassifierItsClasses) {
  Open encoder(save_encoder);
  const json text = encoder.ask("read", {{"text", kText}})["samples"][0];
  EXPECT_EQ(text["embedding"].size(), 32u);
  EXPECT_FALSE(text.contains("losses"));
  const json other = encoder.ask("read", {{"text", kText}, {"gates", {{1, 1, 0}}}})["samples"][0];
  EXPECT_NE(other["embedding"], text["embedding"]);
  EXPECT_EQ(encoder.ask("rank", {{"text", kText}})["gradient"].size(), 0u) << "it has no loss";
  EXPECT_TRUE(encoder.desk.work());
  EXPECT_GT(encoder.ask("rank", {{"text", kText}})["damage"][0].get<double>(), 0);

  Open classifier(save_classifier);
  const json classes = classifier.ask("read", {{"text", classifier.observer->language().example()}})["samples"][0];
  ASSERT_EQ(classes["predictions"].size(), 1u);
  EXPECT_EQ(classes["classes"], true);
  double sum = 0;
  for (const json& one : classes["predictions"][0]) sum += one[1].get<double>();
  EXPECT_NEAR(sum, 1, 1e-5);
}

// Every part of a question wrong in every way, and what is said to it beside the file that holds it.
TEST(Desk, WhatCannotBeAnsweredIsSaidInWords) {
  Open open(save_language_model);
  std::string longest, said;
  for (int n = 0; n < 80; ++n) longest += " road";
  const auto ask = [&](const char* what, const std::string& body) {
    const Answer answer = open.desk.answer(what, body);
    const bool fine = answer.status == 200;
    said += what + (" " + report::visible(body.substr(0, 60))) + ": " + std::to_string(answer.status) + " " +
            (fine ? "answered" : answer.body) + "\n";
  };
  for (const std::string text : {"\"\"", "\" \\n\\t\"", "3", "null", "[\"a\"]"}) ask("read", "{\"text\":" + text + "}");
  ask("read", json{{"text", longest}}.dump());
  for (const char* body : {"", "{", "null", "[]", "{}", "{\"text\":\"\xff\"}", R"({"text":"a","text":"b"})",
                           R"({"words":"a"})", R"({"text":"a","model":1})", R"({"text":"a","model":-1})",
                           R"({"text":"a","model":"0"})", R"({"text":"a","model":0})"}) {
    ask("read", body);
  }
  for (const char* gates : {"[]",
                            "1",
                            "{}",
                            "[1]",
                            "[[0,0]]",
                            "[[0,0,1,1]]",
                            R"([["0",0,1]])",
                            R"([[0,"0",1]])",
                            R"([[0,0,"1"]])",
                            "[[0,0,null]]",
                            "[[-1,0,0]]",
                            "[[0,-1,0]]",
                            "[[0.5,0,0]]",
                            "[[0,0.5,0]]",
                            "[[0,0,-0.1]]",
                            "[[0,0,0]]",
                            "[[0,0,2]]",
                            "[[0,0,2.1]]",
                            "[[2,3,1]]",
                            "[[0,4,0]]",
                            "[[3,0,0]]",
                            "[[99,0,0]]"}) {
    ask("read", R"({"text":"a","gates":)" + std::string(gates) + "}");
  }
  ask("head", R"({"text":"a"})");
  for (const char* head : {"[2,3]", "[3,0]", "[0,4]", "[0]", "[0,0,0]", R"(["0",0])", R"([0,"0"])", "[-1,0]", "0"}) {
    ask("head", R"({"text":"a","head":)" + std::string(head) + "}");
  }
  ask("layer", R"({"text":"a"})");
  for (const char* layer : {"3", "-1", "\"0\"", "[0]", "0.5"}) {
    ask("layer", R"({"text":"a","layer":)" + std::string(layer) + "}");
  }
  for (const char* then : {"3", "[\"0\"]", "[-1]", "[400]", "[0.5]", "[1,2]"}) {
    ask("read", R"({"text":"a","then":)" + std::string(then) + "}");
  }
  ask("read", json{{"text", "a"}, {"then", std::vector<int>(80, 1)}}.dump());
  for (const char* more : {R"("generate":-1)", R"("generate":257)", R"("generate":100)", R"("top":0)", R"("top":65)",
                           R"("heads":[])", R"("heads":[0,0])", R"("heads":[[0,4]])", R"("heads":"all")",
                           R"("from":-1)", R"("from":1)", R"("queries":1)"}) {
    ask("api", R"({"text":"a",)" + std::string(more) + "}");
  }
  for (const char* what : {"passwd", "", "Read"}) ask(what, "{}");
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/serve/questions.txt", said);
}

// All heads may have a gate, from nothing to twice; a refusal hides nothing.
TEST(Desk, TakesAGateForEveryHead) {
  Open open(save_language_model);
  json gates = json::array();
  for (int layer = 0; layer < 3; ++layer) {
    for (int head = 0; head < 4; ++head) gates.push_back({layer, head, head == 3 ? 2 : 0.5 * head});
  }
  exam::GateList list;
  for (const json& gate : gates) list.push_back({{gate[0], gate[1]}, gate[2]});
  const json read = open.ask("read", {{"text", kText}, {"gates", gates}});
  EXPECT_NEAR(mean(read["samples"][0]["losses"]), scored(open, open.observer->tokens_of(kText, 64), list), 1e-5);
  gates.push_back({0, 0, 1});
  EXPECT_EQ(open.desk.answer("read", json{{"text", kText}, {"gates", gates}}.dump()).status, 422) << "more than heads";
  EXPECT_EQ(json::parse(refusal(422, "a\u202Eb").body)["error"], "a‹U+202E›b");
}

// Texts of one length have each its own ranking; who asked last is served first.
TEST(Desk, RanksTheTextThatWasAskedForLast) {
  Open open(save_language_model);
  const json first{{"text", "a road"}}, second{{"text", "road a"}};
  ASSERT_EQ(open.observer->tokens_of("a road", 64).size(), open.observer->tokens_of("road a", 64).size());
  open.ask("rank", first);
  open.ask("rank", second);
  EXPECT_TRUE(open.desk.work());
  EXPECT_EQ(open.ask("rank", first)["done"], 0);
  EXPECT_TRUE(open.desk.work());
  EXPECT_TRUE(open.desk.work());
  const json one = open.ask("rank", first), other = open.ask("rank", second);
  EXPECT_EQ(one["done"], 2);
  EXPECT_EQ(other["done"], 1);
  EXPECT_NE(one["gradient"], other["gradient"]);
  for (int layer = 0; layer < 3; ++layer) {
    double squares = 0;
    for (int head = 0; head < 4; ++head) squares += std::pow(one["gradient"][4 * layer + head].get<double>(), 2);
    EXPECT_NEAR(squares, 1, 1e-5) << "relative to their layer";
  }
}

// What was added to a text is read as if it had been there: its numbers, whatever its letters are.
TEST(Desk, GoesOnWithAText) {
  Open open(save_language_model);
  std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  json question{{"text", kText}, {"then", json::array()}};
  for (int step = 0; step < 3; ++step) {
    const json sample = open.ask("read", question)["samples"][0];
    ASSERT_EQ(sample["next"].size(), sample["predictions"].back().size());
    const auto token = sample["next"][0].get<std::int32_t>();
    EXPECT_EQ(open.observer->next_token(tokens, {}), token);
    EXPECT_EQ(report::visible_token(open.observer->language().token_text(token)), sample["predictions"].back()[0][0]);
    question["then"].push_back(token);
    tokens.push_back(token);
  }
  const json sample = open.ask("read", question)["samples"][0];
  EXPECT_EQ(sample["tokens"].size(), tokens.size());
  EXPECT_NEAR(mean(sample["losses"]), scored(open, tokens, {}), 1e-5);
  Open encoder(save_encoder);
  EXPECT_EQ(encoder.desk.answer("read", json{{"text", kText}, {"then", {1}}}.dump()).status, 422);
  EXPECT_EQ(encoder.desk.answer("api", json{{"text", kText}, {"generate", 1}}.dump()).status, 422);
}

// For programs: exactly the model's own weights, with gates, of the text and of what is generated.
TEST(Desk, TellsAttentionInNumbers) {
  Open open(save_language_model);
  const exam::GateList gates{{{0, 1}, 0.0F}};
  const json told = open.ask(
      "api",
      {{"text", kText}, {"generate", 2}, {"top", 3}, {"from", 2}, {"heads", {{2, 3}, {1, 0}}}, {"gates", {{0, 1, 0}}}});
  std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  for (int step = 0; step < 2; ++step) tokens.push_back(open.observer->next_token(tokens, gates));
  const std::int64_t T = std::ssize(tokens);
  ASSERT_EQ(told["tokens"].size(), tokens.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) EXPECT_EQ(told["tokens"][t]["id"], tokens[t]);
  EXPECT_EQ(told["generated"], 2);
  EXPECT_EQ(told["from"], 2);
  ASSERT_EQ(told["heads"].size(), 2u);
  for (const json& head : told["heads"]) {
    const auto layer = head["layer"].get<std::size_t>();
    const auto at = head["head"].get<std::int64_t>();
    EXPECT_EQ(std::pair(layer, at), (&head == &told["heads"][0] ? std::pair<std::size_t, std::int64_t>(1, 0)
                                                                : std::pair<std::size_t, std::int64_t>(2, 3)));
    const Tensor weights = open.observer->weights(tokens, gates, layer);
    std::vector<double> received(tokens.size(), 0.0);
    ASSERT_EQ(head["keys"].size(), tokens.size() - 2);
    for (std::int64_t query = 2; query < T; ++query) {
      const float* row = weights.as<float>() + (at * T + query) * T;
      const auto n = static_cast<std::size_t>(query - 2);
      double entropy = 0;
      for (std::int64_t key = 0; key < T; ++key) {
        received[static_cast<std::size_t>(key)] += row[key];
        if (row[key] > 0) entropy -= row[key] * std::log(row[key]);
      }
      EXPECT_NEAR(head["entropy"][n], entropy, 1e-5);
      std::vector<float> sorted(row, row + T);
      std::sort(sorted.rbegin(), sorted.rend());
      ASSERT_EQ(head["keys"][n].size(), 3u);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_NEAR(head["weights"][n][rank], sorted[rank], 1e-6);
        EXPECT_NEAR(row[head["keys"][n][rank].get<std::size_t>()], sorted[rank], 1e-6);
      }
    }
    for (std::size_t key = 0; key < tokens.size(); ++key) EXPECT_NEAR(head["received"][key], received[key], 1e-5);
  }
  const json all = open.ask("api", {{"text", kText}});
  EXPECT_EQ(all["heads"].size(), 12u);
  EXPECT_EQ(all["heads"][0]["keys"][0], json::array({0})) << "the first token sees itself alone";
  EXPECT_EQ(all["heads"][0]["keys"].back().size(), 5u);
}

// A pruned model beside the one that it comes from: every head knows which it was.
TEST(Desk, APrunedModelKnowsWhereItsHeadsComeFrom) {
  Opened pruned(save_pruned_language_model), whole(save_language_model), other(save_other_language_model);
  const auto heads_of = [](Desk& desk, int model, const json& gates) {
    const Answer answer = desk.answer("read", json{{"text", kText}, {"model", model}, {"gates", gates}}.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["heads"];
  };
  std::vector<HeadId> left = model::all_heads(whole.observer->model().config());
  std::erase_if(left, [](const HeadId& id) { return std::find(kPruned.begin(), kPruned.end(), id) != kPruned.end(); });
  for (const bool first : {true, false}) {
    Opened &one = first ? pruned : whole, &two = first ? whole : pruned;
    Desk desk({{*one.observer, "one"}, {*two.observer, "two"}}, 64);
    const json small = heads_of(desk, first ? 0 : 1, json::array()),
               all = heads_of(desk, first ? 1 : 0, json::array({json::array({1, 3, 0})}));
    ASSERT_EQ(small.size(), left.size());
    for (std::size_t n = 0; n < left.size(); ++n) EXPECT_EQ(small[n]["origin"], json({left[n].layer, left[n].head}));
    EXPECT_EQ(all.size(), 12u);
    for (const json& head : all) EXPECT_FALSE(head.contains("origin"));
    EXPECT_EQ(desk.answer("head", json{{"text", kText}, {"model", first ? 0 : 1}, {"head", {1, 3}}}.dump()).status,
              422);
  }
  const exam::Origins origins(pruned.context, pruned.observer->model(), whole.observer->model());
  EXPECT_EQ(origins.own({{{0, 2}, 0.0F}, {{1, 3}, 0.5F}, {{1, 1}, 2.0F}}, 0),
            (exam::GateList{{{0, 1}, 0.0F}, {{1, 0}, 2.0F}}));
  try {
    const exam::Origins none(pruned.context, pruned.observer->model(), other.observer->model());
    FAIL() << "it was not made from this one";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("comes from none of the other's"), std::string::npos) << error.what();
  }
}

TEST(Desk, NamesClassesByTheirNumbers) {
  Open open(save_classifier);
  const json row = open.ask("read", {{"text", open.observer->language().example()}})["samples"][0]["predictions"][0];
  std::set<std::string> names;
  for (const json& one : row) names.insert(one[0].get<std::string>());
  std::set<std::string> expected;
  for (std::int64_t n = 0; n < open.observer->model().config().classes; ++n)
    expected.insert("class " + std::to_string(n));
  EXPECT_EQ(names, expected);
}

TEST(LivePage, SaysWhatTheModelIs) {
  EXPECT_EQ(exam::name_of("models/gpt"), "gpt");
  EXPECT_EQ(exam::name_of("models/gpt/"), "gpt");
  EXPECT_EQ(exam::name_of("models/other/../gpt.gguf"), "gpt.gguf");
  Opened encoder(save_encoder);
  const report::Page page = live_page(*encoder.observer, "models/encoder/", 2048);
  EXPECT_EQ(page.title, "encoder");
  ASSERT_TRUE(page.live.has_value());
  EXPECT_EQ(page.live->model, "models/encoder/");
  EXPECT_EQ(page.live->most_tokens, 96) << "no more than the model reads";
  EXPECT_EQ(live_page(*encoder.observer, "m", 50).live->most_tokens, 50);
  ASSERT_EQ(page.live->examples.size(), 3U);
  EXPECT_EQ(page.live->examples[0].text, encoder.observer->language().example());
  EXPECT_EQ(page.live->hint, encoder.observer->language().hint());
  const std::string parameters = report::typeset(std::to_string(encoder.observer->model().parameter_count()));
  EXPECT_EQ(page.lead, "3 layers of 4 heads, " + parameters +
                           " parameters; an encoder: it turns a text into a vector, its embedding.");
  model::Config config = small_config(model::Kind::gpt, 16);
  config.layers[1].heads = 2;
  config.layers[1].kv_heads = 2;
  EXPECT_TRUE(exam::in_a_sentence(model::Transformer(config, 1)).starts_with("3 layers with 10 heads, "));
  config.layers.resize(1);
  EXPECT_TRUE(exam::in_a_sentence(model::Transformer(config, 1)).starts_with("1 layer of 4 heads, "));
  EXPECT_TRUE(
      exam::in_a_sentence(model::Transformer(config, 1)).ends_with("a language model: it predicts the next token."));
}

TEST(LivePage, HasTheWeightsOfTheLayersThatAreAdded) {
  Opened open(save_language_model);
  const std::vector<std::int32_t> tokens = open.observer->tokens_of(kText, 64);
  const exam::GateList gates{{{0, 1}, 0.0F}};
  report::Model model = describe(*open.observer, "m", open.observer->observe(tokens, gates));
  std::vector<std::pair<int, int>> heads;
  std::vector<float> weights;
  for (const int layer : {2, 1}) {
    add_weights(model, *open.observer, tokens, gates, static_cast<std::size_t>(layer));
    for (int head = 0; head < 4; ++head) heads.emplace_back(layer, head);
    const Tensor own = open.observer->weights(tokens, gates, static_cast<std::size_t>(layer));
    weights.insert(weights.end(), own.as<float>(), own.as<float>() + own.view().count());
  }
  EXPECT_EQ(model.samples[0].heads, heads);
  EXPECT_EQ(model.samples[0].weights, weights);
}

TEST(Desk, ForgetsRankingsThatNobodyAsksFor) {
  Open open(save_language_model), other(save_language_model);
  for (Open* each : {&open, &other}) {
    for (const char* text : {"a", "b", "c", "d"}) each->ask("rank", {{"text", text}});
    EXPECT_EQ(each->desk.answer("rank", json{{"text", "e"}}.dump()).status, 503) << "four at a time";
    each->ask("rank", {{"text", "a"}});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  EXPECT_FALSE(open.desk.work()) << "after three seconds";
  EXPECT_EQ(open.ask("rank", {{"text", "e"}})["done"], 0);
  EXPECT_EQ(other.ask("rank", {{"text", "e"}})["done"], 0) << "who asks makes room, too";
}

}  // namespace
}  // namespace polyhead::serve
