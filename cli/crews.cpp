// The worked example: the token "it" of "The animal didn't cross the road because it was tired", d_model = 8, two heads
// of 4 that share their values. One head looks for what "it" is, the other for what is said about it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/trace.h"
#include "polyhead/attention.h"

namespace polyhead::cli {
namespace {

constexpr int kHeads = 2, kKeys = 5, kDim = 4;
const std::vector<std::string> kTokens{"animal", "road", "because", "was", "tired"};
const std::vector<std::string> kHeadNames{"head 0", "head 1"};

constexpr std::array<float, kHeads * kKeys> kWeights{.70f, .05f, .10f, .05f, .10f,   //
                                                     .20f, .05f, .05f, .15f, .55f};  //
constexpr std::array<float, kKeys * kDim> kValues{.8f, .1f, 0,   .2f,                //
                                                  .1f, .7f, .1f, 0,                  //
                                                  .2f, .2f, .6f, .1f,                //
                                                  .1f, .1f, .2f, .8f,                //
                                                  .3f, .6f, .1f, .2f};

// The engine computes the example: with one-hot keys and q = ln(weight), the scores are ln(weight), and softmax gives
// the weights.
Attention attend_with_gates(const std::array<float, kHeads>& gates) {
  std::array<float, kHeads * kKeys> q{};
  std::transform(kWeights.begin(), kWeights.end(), q.begin(), [](float weight) { return std::log(weight); });
  std::array<float, kKeys * kKeys> k{};
  for (std::size_t j = 0; j < kKeys; ++j) k[j * kKeys + j] = 1;

  Context context(1);
  const AttentionOptions options{.scale = 1, .gates = ConstTensorView(gates.data(), {kHeads})};
  // One key/value head for two query heads: the crews share their values.
  return attend(context, ConstTensorView(q.data(), {1, kHeads, 1, kKeys}),
                ConstTensorView(k.data(), {1, 1, kKeys, kKeys}), ConstTensorView(kValues.data(), {1, 1, kKeys, kDim}),
                options, {.weights = true});
}

// Each key's contribution to a head's output, weight times value, and their sum.
std::string contributions(const std::vector<double>& weights, const std::vector<double>& outputs, std::size_t head) {
  std::vector<double> parts;
  for (std::size_t j = 0; j < kKeys; ++j)
    for (std::size_t d = 0; d < kDim; ++d) {
      parts.push_back(weights[head * kKeys + j] * static_cast<double>(kValues[j * kDim + d]));
    }
  std::vector<std::string> rows = kTokens;
  rows.push_back(fmt::format("= o{}", head));
  parts.insert(parts.end(), outputs.begin() + static_cast<std::ptrdiff_t>(head * kDim),
               outputs.begin() + static_cast<std::ptrdiff_t>((head + 1) * kDim));
  return matrix_text(fmt::format("{}: weight times value, summed", kHeadNames[head]), rows, {"0", "1", "2", "3"},
                     parts.data());
}

struct KnockOut {
  std::string name;
  std::array<float, kHeads> gates;
};
const std::vector<KnockOut> kKnockOuts{{"both heads", {1, 1}}, {"without head 0", {0, 1}}, {"without head 1", {1, 0}}};

}  // namespace

Report crews_report() {
  const Attention full = attend_with_gates({1, 1});
  const std::vector<double> weights = values_of(full.weights), heads = values_of(full.output);
  std::vector<Step> steps{{"values", {1, 1, kKeys, kDim}, "shared by both heads", {kValues.begin(), kValues.end()}},
                          {"weights", full.weights.shape(), "softmax of ln(weight)", weights},
                          {"heads", full.output.shape(), "weights times values", heads},
                          {"merged", {1, 1, kHeads * kDim}, "heads side by side: before W_O", heads},
                          {"output", {1, 1, kHeads * kDim}, "W_O is the identity: after W_O", heads}};
  // The output without each head, and how much attention is left on each token.
  std::vector<double> outputs, attention;
  std::vector<std::string> names;
  for (const KnockOut& out : kKnockOuts) {
    const std::vector<double> values = values_of(attend_with_gates(out.gates).output);
    if (out.gates != kKnockOuts[0].gates)
      steps.push_back({"output " + out.name, {1, 1, kHeads * kDim}, "gate 0", values});
    outputs.insert(outputs.end(), values.begin(), values.end());
    for (std::size_t j = 0; j < kKeys; ++j) {
      attention.push_back(out.gates[0] * weights[j] + out.gates[1] * weights[kKeys + j]);
    }
    names.push_back(out.name);
  }

  const std::vector<std::string> wide{"0", "1", "2", "3", "4", "5", "6", "7"};
  std::string text =
      "\"The animal didn't cross the road because it was tired\": what \"it\" gathers.\n"
      "d_model = 8: two heads of 4, which share the values and attend each in its own way.\n";
  text += matrix_text("values", kTokens, {"0", "1", "2", "3"}, steps[0].values.data());
  text += matrix_text("weights: the softmax of each head", kHeadNames, kTokens, weights.data());
  text += contributions(weights, heads, 0) + contributions(weights, heads, 1);
  text += matrix_text("merged: o0 and o1 side by side, before W_O", {"it"}, wide, heads.data());
  text += matrix_text("output: after W_O, which is the identity here, and with each head knocked out", names, wide,
                      outputs.data());
  text += matrix_text("attention that is left on each token, summed over the heads that speak", names, kTokens,
                      attention.data());
  text += "\nHead 0 carries the referent (animal), head 1 the attribute (tired); silence one, its half is gone.\n";
  Report report{.command = "trace", .text = text, .fields = {{"example", "crews"}}, .tables = {}, .csv = {}};
  add_steps(steps, report);
  return report;
}

}  // namespace polyhead::cli
