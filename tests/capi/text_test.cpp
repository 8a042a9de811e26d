// Text through C, and through the model of C++: tokens and places, sequences of texts, and text that comes in pieces.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "capi/tensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "polyhead/heads.h"
#include "support/bits.h"
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

  // Padding changes no score, and every token counts as much as any other.
  const Model model = Model::load(scratch_.folder());
  const std::string repeated = "a b c d e f a b c d e f", shorter = "k l k l k";
  const auto loss = [&](const std::vector<std::string>& some) { return model.score(in_cpp_, some).loss; };
  EXPECT_NEAR(loss({repeated, shorter}), (11 * loss({repeated}) + 4 * loss({shorter})) / 15, 1e-6);
}

TEST_F(Texts, AreTakenWhereverTokensAre) {
  const Model model = Model::load(scratch_.folder());
  const std::vector<std::string> some = {"a b c d e f a b c d e f", "k l k l k"};
  const char* const texts[] = {some[0].c_str(), some[1].c_str()};
  const Score expected = model.score(in_cpp_, some);
  polyhead_examples batch{};
  batch.size = sizeof batch;
  batch.texts = texts;
  batch.text_count = 2;
  polyhead_score score{};
  expect_ok(polyhead_model_score(context_, model_, &batch, 1, nullptr, 0, &score));
  EXPECT_EQ(score.loss, expected.loss);
  EXPECT_EQ(score.accuracy, expected.accuracy);
  const Examples rows = model.examples(some);
  batch.tokens = InC()(rows.tokens);
  expect_refused(polyhead_model_score(context_, model_, &batch, 1, nullptr, 0, &score), POLYHEAD_VALUE, "found both");
  EXPECT_THROW(model.score(in_cpp_, {"a b", "c"}), Error) << "nothing to predict in the second";

  const std::vector<SurveyedHead> surveyed = survey_heads(in_cpp_, model, some),
                                  by_tokens = survey_heads(in_cpp_, model, rows.tokens, {.lengths = rows.lengths});
  std::vector<polyhead_surveyed_head> heads(model.heads().size());
  std::vector<double> sums(heads.size());
  expect_ok(polyhead_survey_texts(context_, model_, texts, nullptr, 2, nullptr, 0, 1, heads.data(), sizeof heads[0],
                                  sums.data(), 1));
  for (std::size_t n = 0; n < heads.size(); ++n) {
    EXPECT_EQ(surveyed[n].role, by_tokens[n].role);
    EXPECT_EQ(heads[n].role, surveyed[n].role);
    EXPECT_EQ(sums[n], surveyed[n].sums[0]);
  }
  const Tensor logits = model.forward(in_cpp_, some);
  EXPECT_TRUE(same_bits("logits", logits, model.forward(in_cpp_, rows.tokens, {.lengths = rows.lengths})));
  EXPECT_EQ(model.weights(in_cpp_, some)[1].shape(), (Dims{2, 2, 12, 12}));
}

void expect_holds(const polyhead_view& view, const Tensor& expected) {
  const Dims shape = expected.shape();
  ASSERT_TRUE(std::equal(shape.begin(), shape.end(), view.shape, view.shape + view.tensor.rank));
  const std::size_t bytes = static_cast<std::size_t>(expected.view().count()) * size_of(expected.dtype());
  EXPECT_EQ(std::memcmp(view.tensor.data, expected.view().data(), bytes), 0);
}

// The logits and weights that C++ gives, with a head knocked out and without.
TEST_F(Texts, AreRunInC) {
  const Model model = Model::load(scratch_.folder());
  const std::vector<std::string> some = {"a b c d e f a b c d e f", "k l k l k"};
  const char* const texts[] = {some[0].c_str(), some[1].c_str()};
  const std::size_t sizes[] = {some[0].size(), some[1].size()};
  const polyhead_head head = {1, 1};
  for (const std::size_t knocked_out : {0, 1}) {
    const std::vector<HeadId> heads(knocked_out, HeadId{1, 1});
    polyhead_results *forward = nullptr, *weights = nullptr;
    polyhead_view view;
    expect_ok(polyhead_forward_texts(context_, model_, texts, nullptr, 2, &head, knocked_out, &forward));
    expect_ok(polyhead_results_get(forward, "logits", &view));
    expect_holds(view, model.forward(in_cpp_, some, heads));
    expect_ok(polyhead_weights_of_texts(context_, model_, texts, sizes, 2, &head, knocked_out, &weights));
    const std::vector<Tensor> expected = model.weights(in_cpp_, some, heads);
    for (std::size_t layer = 0; layer < expected.size(); ++layer) {
      expect_ok(polyhead_results_get(weights, std::to_string(layer).c_str(), &view));
      expect_holds(view, expected[layer]);
    }
    polyhead_results_free(forward);
    polyhead_results_free(weights);
  }
  polyhead_results* results = nullptr;
  const char* const wrong[] = {"a b", ""};
  for (const auto function : {polyhead_forward_texts, polyhead_weights_of_texts}) {
    expect_refused(function(context_, model_, wrong, nullptr, 2, nullptr, 0, &results), POLYHEAD_VALUE,
                   "found 0 in text 1");
    expect_refused(function(context_, model_, nullptr, nullptr, 1, nullptr, 0, &results), POLYHEAD_VALUE, "texts");
    expect_refused(function(context_, model_, texts, nullptr, 2, nullptr, 1, &results), POLYHEAD_VALUE, "knocked_out");
    EXPECT_EQ(results, nullptr);
  }
}

// More texts than are read together, of several lengths.
TEST_F(Texts, AreEmbedded) {
  io::Scratch encoder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models/bert" / name, encoder / name);
  }
  io::spill(encoder / "tokenizer.json", InductionModel::tokenizer_json());
  std::vector<std::string> some(40, "a b c");
  some[35] = "k l";
  const Model model = Model::load(encoder.folder());
  const Tensor found = model.embed(in_cpp_, some);
  const std::vector<std::int32_t> first = model.tokens_of(some[0]), other = model.tokens_of(some[35]);
  const std::int64_t C = found.shape()[1];
  for (const auto& [row, tokens] : {std::pair(39, first), std::pair(35, other)}) {
    const Tensor alone = model.embed(in_cpp_, ConstTensorView(tokens.data(), {1, std::ssize(tokens)}));
    for (std::int64_t c = 0; c < C; ++c) EXPECT_NEAR(found.as<float>()[row * C + c], alone.as<float>()[c], 1e-5);
  }
  const char* const texts[] = {"a b c", "k l"};
  const std::size_t sizes[] = {5, 3};
  polyhead_model* in_c = nullptr;
  polyhead_results* results = nullptr;
  expect_ok(polyhead_model_load(context_, encoder.folder().c_str(), &in_c));
  expect_ok(polyhead_embed_texts(context_, in_c, texts, sizes, 2, nullptr, 0, &results));
  polyhead_view view;
  expect_ok(polyhead_results_get(results, "embeddings", &view));
  EXPECT_NEAR(static_cast<const float*>(view.tensor.data)[C], found.as<float>()[35 * C], 1e-5);
  polyhead_results_free(results);
  expect_refused(polyhead_embed_texts(context_, in_c, texts, sizes, 0, nullptr, 0, &results), POLYHEAD_VALUE,
                 "expected at least one");
  polyhead_model_free(in_c);
}

TEST_F(Texts, ArePatched) {
  const Model model = Model::load(scratch_.folder());
  const Patching expected = patch_heads(in_cpp_, model, model.tokens_of("c a b a"), model.tokens_of("c a d a"));
  const Patching found = patch_heads(in_cpp_, model, "c a b a", "c a d a", "b", "d");
  EXPECT_EQ(found.answer, expected.answer);
  EXPECT_EQ(found.heads[2].restored, expected.heads[2].restored);
  polyhead_patching patching{};
  patching.size = sizeof patching;
  std::vector<polyhead_patched_head> heads(model.heads().size());
  expect_ok(polyhead_patch_texts(context_, model_, "c a b a", "c a d a", nullptr, "d", &patching, heads.data(),
                                 sizeof heads[0]));
  EXPECT_EQ(patching.answer, expected.answer);
  EXPECT_EQ(patching.instead, expected.instead);
  EXPECT_EQ(heads[2].restored, expected.heads[2].restored);
  expect_refused(polyhead_patch_texts(context_, model_, "c a b a", "c a d", nullptr, nullptr, &patching, heads.data(),
                                      sizeof heads[0]),
                 POLYHEAD_SHAPE, "as clean has, 4, found 3");
  expect_refused(polyhead_patch_texts(context_, model_, "c a b a", "c a d a", "b c", nullptr, &patching, heads.data(),
                                      sizeof heads[0]),
                 POLYHEAD_VALUE, "a text of one token, found 2");
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

TEST_F(Texts, GoOnOfSeveralPrompts) {
  const char* const prompts[] = {"d a b c a", "c a b!"};
  const std::size_t sizes[] = {9, 5};
  std::vector<std::string> told(2);
  const auto add = [](const polyhead_addition* addition, void* user) -> std::int32_t {
    static_cast<std::vector<std::string>*>(user)->at(addition->prompt).append(addition->text, addition->text_size);
    return 1;
  };
  expect_ok(polyhead_generate_texts(context_, model_, prompts, sizes, 2, 3, nullptr, add, &told));
  const Model model = Model::load(scratch_.folder());
  EXPECT_EQ(told, model.generate_text(in_cpp_, {"d a b c a", "c a b"}, 3, {.temperature = 0}));
  EXPECT_NE(told[0], told[1]);
  expect_refused(polyhead_generate_texts(context_, model_, nullptr, nullptr, 2, 3, nullptr, add, &told), POLYHEAD_VALUE,
                 "texts");
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
