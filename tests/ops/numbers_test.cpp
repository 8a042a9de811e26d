// Numbers and combinations at their limits and one step beyond, for every public op; what is said is held to a file.
#include <cmath>
#include <limits>

#include "ops/spoilt.h"
#include "polyhead/polyhead.h"

namespace polyhead::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kPower31 = std::int64_t{1} << 31, B = 2, H = 4, G = 2, T = 6, S = 5, D = 8, E = 3;

Tensor numbers(const Dims& shape, const std::vector<std::int32_t>& values) {
  Tensor tensor = Tensor::zeros(shape, DType::i32);
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  return tensor;
}

class Numbers : public ::testing::Test {
 protected:
  Context context_{1};
  Said said_;
  const Tensor q_ = Tensor::zeros({B, H, T, D}, DType::f32), k_ = Tensor::zeros({B, G, S, D}, DType::f32),
               v_ = Tensor::zeros({B, G, S, E}, DType::f32);

  void attend_with(const std::string& what, const AttentionOptions& options, const AttentionWants& wants = {}) {
    said_(what, [&] { attend(context_, q_, k_, v_, options, wants); });
  }
};

TEST_F(Numbers, OfAttention) {
  const double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
  for (const double x : {0.0, -1.0, least, least / 2, most, 2 * most, kNan, kInfinite}) {
    attend_with("scale " + std::to_string(x), {.scale = x});
    attend_with("softcap " + std::to_string(x), {.softcap = x});
    said_("f64, scale " + std::to_string(x), [&] {
      const Tensor wide = Tensor::zeros({1, 1, 1, 1}, DType::f64);
      attend(context_, wide, wide, wide, {.scale = x});
    });
  }
  for (const double p : {0.0, -0.001, 0.999, 1.0, kNan}) {
    attend_with("dropout " + std::to_string(p), {.dropout = {.p = p}});
  }
  for (const std::int64_t reach : {-1, 0}) {
    const std::string n = std::to_string(reach);
    attend_with("left " + n, {.align = Align::top_left, .window = {.left = reach}});
    attend_with("right " + n, {.align = Align::top_left, .window = {.right = reach}});
    attend_with("always_first " + n, {.align = Align::top_left, .window = {.left = 1, .always_first = reach}});
  }
  for (const std::int64_t position : {-kPower31, 1 - kPower31, kPower31 - 1, kPower31}) {
    attend_with("first_position " + std::to_string(position), {.first_position = position});
  }
  // Where queries stand is to be said once, and only if something depends on it.
  const Tensor positions = numbers({B}, {0, 1}), slopes = Tensor::zeros({H}, DType::f32);
  const ConstTensorView each = positions;
  attend_with("align and first_position", {.align = Align::top_left, .first_position = 0});
  attend_with("align and first_positions", {.align = Align::bottom_right, .first_positions = each});
  attend_with("first_position and first_positions", {.first_position = 0, .first_positions = each});
  attend_with("nothing", {});
  attend_with("causal", {.causal = true});
  attend_with("left", {.window = {.left = 1}});
  attend_with("right", {.window = {.right = 1}});
  attend_with("alibi", {.alibi = slopes});
  attend_with("statistics", {}, {.statistics = StatisticsSet::light});
  attend_with("row_statistics", {}, {.row_statistics = true});
  attend_with("causal, first_position", {.first_position = 0, .causal = true});
  attend_with("causal, first_positions", {.first_positions = each, .causal = true});
  attend_with("causal, align", {.align = Align::bottom_right, .causal = true});
  const Tensor lengths = numbers({B}, {2, 3});
  said_("causal, as many keys as queries", [&] { attend(context_, q_, q_, q_, {.causal = true}); });
  said_("causal, key_lengths", [&] { attend(context_, q_, q_, q_, {.causal = true, .key_lengths = lengths}); });
  said_("causal, key_start", [&] { attend(context_, q_, q_, q_, {.causal = true, .key_start = lengths}); });
  said_("causal, query_lengths", [&] { attend(context_, q_, q_, q_, {.causal = true, .query_lengths = lengths}); });
  expect_kept_messages("numbers.txt", said_.text());
}

TEST_F(Numbers, OfLengthsAndPacking) {
  for (const std::int32_t n : {-1, 0, 5, 6, 7}) {
    const Tensor second = numbers({B}, {1, n}), zero = numbers({B}, {0, 0});
    const std::string name = std::to_string(n);
    attend_with("key_lengths " + name, {.key_lengths = second});
    attend_with("query_lengths " + name, {.query_lengths = second});
    attend_with("key_start " + name, {.key_start = second});
    attend_with("first_positions " + name, {.first_positions = second});
  }
  const Tensor three = numbers({B}, {3, 3}), four = numbers({B}, {0, 4});
  attend_with("key_start within key_lengths", {.key_lengths = three, .key_start = three});
  attend_with("key_start beyond key_lengths", {.key_lengths = three, .key_start = four});
  const ConstTensorView q = q_.view().slice(0, 0, 1), k = k_.view().slice(0, 0, 1), v = v_.view().slice(0, 0, 1);
  const auto packed = [&](const std::string& what, AttentionOptions options, const std::vector<std::int32_t>& queries,
                          const std::vector<std::int32_t>& keys) {
    const Tensor cu_q = numbers({static_cast<std::int64_t>(queries.size())}, queries),
                 cu_k = numbers({static_cast<std::int64_t>(keys.size())}, keys);
    options.cu_q = cu_q;
    options.cu_k = cu_k;
    said_("packed, " + what, [&] { attend(context_, q, k, v, options); });
  };
  packed("as it should be", {}, {0, 2, 6}, {0, 5, 5});
  packed("one sequence more of keys", {}, {0, 6}, {0, 3, 5});
  packed("one sequence more of queries", {}, {0, 2, 6}, {0, 5});
  packed("not from 0", {}, {1, 6}, {0, 5});
  packed("keys not from 0", {}, {0, 6}, {1, 5});
  packed("not to the end", {}, {0, 5}, {0, 5});
  packed("keys not to the end", {}, {0, 6}, {0, 4});
  packed("beyond the end", {}, {0, 7}, {0, 5});
  packed("falling", {}, {0, 4, 3, 6}, {0, 1, 2, 5});
  packed("keys falling", {}, {0, 1, 3, 6}, {0, 3, 2, 5});
  packed("no sequence", {}, {0}, {0});
  packed("without offsets", {}, {}, {});
  const Tensor one = numbers({1}, {1}), keep = Tensor::zeros({T, S}, DType::boolean),
               bias = Tensor::zeros({T, S}, DType::f32);
  packed("keep", {.keep = keep}, {0, 6}, {0, 5});
  packed("bias", {.bias = bias}, {0, 6}, {0, 5});
  packed("key_lengths", {.key_lengths = one}, {0, 6}, {0, 5});
  packed("key_start", {.key_start = one}, {0, 6}, {0, 5});
  packed("query_lengths", {.query_lengths = one}, {0, 6}, {0, 5});
  packed("causal", {.causal = true}, {0, 6}, {0, 5});
  const Tensor ends = numbers({2}, {0, 6});
  attend_with("cu_q alone", {.cu_q = ends});
  attend_with("cu_k alone", {.cu_k = ends});
  attend_with("packed, a batch of two", {.cu_q = ends, .cu_k = ends});
  expect_kept_messages("lengths.txt", said_.text());
}

TEST_F(Numbers, OfWants) {
  const AttentionOptions placed{.align = Align::top_left};
  attend_with("row_statistics without a set", placed, {.row_statistics = true});
  for (const std::vector<std::int32_t>& chosen : {std::vector<std::int32_t>{-1}, {0}, {3}, {4}, {5}, {6}, {1, 1}}) {
    std::string name;
    for (const std::int32_t one : chosen) name += " " + std::to_string(one);
    attend_with("weight_heads" + name, {}, {.weights = true, .weight_heads = chosen});
    attend_with("weight_rows" + name, {}, {.weight_rows = chosen, .logits = LogitStage::scaled});
  }
  attend_with("weight_heads alone", {}, {.weight_heads = {0}});
  attend_with("weight_rows alone", {}, {.weight_rows = {0}});
  const Tensor marked = Tensor::zeros({B, S}, DType::boolean);
  attend_with("marked_keys, light", placed, {.statistics = StatisticsSet::light, .marked_keys = marked});
  for (const std::int32_t n : {-2, -1, 0, 4, 5}) {
    std::vector<std::int32_t> all(B * T * 4, -1);
    all.back() = n;
    const Tensor targets = numbers({B, T, 4}, all);
    attend_with("target_keys " + std::to_string(n), placed,
                {.statistics = StatisticsSet::full, .target_keys = targets});
    attend_with("target_keys, light", placed, {.statistics = StatisticsSet::light, .target_keys = targets});
  }
  // Outputs that are not among the wants, each of them.
  Tensor output = Tensor::zeros({B, H, T, E}, DType::f32), other = Tensor::zeros({B, H, T}, DType::f32);
  for (TensorView AttentionOutputs::*member :
       {&AttentionOutputs::lse, &AttentionOutputs::weights, &AttentionOutputs::logits, &AttentionOutputs::statistics,
        &AttentionOutputs::row_statistics}) {
    AttentionOutputs outputs{.output = output};
    outputs.*member = other;
    said_("not wanted", [&] { attend_into(context_, q_, k_, v_, {}, {}, outputs); });
  }
  Tensor dq = Tensor::zeros({B, H, T, D}, DType::f32), dk = Tensor::zeros({B, G, S, D}, DType::f32),
         dv = Tensor::zeros({B, G, S, E}, DType::f32);
  for (TensorView AttentionGradientOutputs::*member :
       {&AttentionGradientOutputs::dbias, &AttentionGradientOutputs::dsink_logit, &AttentionGradientOutputs::dgates}) {
    AttentionGradientOutputs outputs{.dq = dq, .dk = dk, .dv = dv};
    outputs.*member = other;
    said_("gradient not wanted",
          [&] { attend_backward_into(context_, q_, k_, v_, {}, {.output = output}, {}, {}, outputs); });
  }
  for (const GradientWants& wants : {GradientWants{.bias = true}, {.sink_logit = true}, {.gates = true}}) {
    said_("a gradient of what is not there",
          [&] { attend_backward(context_, q_, k_, v_, {}, {.output = output}, wants); });
  }
  expect_kept_messages("wants.txt", said_.text());
}

TEST_F(Numbers, OfRotaryAndCache) {
  const auto turned = [&](const std::string& what, const Rotary& rotary) {
    said_("rotary " + what, [&] { rotate(context_, q_, rotary); });
  };
  for (const std::int64_t dim : {-2, 0, 2, 3, 8, 10}) turned("dim " + std::to_string(dim), {.dim = dim});
  for (const double x : {kNan, kInfinite, -1.0, 0.0, 0.5, 1.0, 4.0, 5.0}) {
    turned("base " + std::to_string(x), {.base = x});
    turned("factor " + std::to_string(x), {.scaling = {.factor = x}});
    turned("slow " + std::to_string(x), {.scaling = {.slow = x}});
    turned("fast " + std::to_string(x), {.scaling = {.fast = x}});
  }
  for (const std::int64_t n : {-1, 0, 1}) turned("context " + std::to_string(n), {.scaling = {.context = n}});

  for (std::int64_t KvCacheSizes::*size : {&KvCacheSizes::batch, &KvCacheSizes::kv_heads, &KvCacheSizes::capacity,
                                           &KvCacheSizes::head_dim, &KvCacheSizes::value_dim}) {
    for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{0}, kPower31}) {
      KvCacheSizes sizes{.batch = 1, .kv_heads = 2, .capacity = 3, .head_dim = 4, .value_dim = 5};
      sizes.*size = n;
      if (n == kPower31) (size == &KvCacheSizes::capacity ? sizes.batch : sizes.capacity) = 0;
      said_("cache", [&] { KvCache(context_, sizes); });
    }
  }
  said_("cache of i32", [&] { KvCache(context_, {.capacity = 3, .head_dim = 4, .value_dim = 5}, DType::i32); });
  KvCache cache(context_, {.batch = B, .kv_heads = G, .capacity = 2 * S, .head_dim = D, .value_dim = E});
  cache.append(context_, k_, v_);
  for (const std::int32_t n : {-1, 0, 10, 11}) {
    const Tensor start = numbers({B}, {0, n});
    said_("set_key_start " + std::to_string(n), [&] { cache.set_key_start(context_, start); });
  }
  for (const std::int64_t n : {-1, 6, 5}) said_("rollback " + std::to_string(n), [&] { cache.rollback(n); });
  for (int n = 0; n < 3; ++n) said_("append", [&] { cache.append(context_, k_, v_); });
  const Tensor two = numbers({B}, {1, 1}), ends = numbers({2}, {0, 6});
  const auto over = [&](const std::string& what, const AttentionOptions& options) {
    said_("over a cache, " + what, [&] { attend(context_, q_, cache, options); });
  };
  over("align top_left", {.align = Align::top_left});
  over("align bottom_right", {.align = Align::bottom_right, .causal = true});
  over("causal", {.causal = true});
  over("first_position", {.first_position = 0});
  over("first_positions", {.first_positions = two});
  over("key_lengths", {.key_lengths = two});
  over("key_start", {.key_start = two});
  over("query_lengths", {.query_lengths = two});
  over("cu_q", {.cu_q = ends});
  over("cu_k", {.cu_k = ends});
  expect_kept_messages("rotary_and_cache.txt", said_.text());
}

TEST_F(Numbers, OfLayers) {
  for (std::int64_t MultiHeadShape::*size :
       {&MultiHeadShape::width, &MultiHeadShape::heads, &MultiHeadShape::kv_heads, &MultiHeadShape::head_dim,
        &MultiHeadShape::key_width, &MultiHeadShape::value_width}) {
    for (const std::int64_t n :
         {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, kPower31 - 1, kPower31}) {
      MultiHeadShape shape{.width = 8, .heads = 4, .kv_heads = 2, .head_dim = 2, .key_width = 8, .value_width = 8};
      shape.*size = n;
      said_("layer", [&] { shape.resolved(); });
      shape.head_dim = size == &MultiHeadShape::head_dim ? n : 0;
      said_("layer, head_dim left out", [&] { shape.resolved(); });
    }
  }
  said_("layer of i32", [&] { MultiHeadAttention({.width = 8, .heads = 2}, DType::i32); });
  const MultiHeadAttention plain({.width = 8, .heads = 4}), normed({.width = 8, .heads = 4, .qk_norm = true}),
      grouped({.width = 8, .heads = 4, .kv_heads = 2}), cross({.width = 8, .heads = 4, .key_width = 6}),
      other({.width = 8, .heads = 4, .value_width = 6}), bare({.width = 8, .heads = 4, .bias = false});
  for (const MultiHeadAttention* layer : {&plain, &normed, &grouped, &cross, &other, &bare}) {
    said_("to_heads", [&] { layer->to_heads(); });
  }
  said_("from no heads", [&] { MultiHeadAttention::from_heads({}, {}); });
  const Tensor x = Tensor::zeros({B, T, 8}, DType::f32), half = Tensor::zeros({B, T, 8}, DType::f16);
  const Tensor places = Tensor::zeros({T}, DType::i32);
  const auto forward = [&](const std::string& what, const MultiHeadAttention& layer, const MultiHeadInputs& inputs,
                           const MultiHeadOptions& options = {}) {
    said_(what, [&] { layer.forward(context_, inputs, options); });
  };
  for (const double x_ : {0.0, 0.999, 1.0, -0.001, kNan}) {
    forward("output_dropout " + std::to_string(x_), plain, {.query = x}, {.output_dropout = {.p = x_}});
    forward("qk_norm_epsilon " + std::to_string(x_), normed, {.query = x}, {.qk_norm_epsilon = x_});
  }
  forward("no norm, no epsilon", plain, {.query = x}, {.qk_norm_epsilon = 0});
  forward("value without key", plain, {.query = x, .value = x});
  forward("query_positions without rotary", plain, {.query = x}, {.query_positions = places});
  forward("key_positions without rotary", plain, {.query = x}, {.key_positions = places});
  forward("f16 beside f32", plain, {.query = half});
  said_("qk_norm of f16", [&] {
    MultiHeadAttention({.width = 8, .heads = 4, .qk_norm = true}, DType::f16).forward(context_, {.query = half});
  });
  // Parameters that the shape does not have.
  const auto given = [&](const std::string& what, const MultiHeadAttention& layer,
                         ConstTensorView MultiHeadViews::*member) {
    MultiHeadViews views = layer.parameters();
    views.*member = x;
    const Tensor key = Tensor::zeros({B, T, layer.shape().key_width}, DType::f32),
                 value = Tensor::zeros({B, T, layer.shape().value_width}, DType::f32);
    said_(what, [&] { multihead(context_, layer.shape(), views, {x, key, value}); });
  };
  given("q_proj_weight", plain, &MultiHeadViews::q_proj_weight);
  given("k_proj_weight", plain, &MultiHeadViews::k_proj_weight);
  given("v_proj_weight", plain, &MultiHeadViews::v_proj_weight);
  given("q_norm_weight", plain, &MultiHeadViews::q_norm_weight);
  given("k_norm_weight", plain, &MultiHeadViews::k_norm_weight);
  given("in_proj_bias", bare, &MultiHeadViews::in_proj_bias);
  given("out_proj_bias", bare, &MultiHeadViews::out_proj_bias);
  given("in_proj_weight", cross, &MultiHeadViews::in_proj_weight);
  expect_kept_messages("layers.txt", said_.text());
}

}  // namespace
}  // namespace polyhead::test
