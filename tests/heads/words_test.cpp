// What the questions about heads say to arguments that are wrong, each in every way, beside the file that holds it.
#include <gtest/gtest.h>

#include <cmath>

#include "heads/patching.h"
#include "heads/probe.h"
#include "heads/pruning.h"
#include "heads/survey.h"
#include "polyhead/heads.h"
#include "polyhead/model.h"
#include "support/induction_model.h"
#include "support/kept.h"
#include "support/said.h"

namespace polyhead::heads {
namespace {

Tensor tokens_of(const Dims& shape, std::int32_t token = 1) {
  Tensor tokens = Tensor::empty(shape, DType::i32);
  std::fill_n(tokens.as<std::int32_t>(), count_of(shape), token);
  return tokens;
}

std::vector<Examples> examples() {
  std::vector<Examples> made(1);
  made[0].tokens = tokens_of({2, 4});
  made[0].targets = tokens_of({2, 4}, 2);
  return made;
}

TEST(HeadWords, OfWhatCannotBe) {
  Said say;
  Context context(1);
  const Model model{std::shared_ptr<const model::Transformer>(InductionModel::make())};
  constexpr std::int64_t kMost = InductionModel::kContext, kWords = InductionModel::kVocabulary;
  const auto survey = [&](const std::string& what, const ConstTensorView& tokens, const SurveyOptions& options = {}) {
    say("survey of " + what, [&] { survey_heads(context, model, tokens, options); });
  };
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{2}, kMost, kMost + 1}) {
    survey(std::to_string(length) + " tokens", tokens_of({2, length}));
  }
  for (const std::int32_t token : {-1, 0, static_cast<std::int32_t>(kWords) - 1, static_cast<std::int32_t>(kWords)}) {
    Tensor some = tokens_of({2, 4});
    some.as<std::int32_t>()[7] = token;
    survey("token " + std::to_string(token), some);
  }
  const Tensor two = tokens_of({2, 4}), wide = Tensor::zeros({2, 4}, DType::i64), one = tokens_of({4});
  survey("i64", wide);
  survey("one axis", one);
  survey("nothing", {});
  survey("columns", tokens_of({4, 2}).view().transpose(0, 1));
  for (const std::int32_t length : {0, 1, 2, 4, 5}) {
    Tensor lengths = tokens_of({2}, 4);
    lengths.as<std::int32_t>()[1] = length;
    survey("length " + std::to_string(length), two, {.lengths = lengths});
  }
  const Tensor three = tokens_of({3}, 4), far = Tensor::zeros({2}, DType::i64);
  survey("three lengths", two, {.lengths = three});
  survey("lengths of i64", two, {.lengths = far});

  const std::vector<Examples> some = examples(), none;
  say("importance by nothing", [&] { head_importance(context, model, none); });
  say("pruned by nothing", [&] { polyhead::prune(context, model, none, some, 0.1); });
  say("judged by nothing", [&] { polyhead::prune(context, model, some, none, 0.1); });
  for (const double budget : {-0.1, 0.0, std::nan("")}) {
    say("budget " + std::to_string(budget), [&] { polyhead::prune(context, model, some, some, budget); });
  }

  const std::unique_ptr<model::Transformer> inner = InductionModel::make();
  const std::vector<std::int32_t> clean{1, 2, 3, 1}, corrupted{1, 4, 3, 1}, shorter{1, 2};
  const auto patched = [&](const std::string& what, const std::vector<std::int32_t>& a,
                           const std::vector<std::int32_t>& b, const Question& question) {
    say("patch, " + what, [&] { patch(context, *inner, a, b, question); });
  };
  patched("as it should be", clean, corrupted, {2, 4});
  patched("a second text that is shorter", clean, shorter, {2, 4});
  patched("a first text that is shorter", shorter, clean, {2, 4});
  patched("no text", {}, {}, {2, 4});
  patched("the same text", clean, clean, {2, 4});
  for (const std::int32_t token : {-1, 0, static_cast<std::int32_t>(kWords) - 1, static_cast<std::int32_t>(kWords)}) {
    patched("answer " + std::to_string(token), clean, corrupted, {token, 4});
    patched("instead " + std::to_string(token), clean, corrupted, {2, token});
  }
  model::Config encoder = inner->config();
  encoder.kind = model::Kind::encoder;
  say("patch, an encoder", [&] { patch(context, model::Transformer(encoder, 1), clean, corrupted, {2, 4}); });

  const RepeatProbe good{.alphabet = {1, 2, 3}, .beginning = {0}, .length = 8, .shortest = 1, .longest = 3};
  const auto repeats = [&](const std::string& what, const std::function<void(RepeatProbe&)>& spoil) {
    RepeatProbe options = good;
    spoil(options);
    say("repeats, " + what, [&] { make_repeats(options); });
  };
  repeats("as they should be", [](RepeatProbe&) {});
  repeats("no alphabet", [](RepeatProbe& r) { r.alphabet.clear(); });
  repeats("segments from 0", [](RepeatProbe& r) { r.shortest = 0; });
  repeats("segments of one length", [](RepeatProbe& r) { r.shortest = 3; });
  repeats("segments from 3 to 2", [](RepeatProbe& r) { r.shortest = 3, r.longest = 2; });
  repeats("room for one", [](RepeatProbe& r) { r.length = 2; });
  repeats("no room", [](RepeatProbe& r) { r.length = 1; });

  model::Config window = model::make_config(model::Kind::gpt, 2, 8, 2);
  window.vocabulary = 8;
  window.context = 9;
  window.layers[1].window = 4;
  const model::Transformer narrow(window, 1);
  for (const std::int64_t length : {4, 5}) {
    std::vector<Probe> probes;
    probes.push_back(make_probe(tokens_of({1, length}), {}, {}, 1));
    say("survey of " + std::to_string(length) + " tokens, a window of 4",
        [&] { heads::survey(context, narrow, probes); });
  }
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/heads/refusals.txt", say.text());
}

std::string numbers(const Tensor& tensor) {
  std::string text;
  for (std::int64_t n = 0; n < tensor.view().count(); ++n) text += " " + std::to_string(tensor.as<std::int32_t>()[n]);
  return text + "\n";
}

// A seed stands for the same segments, the same keys to compare with and the same order in every version.
TEST(HeadWords, OfSeeds) {
  std::string text;
  const RepeatProbe options{
      .alphabet = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .beginning = {0}, .batch = 2, .length = 24, .seed = 3};
  for (const Probe& probe : make_repeats(options, 5)) {
    text += "repeats" + numbers(probe.tokens) + "targets" + numbers(probe.targets);
  }
  Tensor mixed = tokens_of({2, 12});
  for (std::int32_t n = 0; n < 24; ++n) mixed.as<std::int32_t>()[n] = n * 7 % 11;
  Tensor lengths = tokens_of({2}, 12);
  lengths.as<std::int32_t>()[1] = 9;
  const Probe probe = make_probe(mixed, lengths, {3}, 4);
  text += "targets" + numbers(probe.targets);
  Context context(1);
  const Model model{std::shared_ptr<const model::Transformer>(InductionModel::make())};
  for (const std::uint64_t seed : {1, 2}) {
    text += "order";
    for (const PruneStep& step :
         polyhead::prune(context, model, examples(), examples(), 1, PruneOrder::random, seed).steps) {
      text += " " + to_string(step.removed);
    }
    text += "\n";
  }
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/heads/seeds.txt", text);
}

}  // namespace
}  // namespace polyhead::heads
