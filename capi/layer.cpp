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

Call call_of(const polyhead_layer_inputs* inputs) {
  const polyhead_layer_inputs given = versioned(&required(inputs, kOp, "inputs"), kOp, "inputs");
  return {.inputs = {.query = view_of(given.query, kOp, "query"),
                     .key = view_of(given.key, kOp, "key"),
                     .value = view_of(given.value, kOp, "value")},
          .options = {.attention = options_of(given.attention, kOp),
                      .output_dropout = {given.output_dropout, given.output_dropout_seed}}};
}

MultiHeadWants wants_of(const polyhead_layer_wants* wants) {
  const polyhead_layer_wants given = versioned(wants, kOp, "wants");
  if (given.statistics < 0 || given.statistics > 2) {
    throw Error(ErrorCode::value, kOp, "expected statistics 0, 1 or 2, found " + std::to_string(given.statistics));
  }
  MultiHeadWants result = given.training != 0 ? MultiHeadWants::training() : MultiHeadWants{};
  result.attention.weights = given.weights != 0;
  result.attention.statistics = static_cast<StatisticsSet>(given.statistics);
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
                               .bias = given.no_bias == 0};
    required(layer, kOp, "layer") = new polyhead_layer{MultiHeadAttention(
        sizes, element_type(dtype, kOp, "dtype"), seed, required(context, kOp, "context").context.allocator())};
  });
}

void polyhead_layer_free(polyhead_layer* layer) { delete layer; }

polyhead_status polyhead_layer_parameter(polyhead_layer* layer, const char* name, polyhead_view* view) {
  return guarded([&] { fill_by_name(required(layer, kOp, "layer").layer.state(), name, view, kOp); });
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
    named->name("statistics", kept.statistics);
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
    named->name("in_proj_weight", kept.dparameters.in_proj_weight);
    named->name("q_proj_weight", kept.dparameters.q_proj_weight);
    named->name("k_proj_weight", kept.dparameters.k_proj_weight);
    named->name("v_proj_weight", kept.dparameters.v_proj_weight);
    named->name("in_proj_bias", kept.dparameters.in_proj_bias);
    named->name("out_proj.weight", kept.dparameters.out_proj_weight);
    named->name("out_proj.bias", kept.dparameters.out_proj_bias);
    named->name("dbias", kept.dbias);
    named->name("dsink_logit", kept.dsink_logit);
    named->name("dgates", kept.dgates);
    into = named.release();
  });
}
