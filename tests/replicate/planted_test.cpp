// Heads that were planted are found by the experiments, and models without them are not said to have them.
#include <gtest/gtest.h>

#include <algorithm>

#include "heads/importance.h"
#include "io/scratch.h"
#include "replicate/experiments.h"
#include "replicate/words.h"
#include "replicate/words_tokenizer.h"

namespace polyhead::replicate {
namespace {

constexpr std::int64_t kContext = 128;

text::Tokenizer tokenizer() {
  const io::Scratch scratch;
  io::spill(scratch / "tokenizer.json", words_tokenizer());
  return text::load_tokenizer(scratch.folder());
}

// A stream of [token | position | the token before | answer], one-hot, without norm and feed-forward; the logits are
// read off the answer. Layers of one head.
class ByHand {
 public:
  explicit ByHand(std::size_t layers) : V_(tokenizer().size()), width_(3 * V_ + kContext) {
    model::Config config = model::make_config(model::Kind::gpt, static_cast<std::int64_t>(layers), width_, 1);
    config.vocabulary = V_;
    config.context = kContext;
    config.norm = model::Norm::none;
    config.feed_forward = model::FeedForward::none;
    config.bias = false;
    model_ = std::make_unique<model::Transformer>(config);
    for (autograd::Parameter* parameter : model_->parameters()) {
      std::fill_n(parameter->value.as<float>(), count_of(parameter->value.shape()), 0.0f);
    }
    for (std::int64_t v = 0; v < V_; ++v) {
      at("tokens.weight", v, v) = 1;
      at("output.weight", v, answer() + v) = 1;
    }
    for (std::int64_t t = 0; t < kContext; ++t) at("positions.weight", t, V_ + t) = 1;
  }
  // Row n of the query is the stream's `from` + n, of the key its `to` + n.
  void match(int layer, std::int64_t from, std::int64_t to, std::int64_t count) {
    for (std::int64_t n = 0; n < count; ++n) {
      at(name(layer, "in_proj_weight"), n, from + n) = 400;
      at(name(layer, "in_proj_weight"), width_ + n, to + n) = 1;
    }
  }
  // Token v of what is looked at is written as token to(v), `much` of it, at `place` of the stream.
  template <class To>
  void write(int layer, std::int64_t place, float much, const To& to) {
    for (std::int64_t v = 0; v < V_; ++v) {
      at(name(layer, "in_proj_weight"), 2 * width_ + v, v) = 1;
      if (to(v) >= 0) at(name(layer, "out_proj.weight"), place + to(v), v) = much;
    }
  }
  std::int64_t position() const { return V_; }
  std::int64_t before() const { return V_ + kContext; }
  std::int64_t answer() const { return before() + V_; }
  std::int64_t vocabulary() const { return V_; }

  Specimen specimen(Context& context) {
    Effort effort = effort_of(true);
    effort.windows = 2;
    return Specimen(context, "planted", std::move(model_), tokenizer(), effort);
  }

 private:
  static std::string name(int layer, const char* of) { return "blocks." + std::to_string(layer) + ".attention." + of; }
  float& at(const std::string& name, std::int64_t row, std::int64_t column) {
    for (autograd::Parameter* parameter : model_->parameters()) {
      if (parameter->name == name) return parameter->value.as<float>()[row * parameter->value.shape()[1] + column];
    }
    throw std::logic_error(name);
  }

  std::int64_t V_, width_;
  std::unique_ptr<model::Transformer> model_;
};

const auto kSame = [](std::int64_t v) { return v; };

ByHand with_induction() {
  ByHand hand(2);
  hand.match(0, hand.position() + 1, hand.position(), kContext - 1);
  hand.write(0, hand.before(), 1, kSame);
  hand.match(1, 0, hand.before(), hand.vocabulary());
  hand.write(1, hand.answer(), 20, kSame);
  return hand;
}

TEST(Planted, InductionPreviousTokenAndCopyingComeOut) {
  Context context(2);
  Specimen specimen = with_induction().specimen(context);
  const Result found = induction(specimen);
  EXPECT_EQ(found.verdict, Verdict::comes_out) << found.sentence;
  EXPECT_EQ(found.heads, std::vector<HeadId>{(HeadId{1, 0})});
  EXPECT_GT(found.ours.value.low, 0.9);
  EXPECT_LT(found.control.value.high, 0.2);
  const Result previous = previous_token(specimen);
  EXPECT_EQ(previous.verdict, Verdict::comes_out) << previous.sentence;
  EXPECT_EQ(previous.heads, std::vector<HeadId>{(HeadId{0, 0})});
  const Result copies = copying(specimen);
  EXPECT_EQ(copies.heads, std::vector<HeadId>{(HeadId{1, 0})});
  EXPECT_EQ(copies.ours.value.mean, 1) << copies.sentence;
  EXPECT_LT(copies.control.value.mean, 0.5);
  EXPECT_EQ(duplicate(specimen).verdict, Verdict::not_here);
}

// The look-alike of induction looks one token further.
TEST(Planted, OneFurtherThanInductionIsNotHere) {
  Context context(2);
  ByHand hand(2);
  hand.match(0, hand.position() + 2, hand.position(), kContext - 2);
  hand.write(0, hand.before(), 1, kSame);
  hand.match(1, 0, hand.before(), hand.vocabulary());
  hand.write(1, hand.answer(), 20, kSame);
  Specimen specimen = hand.specimen(context);
  const Result found = induction(specimen);
  EXPECT_EQ(found.verdict, Verdict::not_here) << found.sentence;
  EXPECT_TRUE(found.heads.empty());
  EXPECT_GT(found.further[0].value.low, 0.5) << "the token one further";
}

// It looks where induction looks and writes nothing: without an effect it comes out in part only.
TEST(Planted, AHeadWithoutAnEffectComesOutInPart) {
  Context context(2);
  ByHand hand(1);
  hand.match(0, hand.position() + 1, hand.position(), kContext - 1);
  Specimen specimen = hand.specimen(context);
  EXPECT_EQ(previous_token(specimen).verdict, Verdict::partly);
}

TEST(Planted, AHeadThatRestsOnTheFirstTokenIsASink) {
  Context context(2);
  ByHand hand(1);
  Specimen averaging = hand.specimen(context);
  EXPECT_EQ(sinks(averaging).ours.value.mean, 0);
  EXPECT_NE(sinks(averaging).verdict, Verdict::comes_out);
  ByHand first(1);
  for (std::int64_t t = 0; t < kContext; ++t) first.match(0, first.position() + t, first.position(), 1);
  Specimen specimen = first.specimen(context);
  const Result found = sinks(specimen);
  EXPECT_EQ(found.ours.value.mean, 1);
  EXPECT_EQ(found.verdict, Verdict::comes_out);
}

TEST(Planted, SuccessorsAndTheirReverse) {
  Context context(2);
  const auto counts = [&](int step) {
    ByHand hand(1);
    Specimen empty = ByHand(1).specimen(context);
    const std::vector<Ordinal> ordinals = ordinals_of(empty);
    hand.write(0, hand.answer(), 20, [&](std::int64_t v) {
      for (const Ordinal& one : ordinals) {
        const std::ptrdiff_t to = step > 0 ? one.next : one.before;
        if (one.token == v && to >= 0) return std::int64_t{ordinals[static_cast<std::size_t>(to)].token};
      }
      return std::int64_t{-1};
    });
    return hand.specimen(context);
  };
  Specimen forward = counts(1), backward = counts(-1);
  const Result found = successors(forward);
  EXPECT_EQ(found.verdict, Verdict::comes_out) << found.sentence;
  EXPECT_EQ(found.ours.value.mean, 1);
  EXPECT_EQ(found.control.value.mean, 0);
  const Result reverse = successors(backward);
  EXPECT_EQ(reverse.verdict, Verdict::not_here) << reverse.sentence;
  EXPECT_EQ(reverse.control.value.mean, 1);
}

TEST(Planted, AHeadThatLowersWhatItLooksAt) {
  Context context(2);
  ByHand hand(2);
  hand.write(0, hand.answer(), 20, kSame);
  hand.write(1, hand.answer(), -20, kSame);
  Specimen specimen = hand.specimen(context);
  const Result found = copy_suppression(specimen);
  EXPECT_EQ(found.heads, std::vector<HeadId>{(HeadId{1, 0})});
  EXPECT_EQ(found.ours.value.mean, 1) << found.sentence;
}

// Where the names of a prompt stand, by the words themselves.
TEST(Words, PromptsNameTheRightPlaces) {
  Context context(1);
  Specimen specimen = ByHand(1).specimen(context);
  const Asked asked = ask_names(specimen);
  ASSERT_GE(asked.prompts.size(), 50u);
  int right_first = 0;
  for (const Prompt& prompt : asked.prompts) {
    const auto at = [&](std::int64_t t) { return prompt.tokens.at(static_cast<std::size_t>(t)); };
    EXPECT_EQ(at(prompt.at_right), prompt.right);
    EXPECT_EQ(at(prompt.at_wrong), prompt.wrong);
    EXPECT_EQ(at(prompt.again_at_wrong), prompt.wrong);
    EXPECT_EQ(std::count(prompt.tokens.begin(), prompt.tokens.end(), prompt.right), 1);
    EXPECT_EQ(std::count(prompt.tokens.begin(), prompt.tokens.end(), prompt.wrong), 2);
    right_first += prompt.at_right < prompt.at_wrong;
  }
  EXPECT_EQ(2 * right_first, std::ssize(asked.prompts)) << "both orders";
  const std::vector<Ordinal> ordinals = ordinals_of(specimen);
  EXPECT_GT(ordinals.size(), 15u);
  const auto four = std::find_if(ordinals.begin(), ordinals.end(),
                                 [&](const Ordinal& one) { return one.token == *specimen.one_token("four"); });
  ASSERT_NE(four, ordinals.end());
  EXPECT_EQ(ordinals[static_cast<std::size_t>(four->next)].token, *specimen.one_token("five"));
  EXPECT_EQ(ordinals[static_cast<std::size_t>(four->before)].token, *specimen.one_token("three"));
  EXPECT_FALSE(specimen.one_token("Zanzibar"));
}

// Rows that were asked for are those of a whole pass.
TEST(Specimen, LogitsAtSomeRowsAreThoseOfAPass) {
  Context context(1);
  model::Config config = model::make_config(model::Kind::gpt, 2, 32, 4);
  config.vocabulary = tokenizer().size();
  config.context = 64;
  Specimen specimen(context, "small", std::make_unique<model::Transformer>(config, 3), tokenizer(), effort_of(true));
  const Tensor tokens = rows_of({{1, 2, 3, 4, 5}, {7, 6, 5}});
  EXPECT_EQ(tokens.as<std::int32_t>()[8], 0) << "behind the shorter one";
  const HeadId gone{1, 2};
  model::Gates gates(config);
  gates.shut({gone});
  autograd::Tape tape(context, false);
  const ConstTensorView all = tape.value(specimen.model().forward(tape, tokens, {.gates = gates.get()}));
  const Tensor found = specimen.logits_at(tokens, {{1, 2}, {0, 4}}, {gone});
  for (std::int64_t v = 0; v < config.vocabulary; ++v) {
    EXPECT_NEAR(found.as<float>()[v], all.as<float>()[7 * config.vocabulary + v], 1e-4);
    EXPECT_NEAR(found.as<float>()[config.vocabulary + v], all.as<float>()[4 * config.vocabulary + v], 1e-4);
  }
}

TEST(Specimen, OthersLikeSomeHeadsAreOfTheirLayers) {
  const model::Config config = model::make_config(model::Kind::gpt, 3, 32, 4);
  const std::vector<HeadId> heads{{0, 1}, {2, 0}, {2, 3}};
  const std::vector<HeadId> others = others_like(heads, config, 1);
  ASSERT_EQ(others.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(others[n].layer, heads[n].layer);
    EXPECT_EQ(std::count(heads.begin(), heads.end(), others[n]), 0);
    EXPECT_EQ(std::count(others.begin(), others.end(), others[n]), 1);
  }
  EXPECT_TRUE(others_like({{0, 0}}, model::make_config(model::Kind::gpt, 1, 8, 1), 1).empty());
}

}  // namespace
}  // namespace polyhead::replicate
