// Text through C, and through the model of C++: tokens and places, sequences of texts, and text that comes in pieces.
#include <gtest/gtest.h>

#include <cstring>

#include "capi/tensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "polyhead/heads.h"
#include "support/induction_model.h"

namespace polyhead::test {
namespace {

class Texts : public testing::Test {
 protected:
  Texts() {
    model::save(*InductionModel::make(), scratch_.folder());
    io::spill(scratch_ / "tokenizer.json", InductionModel::tokenizer_json());
    io::spill(scratch_ / "generation_config.json", R"({"eos_token_id": 15})");
    expect_ok(polyhead_model_load(context_, scratch_.folder().c_str(), &model_));
    expect_ok(polyhead_model_tokenizer(model_, &tokenizer_));
  }
  ~Texts() override {
    polyhead_tokenizer_free(tokenizer_);
    polyhead_model_free(model_);
  }

  io::Scratch scratch_;
  CContext context_;
  Context in_cpp_{2};
  polyhead_model* model_ = nullptr;
  polyhead_tokenizer* tokenizer_ = nullptr;
};

TEST_F(Texts, TokensAndBack) {
  const std::string text = "d  b e";
  std::vector<polyhead_token> tokens(2);
  std::size_t count = 0;
  expect_ok(polyhead_encode(tokenizer_, text.data(), text.size(), 1, tokens.data(), tokens.size(), &count));
  ASSERT_EQ(count, 3u);  // more than there was room for
  tokens.resize(count);
  expect_ok(polyhead_encode(tokenizer_, text.data(), text.size(), 1, tokens.data(), tokens.size(), &count));
  EXPECT_EQ(tokens[1].id, 1);
  EXPECT_EQ(tokens[1].begin, 3u);
  EXPECT_EQ(tokens[1].last_char, 4u);

  const std::int32_t ids[] = {3, 1, 4};
  std::string decoded(16, '#');
  std::vector<polyhead_token> places(3);
  expect_ok(polyhead_decode(tokenizer_, ids, 3, 0, decoded.data(), decoded.size(), &count, places.data()));
  EXPECT_EQ(decoded.substr(0, count), "d b e");
  EXPECT_EQ(decoded[count], '#');
  EXPECT_EQ(places[2].begin, 3u);
  EXPECT_EQ(places[2].end, 5u);
  expect_ok(polyhead_token_text(tokenizer_, 15, decoded.data(), decoded.size(), &count));
  EXPECT_EQ(decoded.substr(0, count), "p");
  std::int32_t end = 0;
  expect_ok(polyhead_tokens_of_kind(tokenizer_, POLYHEAD_ENDS, &end, 1, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(end, 15);
  expect_refused(polyhead_tokens_of_kind(tokenizer_, 9, &end, 1, &count), POLYHEAD_VALUE, "found 9");
  expect_refused(polyhead_encode(tokenizer_, "d ?", 3, 1, nullptr, 0, &count), POLYHEAD_VALUE, "\"?\" at byte 2");
  std::int64_t size = 0;
  expect_ok(polyhead_tokenizer_size(tokenizer_, &size));
  EXPECT_EQ(size, 16);
  polyhead_tokenizer* alone = nullptr;
  expect_ok(polyhead_tokenizer_load(scratch_.folder().c_str(), &alone));
  polyhead_tokenizer_free(alone);
}

TEST_F(Texts, BecomeExamplesOfOneLength) {
  const char* const texts[] = {"a b c d e", "f g"};
  const std::size_t sizes[] = {9, 3};
  polyhead_results* results = nullptr;
  expect_ok(polyhead_model_examples(model_, texts, sizes, 2, 4, &results));
  const auto values = [&](const char* name, std::int64_t count) {
    polyhead_view view;
    expect_ok(polyhead_results_get(results, name, &view));
    const auto* const first = static_cast<const std::int32_t*>(view.tensor.data);
    return std::vector<std::int32_t>(first, first + count);
  };
  // The first is cut after four tokens; its last token alone would predict nothing.
  EXPECT_EQ(values("tokens", 8), (std::vector<std::int32_t>{0, 1, 2, 3, 5, 6, 0, 0}));
  EXPECT_EQ(values("targets", 8), (std::vector<std::int32_t>{1, 2, 3, 4, 6, -1, -1, -1}));
  EXPECT_EQ(values("lengths", 2), (std::vector<std::int32_t>{4, 2}));
  polyhead_results_free(results);

  // Padding changes no score.
  const Model model = Model::load(scratch_.folder());
  const std::string repeated = "a b c d e f a b c d e f", shorter = "k l k l k";
  const auto loss = [&](const std::vector<std::string>& some) {
    std::vector<Examples> examples;
    examples.push_back(model.examples(some));
    return model.score(in_cpp_, examples).loss;
  };
  EXPECT_NEAR(loss({repeated, shorter}), (loss({repeated}) + loss({shorter})) / 2, 1e-6);
}

struct Told {
  std::vector<std::int32_t> tokens;
  std::string text;
  std::size_t most = 100;
};

std::int32_t tell(const polyhead_addition* addition, void* user) {
  Told& told = *static_cast<Told*>(user);
  if (addition->token >= 0) told.tokens.push_back(addition->token);
  told.text.append(addition->text, addition->text_size);
  return told.tokens.size() < told.most ? 1 : 0;
}

TEST_F(Texts, AreContinuedPieceByPiece) {
  const std::string prompt = "a b c d e b";
  const std::int32_t ids[] = {0, 1, 2, 3, 4, 1};
  const std::int64_t length = 6;
  std::vector<std::int32_t> expected(4);
  expect_ok(polyhead_model_generate(context_, model_, ids, &length, 1, 4, nullptr, expected.data()));
  Told told;
  expect_ok(polyhead_generate_text(context_, model_, prompt.data(), prompt.size(), 4, nullptr, tell, &told));
  EXPECT_EQ(told.tokens, expected);
  EXPECT_EQ(told.text, " c d e b");
  EXPECT_EQ(Model::load(scratch_.folder()).generate_text(in_cpp_, {prompt}, 4, {.temperature = 0})[0], told.text);
  Told two{{}, {}, 2};
  expect_ok(polyhead_generate_text(context_, model_, prompt.data(), prompt.size(), 4, nullptr, tell, &two));
  EXPECT_EQ(two.text, " c d");  // the function said no

  const char* const stops[] = {"d e"};
  polyhead_sampling until{};
  until.size = sizeof until;
  until.stop_texts = stops;
  until.stop_text_count = 1;
  Told stopped;
  expect_ok(polyhead_generate_text(context_, model_, prompt.data(), prompt.size(), 9, &until, tell, &stopped));
  EXPECT_EQ(stopped.text, " c ");
}

TEST_F(Texts, EndBeforeTheEndToken) {
  const std::string prompt = "c a b p a";  // p, token 15, ends a text
  Told told;
  expect_ok(polyhead_generate_text(context_, model_, prompt.data(), prompt.size(), 5, nullptr, tell, &told));
  EXPECT_EQ(told.text, " b");
  const std::int32_t ids[] = {2, 0, 1, 15, 0, 9, 8, 9}, stop = 15;
  const std::int64_t lengths[] = {5, 3};
  polyhead_sampling until{};
  until.size = sizeof until;
  until.stop = &stop;
  until.stop_count = 1;
  std::vector<std::int32_t> tokens(6);
  expect_ok(polyhead_model_generate(context_, model_, ids, lengths, 2, 3, &until, tokens.data()));
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, -1, -1, 8, 9, 8}));

  polyhead_generation* generation = nullptr;
  expect_ok(polyhead_generation_create(context_, model_, ids, lengths, 2, 3, &until, 1, &generation));
  std::vector<polyhead_addition> additions(2);
  std::size_t count = 0;
  std::string said;
  do {
    expect_ok(polyhead_generation_next(generation, additions.data(), sizeof additions[0], &count));
    for (std::size_t n = 0; n < count; ++n) {
      said += std::to_string(additions[n].prompt) + ":" + std::to_string(additions[n].token) + additions[n].text +
              (additions[n].last ? "." : "") + " ";
    }
  } while (count > 0);
  EXPECT_EQ(said, "0:1 b 1:8 i 0:-1. 1:9 j 1:8 i. ");
  polyhead_generation_free(generation);
}

TEST_F(Texts, AnswerAConversation) {
  io::spill(scratch_ / "tokenizer.json", R"({"pre_tokenizer":{"type":"WhitespaceSplit"},
    "added_tokens":[{"id":13,"content":"<|im_start|>","special":true},{"id":14,"content":"<|im_end|>","special":true}],
    "model":{"type":"WordLevel","vocab":{"a":0,"b":1,"c":2,"user":10,"assistant":11}}})");
  io::spill(scratch_ / "tokenizer_config.json", R"({"chat_template":"'<|im_start|>' '<|im_end|>\\n'"})");
  const Model model = Model::load(scratch_.folder());
  polyhead_model* asked = nullptr;
  polyhead_tokenizer* tokenizer = nullptr;
  expect_ok(polyhead_model_load(context_, scratch_.folder().c_str(), &asked));
  expect_ok(polyhead_model_tokenizer(asked, &tokenizer));
  const polyhead_message message = {"user", "a b c", 5}, tool = {"tool", nullptr, 0};
  std::string text(100, ' ');
  std::size_t size = 0;
  expect_ok(polyhead_chat(tokenizer, &message, 1, 1, text.data(), text.size(), &size));
  EXPECT_EQ(text.substr(0, size), "<|im_start|>user\na b c<|im_end|>\n<|im_start|>assistant\n");
  expect_refused(polyhead_chat(tokenizer, &tool, 1, 1, text.data(), text.size(), &size), POLYHEAD_VALUE, "\"tool\"");
  Told told;
  expect_ok(polyhead_answer(context_, asked, &message, 1, 4, nullptr, tell, &told));
  const std::vector<std::vector<std::int32_t>> prompt = {{13, 10, 0, 1, 2, 14, 13, 11}};
  EXPECT_EQ(told.tokens, model.generate(in_cpp_, prompt, 4, {.temperature = 0, .stop = {14, 15}})[0]);
  EXPECT_EQ(told.text, model.answer(in_cpp_, {{"user", "a b c"}}, 4, {.temperature = 0}));
  polyhead_tokenizer_free(tokenizer);
  polyhead_model_free(asked);
}

TEST_F(Texts, AreSavedWithTheModelAndMissedWithoutATokenizer) {
  io::Scratch other;
  polyhead_model* smaller = nullptr;
  const polyhead_head idle = {0, 1};
  expect_ok(polyhead_without_heads(model_, &idle, 1, &smaller));
  expect_ok(polyhead_model_save(smaller, other.folder().c_str()));
  polyhead_model_free(smaller);
  const Model saved = Model::load(other.folder());
  EXPECT_EQ(saved.tokenizer().ends(), std::vector<std::int32_t>{15});
  EXPECT_EQ(saved.generate_text(in_cpp_, {"d a b c a"}, 2, {.temperature = 0})[0], " b c");

  std::filesystem::remove(other / "tokenizer.json");
  const Model mute = Model::load(other.folder());
  EXPECT_THROW(mute.tokenizer(), Error);
  EXPECT_EQ(mute.generate(in_cpp_, {{3, 0, 1, 2, 0}}, 2, {.temperature = 0})[0], (std::vector<std::int32_t>{1, 2}));
  io::spill(other / "tokenizer.json", R"({"model":{"type":"WordLevel","vocab":{"a":16}}})");
  EXPECT_THROW(Model::load(other.folder()).tokenizer(), Error);  // more tokens than the model
}

}  // namespace
}  // namespace polyhead::test
