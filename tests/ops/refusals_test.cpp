// Every tensor of every public op, wrong in every way.
#include "ops/linear.h"
#include "ops/multihead.h"
#include "ops/spoilt.h"
#include "polyhead/polyhead.h"

namespace polyhead::test {
namespace {

// Sizes that are all different, so that no two axes can be taken for each other.
constexpr std::int64_t B = 3, H = 4, G = 2, T = 5, S = 7, D = 8, E = 6;

std::vector<Given> operator+(std::vector<Given> a, const std::vector<Given>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<Given> kInputs{{"q", {B, H, T, D}}, {"k", {B, G, S, D}}, {"v", {B, G, S, E}}};
const std::vector<Given> kOptions{{"keep", {B, H, T, S}, DType::boolean, {1}},
                                  {"bias", {B, H, T, S}},
                                  {"alibi", {B, H}},
                                  {"key_lengths", {B}, DType::i32, {6}},
                                  {"key_start", {B}, DType::i32, {1}},
                                  {"query_lengths", {B}, DType::i32, {4}},
                                  {"first_positions", {B}, DType::i32, {2}},
                                  {"sink_logit", {H}},
                                  {"gates", {B, H}}};

AttentionOptions options_of(const Views& v) {
  return {.first_positions = v["first_positions"],
          .causal = true,
          .keep = v["keep"],
          .bias = v["bias"],
          .alibi = v["alibi"],
          .key_lengths = v["key_lengths"],
          .key_start = v["key_start"],
          .query_lengths = v["query_lengths"],
          .sink_logit = v["sink_logit"],
          .gates = v["gates"]};
}
AttentionWants wants_of(const Views& v) {
  return {.lse = true,
          .weights = true,
          .logits = LogitStage::biased,
          .statistics = StatisticsSet::full,
          .row_statistics = true,
          .marked_keys = v["marked_keys"],
          .target_keys = v["target_keys"]};
}

TEST(Refusals, Attention) {
  const std::vector<Given> wants{{"marked_keys", {B, S}, DType::boolean, {1}},
                                 {"target_keys", {B, T, 4}, DType::i32, {-1}}};
  const std::vector<Given> outputs{{"output", {B, H, T, E}},
                                   {"lse", {B, H, T}},
                                   {"weights", {B, H, T, S}},
                                   {"logits", {B, H, T, S}},
                                   {"statistics", {B, H, kFullStatistics}},
                                   {"row_statistics", {B, H, T, kFullStatistics}}};
  const std::vector<Given> packed{{"q", {1, H, T, D}},
                                  {"k", {1, G, S, D}},
                                  {"v", {1, G, S, E}},
                                  {"cu_q", {3}, DType::i32, {0, 2, T}},
                                  {"cu_k", {3}, DType::i32, {0, 4, S}},
                                  {"gates", {2, H}},
                                  {"weights", {1, H, T, 4}}};
  const Call calls[] = {
      {"attend_into", kInputs + kOptions + wants + outputs,
       [](Context& c, const Views& v) {
         attend_into(c, v["q"], v["k"], v["v"], options_of(v), wants_of(v),
                     {v["output"], v["lse"], v["weights"], v["logits"], v["statistics"], v["row_statistics"]});
       }},
      {"packed attend_into", packed,
       [](Context& c, const Views& v) {
         Tensor output = Tensor::empty({1, H, v["q"].shape(2), v["v"].shape(3)}, v["q"].dtype());
         attend_into(c, v["q"], v["k"], v["v"], {.cu_q = v["cu_q"], .cu_k = v["cu_k"], .gates = v["gates"]},
                     {.weights = true}, {.output = output, .weights = v["weights"]});
       }},
      {"attend", kInputs, [](Context& c, const Views& v) { attend(c, v["q"], v["k"], v["v"]); }},
      {"explain", kInputs, [](Context& c, const Views& v) { explain(c, v["q"], v["k"], v["v"]); }},
  };
  expect_kept_messages("attention.txt", SpoiltCalls::messages_of({std::begin(calls), std::end(calls)}));
}

TEST(Refusals, AttentionBackward) {
  const std::vector<Given> upstream{{"doutput", {B, H, T, E}},
                                    {"dlse", {B, H, T}},
                                    {"dweights", {B, H, T, S}},
                                    {"forward output", {B, H, T, E}},
                                    {"forward lse", {B, H, T}}};
  const std::vector<Given> outputs{{"dq", {B, H, T, D}},    {"dk", {B, G, S, D}}, {"dv", {B, G, S, E}},
                                   {"dbias", {B, H, T, S}}, {"dsink_logit", {H}}, {"dgates", {B, H}}};
  const Call calls[] = {
      {"attend_backward_into", kOptions + kInputs + upstream + outputs,
       [](Context& c, const Views& v) {
         attend_backward_into(c, v["q"], v["k"], v["v"], options_of(v), {v["doutput"], v["dlse"], v["dweights"]},
                              {.bias = true, .sink_logit = true, .gates = true},
                              {v["forward output"], v["forward lse"]},
                              {v["dq"], v["dk"], v["dv"], v["dbias"], v["dsink_logit"], v["dgates"]});
       },
       kOptions.size()},
      {"attend_backward", kInputs + upstream,
       [](Context& c, const Views& v) {
         attend_backward(c, v["q"], v["k"], v["v"], {}, {v["doutput"], v["dlse"], v["dweights"]}, {},
                         {v["forward output"], v["forward lse"]});
       },
       kInputs.size()},
  };
  expect_kept_messages("attention_backward.txt", SpoiltCalls::messages_of({std::begin(calls), std::end(calls)}));
}

TEST(Refusals, TheOthers) {
  const std::vector<Given> product{{"x", {T, D}}, {"weight", {H, D}}};
  const std::vector<Given> turned{
      {"x", {B, H, T, D}}, {"positions", {B, T}, DType::i32, {1}}, {"factors", {D / 2}, DType::f32, {1}}};
  const auto rotary = [](const Views& v) { return Rotary{.factors = v["factors"]}; };
  const auto cache = [](Context& c) {
    return KvCache(c, {.batch = B, .kv_heads = G, .capacity = S, .head_dim = D, .value_dim = E});
  };
  const Call calls[] = {
      {"linear_into", product + std::vector<Given>{{"bias", {H}}, {"y", {T, H}}},
       [](Context& c, const Views& v) { linear_into(c, v["x"], v["weight"], v["bias"], v["y"]); }},
      {"linear_into with extras",
       product + std::vector<Given>{{"bias", {H}}, {"y", {T, H}}, {"plus", {T, H}}, {"before_gelu", {T, H}}},
       [](Context& c, const Views& v) {
         ops::linear_into(c, v["x"], v["weight"], v["bias"], v["y"],
                          {.plus = v["plus"], .before_gelu = v["before_gelu"]});
       }},
      {"linear", product + std::vector<Given>{{"bias", {H}}},
       [](Context& c, const Views& v) { linear(c, v["x"], v["weight"], v["bias"]); }},
      {"linear_backward_into",
       product + std::vector<Given>{{"dy", {T, H}}, {"dx", {T, D}}, {"dweight", {H, D}}, {"dbias", {H}}},
       [](Context& c, const Views& v) {
         linear_backward_into(c, v["x"], v["weight"], v["dy"], {v["dx"], v["dweight"], v["dbias"]});
       }},
      {"linear_backward", product + std::vector<Given>{{"dy", {T, H}}},
       [](Context& c, const Views& v) { linear_backward(c, v["x"], v["weight"], v["dy"]); }},
      {"rotate_into", turned + std::vector<Given>{{"y", {B, H, T, D}}},
       [&](Context& c, const Views& v) { rotate_into(c, v["x"], rotary(v), v["positions"], v["y"]); }},
      {"rotate", turned, [&](Context& c, const Views& v) { rotate(c, v["x"], rotary(v), v["positions"]); }},
      {"rotate_backward_into", turned + std::vector<Given>{{"y", {B, H, T, D}}},
       [&](Context& c, const Views& v) { rotate_backward_into(c, v["x"], rotary(v), v["positions"], v["y"]); }},
      {"rotate_backward", turned,
       [&](Context& c, const Views& v) { rotate_backward(c, v["x"], rotary(v), v["positions"]); }},
      {"append",
       {{"k", {B, G, T, D}}, {"v", {B, G, T, E}}},
       [&](Context& c, const Views& v) { cache(c).append(c, v["k"], v["v"]); }},
      {"append to f16",
       {{"k", {B, G, T, D}, DType::f16}, {"v", {B, G, T, E}, DType::f16}},
       [](Context& c, const Views& v) {
         KvCache(c, {.batch = B, .kv_heads = G, .capacity = S, .head_dim = D, .value_dim = E}, DType::f16)
             .append(c, v["k"], v["v"]);
       }},
      {"set_key_start",
       {{"start", {B}, DType::i32, {1}}},
       [&](Context& c, const Views& v) { cache(c).set_key_start(c, v["start"]); }},
      {"copy", {{"from", {T, D}}, {"to", {T, D}}}, [](Context& c, const Views& v) { copy(c, v["from"], v["to"]); }},
      {"merge_statistics",
       {{"into", {B, H, kLightStatistics}}, {"more", {B, H, kLightStatistics}}},
       [](Context&, const Views& v) { merge_statistics(v["into"], v["more"]); }},
  };
  expect_kept_messages("others.txt", SpoiltCalls::messages_of({std::begin(calls), std::end(calls)}));
}

// Parameters of a layer under names of their own, with biases and norms.
struct Layer {
  MultiHeadShape shape;
  std::vector<Given> inputs, parameters;

  MultiHeadViews views(const Views& v) const {
    return {v["in_proj_weight"],  v["q_proj_weight"], v["k_proj_weight"], v["v_proj_weight"], v["in_proj_bias"],
            v["out_proj_weight"], v["out_proj_bias"], v["q_norm_weight"], v["k_norm_weight"]};
  }
};

// Its heads are H by 2 columns, its key/value heads G.
constexpr std::int64_t kWidth = 9, kKeyWidth = 10, kValueWidth = 11, kDim = 2, Q = H * kDim, KV = G * kDim;

std::vector<Layer> layers() {
  const std::vector<Given> common{{"in_proj_bias", {Q + 2 * KV}},
                                  {"out_proj_weight", {kWidth, Q}},
                                  {"out_proj_bias", {kWidth}},
                                  {"q_norm_weight", {kDim}},
                                  {"k_norm_weight", {kDim}}};
  MultiHeadShape own{.width = kWidth, .heads = H, .kv_heads = G, .head_dim = kDim, .bias = true, .qk_norm = true};
  MultiHeadShape cross = own;
  cross.key_width = kKeyWidth;
  cross.value_width = kValueWidth;
  return {
      {own, {{"query", {B, T, kWidth}}}, std::vector<Given>{{"in_proj_weight", {Q + 2 * KV, kWidth}}} + common},
      {cross,
       {{"query", {B, T, kWidth}}, {"key", {B, S, kKeyWidth}}, {"value", {B, S, kValueWidth}}},
       std::vector<Given>{
           {"q_proj_weight", {Q, kWidth}}, {"k_proj_weight", {KV, kKeyWidth}}, {"v_proj_weight", {KV, kValueWidth}}} +
           common}};
}

TEST(Refusals, Layer) {
  std::vector<Call> calls;
  for (const Layer& layer : layers()) {
    const bool self = layer.inputs.size() == 1;
    const std::int64_t keys = self ? T : S;
    const std::vector<Given> positions{{"query_positions", {B, T}, DType::i32, {1}},
                                       {"key_positions", {B, keys}, DType::i32, {1}}};
    const auto options = [](const Views& v) {
      return MultiHeadOptions{
          .rotary = Rotary{}, .query_positions = v["query_positions"], .key_positions = v["key_positions"]};
    };
    const auto inputs = [](const Views& v) { return MultiHeadInputs{v["query"], v["key"], v["value"]}; };
    calls.push_back(
        {self ? "multihead" : "multihead, widths of their own", layer.inputs + layer.parameters + positions,
         [=](Context& c, const Views& v) { multihead(c, layer.shape, layer.views(v), inputs(v), options(v)); }});
    if (self) {
      calls.push_back({"multihead onto a residual",
                       layer.inputs + layer.parameters +
                           std::vector<Given>{{"residual", {B, T, kWidth}}, {"residual's bias", {kWidth}}},
                       [=](Context& c, const Views& v) {
                         MultiHeadResults results;
                         ops::multihead(c, layer.shape, layer.views(v), {}, inputs(v), {}, {},
                                        {v["residual"], v["residual's bias"]}, results);
                       },
                       layer.inputs.size() + layer.parameters.size()});
    }
    const std::vector<Given> forward{{"forward heads", {B, T, Q}, DType::f32, {0}, true},
                                     {"forward lse", {B, H, T}, DType::f32, {0}, true},
                                     {"forward q", {B, H, T, kDim}},
                                     {"forward k", {B, G, keys, kDim}},
                                     {"forward v", {B, G, keys, kDim}},
                                     {"doutput", {B, T, kWidth}},
                                     {"dlse", {B, H, T}},
                                     {"dweights", {B, H, T, keys}}};
    calls.push_back({self ? "multihead_backward" : "multihead_backward, widths of their own",
                     layer.inputs + layer.parameters + forward,
                     [=](Context& c, const Views& v) {
                       MultiHeadResults results;
                       results.heads = v.owned("forward heads");
                       results.lse = v.owned("forward lse");
                       results.projections.q = v["forward q"];
                       results.projections.k = v["forward k"];
                       results.projections.v = v["forward v"];
                       std::vector<Dims> buffers{{B, T, self ? Q + 2 * KV : Q}};
                       if (!self) buffers.insert(buffers.end(), {{B, keys, KV}, {B, keys, KV}});
                       buffers.insert(buffers.end(), {{B, T, Q}, {B, keys, KV}, {B * T * H, 2}, {B * keys * G, 2}});
                       for (const Dims& buffer : buffers) {
                         results.projections.buffers.push_back(Tensor::zeros(buffer, DType::f32));
                       }
                       multihead_backward(c, layer.shape, layer.views(v), inputs(v), {}, results,
                                          {v["doutput"], v["dlse"], v["dweights"]});
                     },
                     layer.inputs.size() + layer.parameters.size()});
  }
  calls.push_back({"from_heads",
                   {{"query_weight", {D, E}, DType::f32, {0}, true},
                    {"key_weight", {D, E}, DType::f32, {0}, true},
                    {"value_weight", {D, E}, DType::f32, {0}, true},
                    {"query_bias", {D}, DType::f32, {0}, true},
                    {"key_bias", {D}, DType::f32, {0}, true},
                    {"value_bias", {D}, DType::f32, {0}, true},
                    {"out_proj_weight", {E, D}},
                    {"out_proj_bias", {E}}},
                   [](Context&, const Views& v) {
                     std::vector<SingleHeadAttention> heads(1);
                     heads[0] = {E,
                                 D,
                                 v.owned("query_weight"),
                                 v.owned("key_weight"),
                                 v.owned("value_weight"),
                                 v.owned("query_bias"),
                                 v.owned("key_bias"),
                                 v.owned("value_bias")};
                     MultiHeadAttention::from_heads(heads, v["out_proj_weight"], v["out_proj_bias"]);
                   }});
  calls.push_back({"a single head", {{"x", {B, T, E}}}, [](Context& c, const Views& v) {
                     MultiHeadAttention({.width = E, .heads = 2}).to_heads()[0].forward(c, v["x"]);
                   }});
  expect_kept_messages("layer.txt", SpoiltCalls::messages_of(calls));
}

TEST(Refusals, AResidualIsNotDropped) {
  Context context(1);
  const MultiHeadShape shape{.width = 4, .heads = 2, .bias = false};
  const Tensor x = Tensor::zeros({1, 3, 4}, DType::f32), in = Tensor::zeros({12, 4}, DType::f32),
               out = Tensor::zeros({4, 4}, DType::f32), stream = Tensor::zeros({1, 3, 4}, DType::f32);
  MultiHeadViews views;
  views.in_proj_weight = in;
  views.out_proj_weight = out;
  const auto with = [&](double p) {
    MultiHeadResults results;
    ops::multihead(context, shape, views, {}, {x}, {.output_dropout = {.p = p, .seed = 1}}, {}, {stream, {}}, results);
  };
  EXPECT_NO_THROW(with(0));
  EXPECT_THROW(with(0.5), Error);
}

// Dropout of a layer's output counts its columns from 0, whatever part of a call it is.
TEST(Refusals, OriginsOfOutputDropoutHaveNoHeadAndNoKey) {
  Context context(1);
  const Tensor x = Tensor::zeros({1, 3, 4}, DType::f32), in = Tensor::zeros({12, 4}, DType::f32),
               out = Tensor::zeros({4, 4}, DType::f32);
  MultiHeadViews views;
  views.in_proj_weight = in;
  views.out_proj_weight = out;
  const auto with = [&](const Origin& origin) {
    MultiHeadResults results;
    ops::multihead(context, {.width = 4, .heads = 2, .bias = false}, views, {}, {x},
                   {.output_dropout = {.p = 0.5, .seed = 1, .origin = origin}}, {}, {}, results);
  };
  EXPECT_NO_THROW(with({.sequence = 3, .row = 7}));
  EXPECT_THROW(with({.head = 1}), Error);
  EXPECT_THROW(with({.key = 1}), Error);
}

}  // namespace
}  // namespace polyhead::test
