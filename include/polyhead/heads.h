// What the heads of a model do, how much it depends on each, and the same model without those it does not need.
//
//   for (const SurveyedHead& head : survey_heads(context, model, tokens)) ...         // roles and statistics
//   PruneCurve curve = prune(context, model, ranking, judging, 0.01);                  // lose at most one point
//   without_heads(model, curve.removed()).save("small");                               // smaller matrices, not masks
//
// docs/heads.md defines roles, scores and orders.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/attention.h"
#include "polyhead/export.h"
#include "polyhead/model.h"

namespace POLYHEAD_PUBLIC polyhead {

struct SurveyedHead {
  HeadId id;
  std::array<double, kFullStatistics> sums{};  // over the rows of all sequences, indexed by Statistic
  std::string role;                            // "induction", "previous token" ...; empty if none holds
  double role_score = 0;                       // of that role, 0 to 1

  double mean(Statistic value, Statistic count) const {
    const auto at = [&](Statistic which) { return sums[static_cast<std::size_t>(which)]; };
    return at(count) == 0 ? 0 : at(value) / at(count);
  }
};

struct SurveyOptions {
  ConstTensorView lengths{};               // i32 [B]: tokens of each sequence that exist; for classifiers
  std::vector<std::int32_t> separators{};  // the marked keys, but for the first of a sequence: tokens for that role
  std::uint64_t seed = 1;                  // of the random repeated segments that tell induction heads
};

// Examines every head on `tokens`, i32 [B,T], which should be like those the model was trained on, and on random
// segments of the same tokens, repeated: both say which role a head has. The statistics are those of `tokens`.
std::vector<SurveyedHead> survey_heads(Context& context, const Model& model, const ConstTensorView& tokens,
                                       const SurveyOptions& options = {});
// On texts, if the model has a tokenizer. Its roles do not depend on them: they are found once, on texts that come with
// polyhead, and kept in the cache that POLYHEAD_CACHE names. If no separators are named, they are punctuation.
std::vector<SurveyedHead> survey_heads(Context& context, const Model& model, const std::vector<std::string>& texts,
                                       const SurveyOptions& options = {});

struct PatchedHead {
  HeadId id;
  double difference = 0;  // in the run on the corrupted text, with this head's output of the clean one
  double restored = 0;    // share of the way from the corrupted run to the clean one: 0 none, 1 all of it
};

// What is measured is the logit of `answer` minus that of `instead` at the last token.
struct Patching {
  std::int32_t answer = 0, instead = 0;
  double clean = 0, corrupted = 0;  // in each run
  std::vector<PatchedHead> heads;   // in the order of Model::heads
};

// Which heads carry the difference between two texts of equally many tokens, for a language model: each head of the run
// on the corrupted text is made to give its output of the run on the clean one. `answer` and `instead` are by default
// the likeliest tokens after either text. Throws Error (value) if the runs do not differ.
Patching patch_heads(Context& context, const Model& model, std::span<const std::int32_t> clean,
                     std::span<const std::int32_t> corrupted, std::optional<std::int32_t> answer = {},
                     std::optional<std::int32_t> instead = {});
// Of texts; `answer` and `instead` are texts of one token, which within a text usually begin with a blank.
Patching patch_heads(Context& context, const Model& model, std::string_view clean, std::string_view corrupted,
                     const std::optional<std::string>& answer = {}, const std::optional<std::string>& instead = {});

// A mean over sequences with its 95 % interval.
struct Estimate {
  double mean = 0, low = 0, high = 0;
};

struct HeadImportance {
  HeadId id;
  double gradient = 0;    // mean over sequences of |d loss of the sequence / d gate|
  double normalised = 0;  // divided by the l2 norm of its layer's
  // How much the loss of a sequence rises if the head's output is set to 0, or to its mean over all tokens.
  Estimate zero, mean;
  double accuracy_loss = 0;  // accuracy with it minus without, its output set to 0
  Estimate logit;            // what it adds to the logit of the right answer, above the mean of all logits
};

// One backward pass per batch for all gradients, and two forward passes per head. Throws Error (value) if a loss, with
// all heads or without one, or a gradient is not finite.
std::vector<HeadImportance> head_importance(Context& context, const Model& model,
                                            const std::vector<Examples>& examples);

// Encoders have no gradient to rank by, so they take `random` or `damage`.
enum class PruneOrder : std::uint8_t {
  iterative,  // the head with the least gradient goes, then all are ranked anew
  one_shot,   // by gradient, ranked once
  random,     // by the seed; for comparison
  damage,     // ranked once, by how much the accuracy, then the loss, suffers without each head alone
};

// An encoder has no answers: its loss is the cosine distance (1 - cos) of its embeddings, its accuracy 1 minus that.
struct PruneStep {
  HeadId removed;
  double loss = 0, accuracy = 0;  // without this one, those that go together with it, and all before
};

struct PruneCurve {
  double loss = 0, accuracy = 0;  // of the whole model
  std::vector<PruneStep> steps;
  std::size_t within_budget = 0;  // how many of the first steps may be taken

  std::vector<HeadId> removed() const;  // the heads of those
};

// Knocks out one head after the other until more than `budget` of the accuracy is lost (0.01 is one percentage point).
// Heads are ranked on `ranking` and the accuracy is that on `judging`, which should be other sequences. Where a layer
// has several key/value heads, each read by several heads, the readers of one go together, a step each. Throws
// Error (value) if a loss, with all heads or without some, or a gradient is not finite.
PruneCurve prune(Context& context, const Model& model, const std::vector<Examples>& ranking,
                 const std::vector<Examples>& judging, double budget = 0.01, PruneOrder order = PruneOrder::iterative,
                 std::uint64_t seed = 1);

// The model without these heads: their rows and columns leave the weights. It computes what the whole one does with
// them knocked out, in less time and memory. The heads that stay are numbered anew.
Model without_heads(const Model& model, const std::vector<HeadId>& heads);

}  // namespace polyhead
