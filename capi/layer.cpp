#include "polyhead/layer.h"

#include "capi/attention.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/tensors.h"

using namespace polyhead;
using namespace polyhead::capi;

namespace {

constexpr std::string_view kOp = "multihead";

struct Call {
  MultiHeadInputs inputs;
  MultiHeadOptions options;
};

double or_default(double given, double standard) { return given == 0 ? standard : given; }

std::optional<Rotary> rotary_of(const polyhead_rotary* rotary) {
  if (rotary == nullptr) return {};
  const polyhead_rotary given = versioned(rotary, kOp, "rotary");
  const Rotary standard;
  return Rotary{.layout = given.interleaved != 0 ? RotaryLayout::interleaved : RotaryLayout::half,
                .dim = given.dim,
                .base = or_default(given.base, standard.base),
                .scaling = {.factor = or_default(given.scaling_factor, standard.scaling.factor),
                            .slow = or_default(given.scaling_slow, standard.scaling.slow),
                            .fast = or_default(given.scaling_fast, standard.scaling.fast),
                            .context = given.scaling_context},
                .factors = view_of(given.factors, kOp, "factors")};
}

Call call_of(const polyhead_layer_inputs* inputs) {
  const polyhead_layer_inputs given = versioned(&required(inputs, kOp, "inputs"), kOp, "inputs");
  return {.inputs = {.query = view_of(given.query, kOp, "query"),
                     .key = view_of(given.key, kOp, "key"),
                     .value = view_of(given.value, kOp, "value")},
          .options = {.attention = options_of(given.attention, kOp),
                      .output_dropout = dropout_of(given.output_dropout, given.output_dropout_seed,
                                                   given.output_dropout_origin, kOp, "output_dropout_origin"),
                      .qk_norm_epsilon = or_default(given.qk_norm_epsilon, MultiHeadOptions{}.qk_norm_epsilon),
                      .rotary = rotary_of(given.rotary),
                      .query_positions = view_of(given.query_positions, kOp, "query_positions"),
                      .key_positions = view_of(given.key_positions, kOp, "key_positions")}};
}

MultiHeadWants wants_of(const polyhead_layer_wants* wants) {
  const polyhead_layer_wants given = versioned(wants, kOp, "wants");
  MultiHeadWants result = given.training != 0 ? MultiHeadWants::training() : MultiHeadWants{};
  result.heads |= given.heads != 0;
  const bool lse = result.attention.lse || given.lse != 0;
  result.attention = {.lse = lse,
                      .weights = given.weights != 0,
                      .weight_heads = chosen(given.weight_heads, given.weight_head_count, kOp, "weight_heads"),
                      .weight_rows = chosen(given.weight_rows, given.weight_row_count, kOp, "weight_rows"),
                      .weights_f32 = given.weights_f32 != 0,
                      .logits = enumerator(given.logit_stage, LogitStage::biased, kOp, "logit_stage"),
                      .statistics = enumerator(given.statistics, StatisticsSet::full, kOp, "statistics"),
                      .row_statistics = given.row_statistics != 0,
                      .marked_keys = view_of(given.marked_keys, kOp, "marked_keys"),
                      .target_keys = view_of(given.target_keys, kOp, "target_keys")};
  return result;
}

}  // namespace

polyhead_status polyhead_layer_create(polyhead_context* context, const polyhead_layer_shape* shape,
                                      polyhead_dtype dtype, uint64_t seed, polyhead_layer** layer) {
  return guarded([&] {
    const polyhead_layer_shape given = versioned(&required(shape, kOp, "shape"), kOp, "shape");
    const MultiHeadShape sizes{.width = given.width,
                               .heads = given.heads,
                               .kv_heads = given.kv_heads,
                               .head_dim = given.head_dim,
                               .key_width = given.key_width,
                               .value_width = given.value_width,
                               .bias = given.no_bias == 0,
                               .qk_norm = given.qk_norm != 0};
    required(layer, kOp, "layer") = new polyhead_layer{MultiHeadAttention(
        sizes, element_type(dtype, kOp, "dtype"), seed, required(context, kOp, "context").context.allocator())};
  });
}

void polyhead_layer_free(polyhead_layer* layer) { delete layer; }

polyhead_status polyhead_layer_parameter(polyhead_layer* layer, const char* name, polyhead_view* view) {
  return guarded([&] { fill_by_name(required(layer, kOp, "layer").layer.state(), name, view, kOp); });
}

const char* polyhead_layer_parameter_name(const polyhead_layer* layer, int32_t number) {
  if (layer == nullptr) return nullptr;
  const char* found = nullptr;
  int32_t at = 0;
  const auto one = [&](const char* name, ParameterKind, const ConstTensorView& parameter) {
    if (parameter.present() && at++ == number) found = name;
  };
  const MultiHeadViews parameters = layer->layer.parameters();
  for_each_parameter(one, parameters);
  return found;
}

polyhead_status polyhead_layer_forward(polyhead_context* context, const polyhead_layer* layer,
                                       const polyhead_layer_inputs* inputs, const polyhead_layer_wants* wants,
                                       polyhead_results** results) {
  return guarded([&] {
    const Call call = call_of(inputs);
    polyhead_results*& into = required(results, kOp, "results");
    MultiHeadResults found =
        required(layer, kOp, "layer")
            .layer.forward(required(context, kOp, "context").context, call.inputs, call.options, wants_of(wants));
    auto named = std::make_unique<polyhead_results>();
    const auto& kept = named->kept.emplace<MultiHeadResults>(std::move(found));
    named->name("output", kept.output);
    named->name("heads", kept.heads);
    named->name("lse", kept.lse);
    named->name("weights", kept.weights);
    named->name("logits", kept.logits);
    named->name("statistics", kept.statistics);
    named->name("row_statistics", kept.row_statistics);
    into = named.release();
  });
}

polyhead_status polyhead_layer_backward(polyhead_context* context, const polyhead_layer* layer,
                                        const polyhead_layer_inputs* inputs, const polyhead_results* forward,
                                        const polyhead_tensor* doutput, polyhead_results** gradients) {
  return guarded([&] {
    const Call call = call_of(inputs);
    polyhead_results*& into = required(gradients, kOp, "gradients");
    const auto* before = std::get_if<MultiHeadResults>(&required(forward, kOp, "forward").kept);
    const AttentionOptions& options = call.options.attention;
    MultiHeadGradients found = required(layer, kOp, "layer")
                                   .layer.backward(required(context, kOp, "context").context, call.inputs, call.options,
                                                   required(before, kOp, "the layer's results in forward"),
                                                   {.output = view_of(doutput, kOp, "doutput")},
                                                   {.bias = options.bias.present(),
                                                    .sink_logit = options.sink_logit.present(),
                                                    .gates = options.gates.present()});
    auto named = std::make_unique<polyhead_results>();
    const auto& kept = named->kept.emplace<MultiHeadGradients>(std::move(found));
    named->name("dquery", kept.dquery);
    named->name("dkey", kept.dkey);
    named->name("dvalue", kept.dvalue);
    for_each_parameter([&](const char* name, ParameterKind, const Tensor& one) { named->name(name, one); },
                       kept.dparameters);
    named->name("dbias", kept.dbias);
    named->name("dsink_logit", kept.dsink_logit);
    named->name("dgates", kept.dgates);
    into = named.release();
  });
}
