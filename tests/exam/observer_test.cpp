// A model at work on one text, and what its tokens mean: every number again by another way.
#include "exam/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "exam/examination.h"
#include "heads/importance.h"
#include "heads/kept_roles.h"
#include "serve/models.h"
#include "support/bits.h"
#include "text/tokenizer.h"
#include "train/tasks.h"

namespace polyhead::exam {
namespace {

using Tokens = std::vector<std::int32_t>;
using serve::Opened;

constexpr const char* kText = "the animal did not cross the road";

ConstTensorView row_of(const Tokens& tokens) { return ConstTensorView(tokens.data(), {1, std::ssize(tokens)}); }

// An untrained model of bytes, whose text is gone; its config.
model::Config save_reader_of_bytes(const io::Scratch& scratch) {
  train::Plan plan = train::plan_for("text");
  io::spill(scratch / "text", std::string(1000, 'a'));
  plan.file = scratch / "text";
  plan.model = model::make_config(model::Kind::gpt, 1, 16, 2);
  plan.model.vocabulary = 256;
  plan.model.context = 80;
  model::save(model::Transformer(plan.model, 7), scratch.folder());
  train::save_plan(plan, scratch.folder());
  std::filesystem::remove(scratch / "text");
  return plan.model;
}

// The probabilities that the model gives at every row, [rows][V].
std::vector<std::vector<double>> probabilities(Opened& open, const Tokens& tokens,
                                               std::vector<Tensor>* gates = nullptr) {
  autograd::Tape tape(open.context, false);
  const ConstTensorView logits = tape.value(open.observer->model().forward(tape, row_of(tokens), {.gates = gates}));
  const std::int64_t V = logits.shape(logits.rank() - 1);
  std::vector<std::vector<double>> rows;
  for (const float* row = logits.as<float>(); row < logits.as<float>() + logits.count(); row += V) {
    double sum = 0;
    std::vector<double>& made = rows.emplace_back();
    for (std::int64_t v = 0; v < V; ++v) sum += made.emplace_back(std::exp(static_cast<double>(row[v])));
    for (double& p : made) p /= sum;
  }
  return rows;
}

TEST(Observer, SaysWhatALanguageModelExpects) {
  Opened open(serve::save_language_model);
  const Tokens tokens = open.observer->tokens_of(kText, 64);
  const Observation seen = open.observer->observe(tokens);
  const auto exact = probabilities(open, tokens);
  ASSERT_EQ(seen.expected.size(), tokens.size());
  ASSERT_EQ(seen.losses.size(), tokens.size() - 1);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    ASSERT_EQ(seen.expected[t].size(), 8u);
    std::vector<double> sorted = exact[t];
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t n = 0; n < 8; ++n) {
      EXPECT_NEAR(seen.expected[t][n].probability, sorted[n], 1e-6);
      EXPECT_NEAR(seen.expected[t][n].probability, exact[t][static_cast<std::size_t>(seen.expected[t][n].token)], 1e-6);
    }
    if (t + 1 == tokens.size()) break;
    EXPECT_NEAR(seen.losses[t], -std::log(exact[t][static_cast<std::size_t>(tokens[t + 1])]), 1e-5) << t;
  }
}

class RolesOfTheModel : public testing::TestWithParam<void (*)(const std::filesystem::path&)> {};
INSTANTIATE_TEST_SUITE_P(Observer, RolesOfTheModel, testing::Values(serve::save_language_model, serve::save_encoder));

// They do not depend on the text, nor on gates.
TEST_P(RolesOfTheModel, AreThoseOfTheStandardProbe) {
  Opened open(GetParam());
  const std::vector<heads::HeadRoles> roles =
      heads::standard_roles(open.context, open.observer->model(), *open.observer->language().tokenizer());
  for (const char* text : {kText, "a road, a road."}) {
    for (const GateList& gates : {GateList{}, GateList{{{0, 0}, 0.0F}}}) {
      const Observation seen = open.observer->observe(open.observer->tokens_of(text, 64), gates);
      EXPECT_TRUE(seen.note.empty());
      ASSERT_EQ(seen.roles.size(), roles.size());
      for (std::size_t n = 0; n < roles.size(); ++n) {
        ASSERT_EQ(seen.roles[n].scores.size(), roles[n].scores.size());
        for (std::size_t k = 0; k < roles[n].scores.size(); ++k) {
          EXPECT_EQ(seen.roles[n].scores[k].role, roles[n].scores[k].role);
          EXPECT_EQ(seen.roles[n].scores[k].score, roles[n].scores[k].score) << roles[n].scores[k].role;
        }
      }
    }
  }
}

// Where there is no probe, a short text names no role.
TEST(Observer, NamesNoRolesOnAShortTextAlone) {
  const io::Scratch scratch;
  save_reader_of_bytes(scratch);
  Context context(1);
  Observer observer(context, scratch.folder());
  for (const std::int64_t length : {63, 64}) {
    const Observation seen = observer.observe(Tokens(static_cast<std::size_t>(length), 'a'));
    ASSERT_EQ(seen.roles.size(), 2u);
    EXPECT_EQ(seen.roles[0].role() == nullptr, length < 64);  // untrained heads average
    EXPECT_EQ(seen.note.empty(), length == 64);
    EXPECT_EQ(seen.note.find("63 tokens is too short") == seen.note.npos, length == 64) << seen.note;
    EXPECT_GT(seen.roles[0].score_in("averaging")->score, 0.9) << "a number all the same";
  }
}

TEST(Observer, ShowsTheRolesOfTheTask) {
  Opened open(serve::save_classifier);
  const std::unique_ptr<train::Task> task = train::make_task(train::plan_for("classify").task);
  const std::vector<heads::HeadRoles> roles =
      survey_roles(open.context, open.observer->model(), make_material(*task)).roles;
  const Observation seen = open.observer->observe(open.observer->tokens_of(open.observer->language().example(), 64));
  for (std::size_t n = 0; n < roles.size(); ++n) {
    EXPECT_EQ(seen.roles[n].score_in("averaging")->score, roles[n].score_in("averaging")->score);
  }
}

TEST(Observer, WeightsAreThoseOfTheHeadsThatAreAskedFor) {
  Opened open(serve::save_language_model);
  const Tokens tokens = open.observer->tokens_of(kText, 64);
  const std::int64_t T = std::ssize(tokens);
  const Tensor all = open.observer->weights(tokens, {}, 1), some = open.observer->weights(tokens, {}, 1, {3, 0});
  EXPECT_EQ(all.shape(), (Dims{4, T, T}));
  EXPECT_EQ(some.shape(), (Dims{2, T, T}));
  EXPECT_TRUE(std::equal(some.as<float>(), some.as<float>() + T * T, all.as<float>() + 3 * T * T));
  EXPECT_TRUE(std::equal(some.as<float>() + T * T, some.as<float>() + 2 * T * T, all.as<float>()));
  const Tensor below = open.observer->weights(tokens, {{{0, 2}, 0.0F}}, 1),
               beside = open.observer->weights(tokens, {{{1, 2}, 0.0F}}, 1);
  EXPECT_FALSE(test::same_bits("weights", all, below)) << "they read what the layer below wrote";
  EXPECT_TRUE(test::same_bits("weights", all, beside));
}

// The gates' gradients are those of the text's own targets: the last token has none.
TEST(Observer, GradientsAreThoseOfTheText) {
  Opened open(serve::save_language_model);
  const Tokens tokens = open.observer->tokens_of(kText, 64);
  std::vector<Examples> examples(1);
  Tokens next(tokens.begin() + 1, tokens.end());
  next.push_back(-1);
  for (auto& [to, from] :
       {std::pair<Tensor&, const Tokens&>{examples[0].tokens, tokens}, {examples[0].targets, next}}) {
    to = Tensor::empty({1, std::ssize(from)}, DType::i32);
    std::copy(from.begin(), from.end(), to.as<std::int32_t>());
  }
  const std::vector<HeadImportance> found = open.observer->gradients(tokens),
                                    expected =
                                        heads::gradient_importance(open.context, open.observer->model(), examples);
  ASSERT_EQ(found.size(), 12u);
  for (std::size_t n = 0; n < 12; ++n) EXPECT_NEAR(found[n].gradient, expected[n].gradient, 1e-7);
  EXPECT_TRUE(open.observer->gradients({tokens[0]}).empty()) << "one token has nothing to expect";
  Opened encoder(serve::save_encoder);
  EXPECT_TRUE(encoder.observer->gradients(encoder.observer->tokens_of(kText, 64)).empty());
}

TEST(Observer, DamageOfAClassifierIsWhatItsFirstChoiceLoses) {
  Opened open(serve::save_classifier);
  const Tokens tokens = open.observer->tokens_of(open.observer->language().example(), 64);
  const Observation whole = open.observer->observe(tokens);
  const auto exact = probabilities(open, tokens)[0];
  const auto first = static_cast<std::size_t>(std::max_element(exact.begin(), exact.end()) - exact.begin());
  EXPECT_EQ(static_cast<std::size_t>(whole.expected[0][0].token), first);
  for (const HeadId& id : model::all_heads(open.observer->model().config())) {
    model::Gates gates(open.observer->model().config());
    gates.set(id, 0);
    const auto without = probabilities(open, tokens, gates.get())[0];
    const Damage damage = open.observer->damage(whole, id);
    EXPECT_EQ(damage.id, id);
    EXPECT_NEAR(damage.loss, std::log(exact[first]) - std::log(without[first]), 1e-5) << to_string(id);
  }
}

TEST(Observer, DamageOfAnEncoderIsACosineDistance) {
  Opened open(serve::save_encoder);
  const Tokens tokens = open.observer->tokens_of(kText, 64);
  const Observation whole = open.observer->observe(tokens);
  for (const HeadId id : {HeadId{0, 1}, HeadId{2, 3}}) {
    const Observation without = open.observer->observe(tokens, {{id, 0.0F}});
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t c = 0; c < whole.embedding.size(); ++c) {
      ab += whole.embedding[c] * without.embedding[c];
      aa += whole.embedding[c] * whole.embedding[c];
      bb += without.embedding[c] * without.embedding[c];
    }
    EXPECT_NEAR(open.observer->damage(whole, id).loss, 1 - ab / std::sqrt(aa * bb), 1e-9);
    EXPECT_GT(open.observer->damage(whole, id).loss, 1e-6);
  }
}

TEST(Observer, ReadsAsManyTokensAsAskedFor) {
  Opened open(serve::save_encoder);  // of a context of 96
  const std::int64_t count = std::ssize(open.observer->tokens_of(kText, 64));
  EXPECT_NO_THROW(open.observer->tokens_of(kText, count));
  io::expect_error(ErrorCode::input, {"up to " + std::to_string(count - 1) + " tokens, found " + std::to_string(count)},
                   [&] { open.observer->tokens_of(kText, count - 1); });
  std::string text;
  for (int n = 0; n < 100; ++n) text += "the ";
  io::expect_error(ErrorCode::input, {"up to 96 tokens"}, [&] { open.observer->tokens_of(text, 1000); });
}

// ---- languages

bool contains(const Tokens& all, std::int32_t token) { return std::find(all.begin(), all.end(), token) != all.end(); }

TEST(LanguageOfATokenizer, HasWhatStandsAroundTexts) {
  Opened encoder(serve::save_encoder), reader(serve::save_language_model);
  const Language &bert = encoder.observer->language(), &gpt = reader.observer->language();
  const Tokens tokens = bert.tokens_of("the road");
  EXPECT_EQ(bert.token_text(tokens.front()), "[CLS]");
  EXPECT_EQ(bert.token_text(tokens.back()), "[SEP]");
  EXPECT_EQ(bert.beginning(), Tokens{tokens.front()});
  EXPECT_TRUE(contains(bert.special(), tokens.front()) && contains(bert.special(), tokens.back()));
  EXPECT_TRUE(gpt.beginning().empty());
  std::string text;
  for (const std::int32_t token : gpt.tokens_of(" the road")) text += gpt.token_text(token);
  EXPECT_EQ(text, " the road") << "blanks and all, and nothing around it";
  // Marks are separators and not special; words of three letters and more are ordinary.
  for (const std::int32_t token : gpt.tokens_of(".,")) {
    EXPECT_TRUE(contains(gpt.separators(), token)) << gpt.token_text(token);
    EXPECT_FALSE(contains(gpt.special(), token)) << gpt.token_text(token);
  }
  const Tokens ordinary = gpt.ordinary();
  EXPECT_GE(ordinary.size(), 32u);
  for (const std::int32_t token : ordinary) {
    const std::string word = gpt.token_text(token);
    const std::size_t first = word.find_first_not_of(' ');
    ASSERT_NE(first, word.npos);
    EXPECT_GT(word.size() - first, 2u) << word;
    EXPECT_TRUE(std::all_of(word.begin() + static_cast<std::ptrdiff_t>(first), word.end(), [](unsigned char letter) {
      return std::isalpha(letter) != 0;
    })) << word;
  }
}

// Some decoders drop the blank before a first word, others keep it; a token shows whether it has one, once.
TEST(LanguageOfATokenizer, ShowsTheBlankOfAWord) {
  for (const char* kind : {"llama2", "gemma"}) {
    const io::Scratch scratch;
    serve::save_reader(scratch / "model", serve::small_config(model::Kind::gpt, 64), kind);
    const auto language = language_of(scratch / "model", serve::small_config(model::Kind::gpt, 64));
    const text::Tokenizer tokenizer = text::load_tokenizer(scratch / "model");
    int blank = 0, none = 0;
    for (text::Id id = 0; id < tokenizer.size(); ++id) {
      const std::string written = *tokenizer.text_of(id);
      if (written.starts_with("<") || written == "▁") continue;
      (written.starts_with("▁") ? blank : none) += 1;
      EXPECT_EQ(language->token_text(id).starts_with(' '), written.starts_with("▁")) << written;
      EXPECT_FALSE(language->token_text(id).starts_with("  ") && !written.starts_with("▁▁")) << written;
    }
    EXPECT_TRUE(blank > 5 && none > 5) << kind;
  }
}

TEST(LanguageOfATask, IsItsWords) {
  Opened open(serve::save_classifier);
  const Language& language = open.observer->language();
  const auto task = train::make_task(train::plan_for("classify").task);
  const Tokens drawn = task->sequence(train::Split::validation, 1, 0).tokens;
  const std::vector<Suggestion> examples = language.examples();
  ASSERT_EQ(examples.size(), 3u);
  for (std::int64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(language.tokens_of(examples[static_cast<std::size_t>(n)].text),
              task->sequence(train::Split::validation, 1, n).tokens);
  }
  EXPECT_EQ(language.separators(), task->special_tokens());
  EXPECT_EQ(language.beginning(), Tokens{drawn[0]}) << "CLS";
  Tokens all = language.ordinary();
  for (const std::int32_t token : language.separators()) {
    EXPECT_FALSE(contains(all, token));
    all.push_back(token);
  }
  EXPECT_EQ(std::ssize(all), task->vocabulary());
  io::expect_error(ErrorCode::input, {"classify", "nonsense"}, [&] { language.tokens_of("CLS nonsense"); });
}

// The hint names forty words, and says if there are more.
TEST(LanguageOfATask, NamesItsWords) {
  for (const std::int64_t vocabulary : {39, 40, 41, 60}) {
    const io::Scratch scratch;
    train::Plan plan = train::plan_for("copy");
    plan.task.vocabulary = vocabulary;
    const auto task = train::make_task(plan.task);
    ASSERT_EQ(task->vocabulary(), vocabulary);
    plan.model = model::make_config(model::Kind::gpt, 1, 16, 2);
    train::fit_to_task(plan.model, *task);
    train::save_plan(plan, scratch.folder());
    std::string expected = "Words of the task copy, a space between them:";
    for (std::int32_t token = 0; token < std::min<std::int64_t>(vocabulary, 40); ++token) {
      expected += " " + task->token_text(token);
    }
    model::save(model::Transformer(plan.model, 1), scratch.folder());
    EXPECT_EQ(language_of(scratch.folder(), plan.model)->hint(), expected + (vocabulary > 40 ? " …" : ""));
  }
}

TEST(LanguageOfBytes, IsAnyText) {
  const io::Scratch scratch;
  const auto language = language_of(scratch.folder(), save_reader_of_bytes(scratch));
  EXPECT_EQ(language->tokens_of("aé"), (Tokens{'a', 0xc3, 0xa9}));
  EXPECT_EQ(language->token_text(0xc3), "\xc3");
  EXPECT_EQ(language->separators(), (Tokens{'\n', ' ', '.', ','}));
  const Tokens letters = language->ordinary();
  EXPECT_EQ(letters.size(), 26u);
  EXPECT_EQ(letters.front(), 'a');
  EXPECT_EQ(letters.back(), 'z');
  EXPECT_TRUE(language->beginning().empty());
  for (const Suggestion& one : language->examples()) EXPECT_LE(language->tokens_of(one.text).size(), 64u) << one.name;
}

}  // namespace
}  // namespace polyhead::exam
