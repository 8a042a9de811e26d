#include "polyhead/heads.h"

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/model.h"
#include "capi/tensors.h"

using namespace polyhead;
using namespace polyhead::capi;

namespace {

constexpr std::string_view kOp = "heads";

std::vector<Examples> examples_of(Context& context, const polyhead_examples* batches, std::size_t count) {
  std::vector<Examples> result;
  for (std::size_t i = 0; i < count; ++i) {
    const polyhead_examples& batch = (&required(batches, kOp, "batches"))[i];
    const auto copied = [&](const polyhead_tensor* tensor, std::string_view name) {
      const ConstTensorView view = view_of(tensor, kOp, name);
      return view.present() ? to_host(context, view) : Tensor();
    };
    required(batch.tokens, kOp, "tokens");
    required(batch.targets, kOp, "targets");
    result.push_back(
        {copied(batch.tokens, "tokens"), copied(batch.targets, "targets"), copied(batch.lengths, "lengths")});
  }
  return result;
}

polyhead_estimate in_c(const Estimate& estimate) { return {estimate.mean, estimate.low, estimate.high}; }

polyhead_surveyed_head in_c(const SurveyedHead& head) {
  polyhead_surveyed_head result{.id = head_in_c(head.id), .sums = {}, .role = {}, .role_score = head.role_score};
  std::copy(head.sums.begin(), head.sums.end(), result.sums);
  head.role.copy(result.role, sizeof result.role - 1);
  return result;
}

polyhead_head_importance in_c(const HeadImportance& head) {
  return {.id = head_in_c(head.id),
          .gradient = head.gradient,
          .normalised = head.normalised,
          .zero = in_c(head.zero),
          .mean = in_c(head.mean),
          .accuracy_loss = head.accuracy_loss,
          .logit = in_c(head.logit)};
}

struct Place {
  Context& context;
  const Model& model;
};

Place place(polyhead_context* context, const polyhead_model* model) {
  return {required(context, kOp, "context").context, required(model, kOp, "model").model};
}

}  // namespace

polyhead_status polyhead_model_score(polyhead_context* context, const polyhead_model* model,
                                     const polyhead_examples* batches, size_t batch_count,
                                     const polyhead_head* knocked_out, size_t knocked_out_count,
                                     polyhead_score* score) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    const Score found =
        of.score(on, examples_of(on, batches, batch_count), heads_of(knocked_out, knocked_out_count, kOp));
    required(score, kOp, "score") = {found.loss, found.accuracy};
  });
}

polyhead_status polyhead_survey_heads(polyhead_context* context, const polyhead_model* model,
                                      const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                      const int32_t* separators, size_t separator_count, uint64_t seed,
                                      polyhead_surveyed_head* heads) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    polyhead_surveyed_head* into = &required(heads, kOp, "heads");
    SurveyOptions options{.lengths = view_of(lengths, kOp, "lengths"), .seed = seed};
    if (separator_count > 0) {
      const int32_t* const first = &required(separators, kOp, "separators");
      options.separators.assign(first, first + separator_count);
    }
    for (const SurveyedHead& head : survey_heads(on, of, view_of(tokens, kOp, "tokens"), options)) *into++ = in_c(head);
  });
}

polyhead_status polyhead_importance(polyhead_context* context, const polyhead_model* model,
                                    const polyhead_examples* batches, size_t batch_count,
                                    polyhead_head_importance* heads) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    polyhead_head_importance* into = &required(heads, kOp, "heads");
    for (const HeadImportance& head : head_importance(on, of, examples_of(on, batches, batch_count))) {
      *into++ = in_c(head);
    }
  });
}

polyhead_status polyhead_prune(polyhead_context* context, const polyhead_model* model, const polyhead_examples* ranking,
                               size_t ranking_count, const polyhead_examples* judging, size_t judging_count,
                               double budget, int32_t order, uint64_t seed, polyhead_score* whole,
                               polyhead_prune_step* steps, size_t* step_count, size_t* within_budget) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    if (order < 0 || order > POLYHEAD_DAMAGE) {
      throw Error(ErrorCode::value, kOp, "expected an order from 0 to 3, found " + std::to_string(order));
    }
    polyhead_score& before = required(whole, kOp, "whole");
    polyhead_prune_step* into = &required(steps, kOp, "steps");
    std::size_t &count = required(step_count, kOp, "step_count"),
                &within = required(within_budget, kOp, "within_budget");
    const PruneCurve curve =
        prune(on, of, examples_of(on, ranking, ranking_count), examples_of(on, judging, judging_count), budget,
              static_cast<PruneOrder>(order), seed);
    before = {curve.loss, curve.accuracy};
    for (const PruneStep& step : curve.steps) *into++ = {head_in_c(step.removed), {step.loss, step.accuracy}};
    count = curve.steps.size();
    within = curve.within_budget;
  });
}

polyhead_status polyhead_without_heads(const polyhead_model* model, const polyhead_head* heads, size_t head_count,
                                       polyhead_model** smaller) {
  return guarded([&] {
    required(smaller, kOp, "smaller") =
        new polyhead_model{without_heads(required(model, kOp, "model").model, heads_of(heads, head_count, kOp))};
  });
}
