#include "capi/attention.h"

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/tensors.h"
#include "polyhead/context.h"

namespace polyhead::capi {
namespace {

static_assert(POLYHEAD_LIGHT_STATISTICS == kLightStatistics && POLYHEAD_FULL_STATISTICS == kFullStatistics);
static_assert(POLYHEAD_BOTTOM_RIGHT == static_cast<int>(Align::bottom_right));
static_assert(POLYHEAD_BIASED == static_cast<int>(LogitStage::biased));
static_assert(POLYHEAD_UNLIMITED == kUnlimited);

// What the caller asks for by passing these results.
struct Wanted {
  AttentionWants wants;
  AttentionOutputs outputs;
};

std::int64_t fields_of(const TensorView& statistics) {
  return statistics.rank() == 0 ? 0 : statistics.shape(statistics.rank() - 1);
}

// The smallest set that has as many fields. A program from before a field was added has room for fewer.
StatisticsSet set_of(const TensorView& statistics, std::string_view op, std::string_view name) {
  if (!statistics.present()) return StatisticsSet::none;
  const std::int64_t fields = fields_of(statistics);
  if (fields > 0 && fields <= kFullStatistics) {
    return fields <= kLightStatistics ? StatisticsSet::light : StatisticsSet::full;
  }
  throw Error(ErrorCode::shape, op,
              std::string(name) + ": expected a last axis of 1 to " + std::to_string(kFullStatistics) + ", found " +
                  describe(statistics));
}

// All fields of a set, for a caller who has room for the first of them.
class AllFields {
 public:
  AllFields(Context& context, StatisticsSet set, TensorView& view) : context_(context), given_(view) {
    const std::int64_t fields = set == StatisticsSet::full ? kFullStatistics : kLightStatistics;
    if (!view.present() || view.rank() == 0 || fields_of(view) >= fields) return;
    Dims shape = view.shape();
    shape[view.rank() - 1] = fields;
    all_ = Tensor::empty(shape, view.dtype(), context.allocator());
    view = all_.view();
  }
  void hand_over() {
    if (!all_.view().present()) return;
    copy(context_, all_.view().slice(given_.rank() - 1, 0, fields_of(given_)), given_);
  }

 private:
  Context& context_;
  TensorView given_;
  Tensor all_;
};

Wanted wanted(const polyhead_attention_results* results, std::string_view op) {
  const polyhead_attention_results given = versioned(&required(results, op, "results"), op, "results");
  const auto view = [&](const polyhead_tensor* tensor, std::string_view name) {
    return writable_view_of(tensor, op, name);
  };
  Wanted wanted{.wants = {},
                .outputs = {.output = view(given.output, "output"),
                            .lse = view(given.lse, "lse"),
                            .weights = view(given.weights, "weights"),
                            .logits = view(given.logits, "logits"),
                            .statistics = view(given.statistics, "statistics"),
                            .row_statistics = view(given.row_statistics, "row_statistics")}};
  const AttentionOutputs& outputs = wanted.outputs;
  wanted.wants = {.lse = outputs.lse.present(),
                  .weights = outputs.weights.present(),
                  .weight_heads = chosen(given.weight_heads, given.weight_head_count, op, "weight_heads"),
                  .weight_rows = chosen(given.weight_rows, given.weight_row_count, op, "weight_rows"),
                  .weights_f32 = outputs.weights.present() && outputs.weights.dtype() == DType::f32,
                  .logits = enumerator(given.logit_stage, LogitStage::biased, op, "logit_stage"),
                  .statistics = set_of(outputs.statistics, op, "statistics"),
                  .row_statistics = outputs.row_statistics.present(),
                  .marked_keys = view_of(given.marked_keys, op, "marked_keys"),
                  .target_keys = view_of(given.target_keys, op, "target_keys")};
  if (outputs.logits.present() != (wanted.wants.logits != LogitStage::none)) {
    throw Error(ErrorCode::value, op, "expected logits and logit_stage together, found one of them");
  }
  return wanted;
}

}  // namespace

AttentionOptions options_of(const polyhead_attention_options* options, std::string_view op) {
  const polyhead_attention_options given = versioned(options, op, "options");
  const auto view = [&](const polyhead_tensor* tensor, std::string_view name) { return view_of(tensor, op, name); };
  AttentionOptions result{
      .softcap = given.softcap,
      .align = enumerator(given.align, Align::bottom_right, op, "align"),
      .first_positions = view(given.first_positions, "first_positions"),
      .causal = given.causal != 0,
      .keep = view(given.keep, "keep"),
      .bias = view(given.bias, "bias"),
      .alibi = view(given.alibi, "alibi"),
      .key_lengths = view(given.key_lengths, "key_lengths"),
      .key_start = view(given.key_start, "key_start"),
      .query_lengths = view(given.query_lengths, "query_lengths"),
      .cu_q = view(given.cu_q, "cu_q"),
      .cu_k = view(given.cu_k, "cu_k"),
      .sink_logit = view(given.sink_logit, "sink_logit"),
      .dropout = dropout_of(given.dropout, given.dropout_seed, given.dropout_origin, op, "dropout_origin"),
      .gates = view(given.gates, "gates")};
  if (given.scale != nullptr) result.scale = *given.scale;
  if (given.first_position != nullptr) result.first_position = *given.first_position;
  if (given.window != nullptr) {
    const polyhead_window window = versioned(given.window, op, "window");
    result.window = {window.left, window.right, window.always_first};
  }
  return result;
}

Dropout dropout_of(double p, std::uint64_t seed, const polyhead_origin* origin, std::string_view op,
                   std::string_view origin_name) {
  const polyhead_origin begin = versioned(origin, op, origin_name);
  return {p, seed, {begin.sequence, begin.head, begin.row, begin.key}};
}

std::vector<std::int32_t> chosen(const std::int32_t* values, std::size_t count, std::string_view op,
                                 std::string_view name) {
  if (count == 0) return {};
  const std::int32_t* const first = &required(values, op, name);
  return {first, first + count};
}

}  // namespace polyhead::capi

using namespace polyhead;
using namespace polyhead::capi;

const char* polyhead_statistic_name(int32_t statistic) {
  if (statistic < 0 || statistic >= kFullStatistics) return nullptr;
  return name_of(static_cast<Statistic>(statistic)).data();
}

polyhead_status polyhead_attend(polyhead_context* context, const polyhead_tensor* q, const polyhead_tensor* k,
                                const polyhead_tensor* v, const polyhead_attention_options* options,
                                const polyhead_attention_results* results) {
  return guarded([&] {
    constexpr std::string_view op = "attend";
    Wanted want = wanted(results, op);
    Context& run = required(context, op, "context").context;
    AllFields statistics(run, want.wants.statistics, want.outputs.statistics);
    AllFields rows(run, want.wants.statistics, want.outputs.row_statistics);
    attend_into(run, view_of(q, op, "q"), view_of(k, op, "k"), view_of(v, op, "v"), options_of(options, op), want.wants,
                want.outputs);
    statistics.hand_over();
    rows.hand_over();
  });
}

polyhead_status polyhead_explain(polyhead_context* context, const polyhead_tensor* q, const polyhead_tensor* k,
                                 const polyhead_tensor* v, const polyhead_attention_options* options,
                                 const polyhead_attention_results* results, const char** text) {
  return guarded([&] {
    constexpr std::string_view op = "explain";
    const AttentionWants wants = results == nullptr ? AttentionWants{} : wanted(results, op).wants;
    required(text, op, "text") =
        keep_text(explain(required(context, op, "context").context, view_of(q, op, "q"), view_of(k, op, "k"),
                          view_of(v, op, "v"), options_of(options, op), wants));
  });
}

polyhead_status polyhead_attend_backward(polyhead_context* context, const polyhead_tensor* q, const polyhead_tensor* k,
                                         const polyhead_tensor* v, const polyhead_attention_options* options,
                                         const polyhead_attention_upstream* upstream,
                                         const polyhead_attention_gradients* gradients) {
  return guarded([&] {
    constexpr std::string_view op = "attend_backward";
    const auto above = versioned(&required(upstream, op, "upstream"), op, "upstream");
    const auto into = versioned(&required(gradients, op, "gradients"), op, "gradients");
    const auto in = [&](const polyhead_tensor* tensor, std::string_view name) { return view_of(tensor, op, name); };
    const auto out = [&](const polyhead_tensor* tensor, std::string_view name) {
      return writable_view_of(tensor, op, name);
    };
    attend_backward_into(
        required(context, op, "context").context, in(q, "q"), in(k, "k"), in(v, "v"), options_of(options, op),
        {.output = in(above.doutput, "doutput"),
         .lse = in(above.dlse, "dlse"),
         .weights = in(above.dweights, "dweights")},
        {.bias = into.dbias != nullptr, .sink_logit = into.dsink_logit != nullptr, .gates = into.dgates != nullptr},
        {.output = in(above.output, "output"), .lse = in(above.lse, "lse"), .merged = above.merged != 0},
        {.dq = out(into.dq, "dq"),
         .dk = out(into.dk, "dk"),
         .dv = out(into.dv, "dv"),
         .dbias = out(into.dbias, "dbias"),
         .dsink_logit = out(into.dsink_logit, "dsink_logit"),
         .dgates = out(into.dgates, "dgates")});
  });
}

polyhead_status polyhead_merge_attention(const polyhead_attention_results* parts, size_t count,
                                         const polyhead_attention_results* merged) {
  return guarded([&] {
    constexpr std::string_view op = "merge_attention";
    std::vector<AttentionPart> given;
    for (const polyhead_attention_results& part : versioned(parts, count, op, "parts")) {
      given.push_back({.output = view_of(part.output, op, "part output"),
                       .lse = view_of(part.lse, op, "part lse"),
                       .row_statistics = view_of(part.row_statistics, op, "part row_statistics")});
    }
    merge_attention(given, wanted(merged, op).outputs);
  });
}
