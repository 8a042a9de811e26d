#include "polyhead/heads.h"

#include "capi/attention.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/model.h"
#include "capi/tensors.h"

using namespace polyhead;
using namespace polyhead::capi;

namespace {

constexpr std::string_view kOp = "heads";
static_assert(POLYHEAD_DAMAGE == static_cast<int>(PruneOrder::damage));

std::vector<Examples> examples_of(Context& context, const Model& model, const polyhead_examples* batches,
                                  std::size_t count) {
  std::vector<Examples> result;
  for (const polyhead_examples& batch : versioned(batches, count, kOp, "batches")) {
    if (batch.text_count > 0) {
      if (batch.tokens != nullptr || batch.targets != nullptr || batch.lengths != nullptr) {
        throw Error(ErrorCode::value, kOp, "expected tokens with targets, or texts, found both in one batch");
      }
      for (Examples& some : model.batches(texts_of(batch.texts, batch.text_sizes, batch.text_count, kOp))) {
        result.push_back(std::move(some));
      }
      continue;
    }
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
  polyhead_surveyed_head result{.id = head_in_c(head.id), .role = {}, .role_score = head.role_score};
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

void give(const std::vector<SurveyedHead>& found, Room<polyhead_surveyed_head>& into, double* sums,
          std::size_t sum_count) {
  double* row = sums;
  for (const SurveyedHead& head : found) {
    into.add(in_c(head));
    if (sums == nullptr) continue;
    std::fill_n(row, sum_count, 0.0);
    std::copy_n(head.sums.begin(), std::min(sum_count, head.sums.size()), row);
    row += sum_count;
  }
}

// The caller's memory for what patching found.
class PatchingRoom {
 public:
  PatchingRoom(polyhead_patching* patching, polyhead_patched_head* heads, std::size_t head_size)
      : into_(required(patching, kOp, "patching")),
        size_(versioned(patching, kOp, "patching").size),
        heads_(heads, head_size, kOp, "heads", "head_size") {}

  void give(const Patching& found) {
    const polyhead_patching filled = {.size = size_,
                                      .answer = found.answer,
                                      .instead = found.instead,
                                      .clean = found.clean,
                                      .corrupted = found.corrupted};
    std::memcpy(&into_, &filled, std::min(size_, sizeof filled));
    for (const PatchedHead& head : found.heads) heads_.add({head_in_c(head.id), head.difference, head.restored});
  }

 private:
  polyhead_patching& into_;
  std::size_t size_;
  Room<polyhead_patched_head> heads_;
};

}  // namespace

polyhead_status polyhead_model_score(polyhead_context* context, const polyhead_model* model,
                                     const polyhead_examples* batches, size_t batch_count,
                                     const polyhead_head* knocked_out, size_t knocked_out_count,
                                     polyhead_score* score) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    const Score found = of.score(on, examples_of(on, of, batches, batch_count),
                                 heads_of(knocked_out, knocked_out_count, kOp, "knocked_out"));
    required(score, kOp, "score") = {found.loss, found.accuracy};
  });
}

polyhead_status polyhead_survey_heads(polyhead_context* context, const polyhead_model* model,
                                      const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                      const int32_t* separators, size_t separator_count, uint64_t seed,
                                      polyhead_surveyed_head* heads, size_t head_size, double* sums, size_t sum_count) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    Room<polyhead_surveyed_head> into(heads, head_size, kOp, "heads", "head_size");
    const SurveyOptions options{.lengths = view_of(lengths, kOp, "lengths"),
                                .separators = chosen(separators, separator_count, kOp, "separators"),
                                .seed = seed};
    give(survey_heads(on, of, view_of(tokens, kOp, "tokens"), options), into, sums, sum_count);
  });
}

polyhead_status polyhead_survey_texts(polyhead_context* context, const polyhead_model* model, const char* const* texts,
                                      const size_t* text_sizes, size_t text_count, const int32_t* separators,
                                      size_t separator_count, uint64_t seed, polyhead_surveyed_head* heads,
                                      size_t head_size, double* sums, size_t sum_count) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    Room<polyhead_surveyed_head> into(heads, head_size, kOp, "heads", "head_size");
    const SurveyOptions options{
        .lengths = {}, .separators = chosen(separators, separator_count, kOp, "separators"), .seed = seed};
    give(survey_heads(on, of, texts_of(texts, text_sizes, text_count, kOp), options), into, sums, sum_count);
  });
}

polyhead_status polyhead_patch_heads(polyhead_context* context, const polyhead_model* model, const int32_t* clean,
                                     const int32_t* corrupted, size_t count, int32_t answer, int32_t instead,
                                     polyhead_patching* patching, polyhead_patched_head* heads, size_t head_size) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    PatchingRoom into(patching, heads, head_size);
    const auto named = [](std::int32_t token) { return token < 0 ? std::nullopt : std::optional(token); };
    into.give(patch_heads(on, of, {&required(clean, kOp, "clean"), count},
                          {&required(corrupted, kOp, "corrupted"), count}, named(answer), named(instead)));
  });
}

polyhead_status polyhead_patch_texts(polyhead_context* context, const polyhead_model* model, const char* clean,
                                     const char* corrupted, const char* answer, const char* instead,
                                     polyhead_patching* patching, polyhead_patched_head* heads, size_t head_size) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    PatchingRoom into(patching, heads, head_size);
    const auto named = [](const char* text) {
      return text == nullptr ? std::nullopt : std::optional<std::string>(text);
    };
    into.give(patch_heads(on, of, &required(clean, kOp, "clean"), &required(corrupted, kOp, "corrupted"), named(answer),
                          named(instead)));
  });
}

polyhead_status polyhead_importance(polyhead_context* context, const polyhead_model* model,
                                    const polyhead_examples* batches, size_t batch_count,
                                    polyhead_head_importance* heads, size_t head_size) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    Room<polyhead_head_importance> into(heads, head_size, kOp, "heads", "head_size");
    for (const HeadImportance& head : head_importance(on, of, examples_of(on, of, batches, batch_count))) {
      into.add(in_c(head));
    }
  });
}

polyhead_status polyhead_prune(polyhead_context* context, const polyhead_model* model, const polyhead_examples* ranking,
                               size_t ranking_count, const polyhead_examples* judging, size_t judging_count,
                               double budget, int32_t order, uint64_t seed, polyhead_score* whole,
                               polyhead_prune_step* steps, size_t step_size, size_t* step_count,
                               size_t* within_budget) {
  return guarded([&] {
    const auto [on, of] = place(context, model);
    const PruneOrder by = enumerator(order, PruneOrder::damage, kOp, "order");
    polyhead_score& before = required(whole, kOp, "whole");
    Room<polyhead_prune_step> into(steps, step_size, kOp, "steps", "step_size");
    std::size_t &count = required(step_count, kOp, "step_count"),
                &within = required(within_budget, kOp, "within_budget");
    const PruneCurve curve = prune(on, of, examples_of(on, of, ranking, ranking_count),
                                   examples_of(on, of, judging, judging_count), budget, by, seed);
    before = {curve.loss, curve.accuracy};
    for (const PruneStep& step : curve.steps) into.add({head_in_c(step.removed), {step.loss, step.accuracy}});
    count = curve.steps.size();
    within = curve.within_budget;
  });
}

polyhead_status polyhead_without_heads(const polyhead_model* model, const polyhead_head* heads, size_t head_count,
                                       polyhead_model** smaller) {
  return guarded([&] {
    required(smaller, kOp, "smaller") = new polyhead_model{
        without_heads(required(model, kOp, "model").model, heads_of(heads, head_count, kOp, "heads"))};
  });
}
