#include "cli/bench_ops.h"

#include <algorithm>
#include <random>

#include "polyhead/layer.h"
#include "polyhead/linear.h"

namespace polyhead::cli {
namespace {

Tensor random_tensor(const Dims& shape, DType dtype, std::uint64_t seed) {
  Tensor tensor = Tensor::empty(shape, dtype);
  std::mt19937_64 bits(seed);
  const auto fill = [&]<class T>(T* data) {
    std::generate_n(data, count_of(shape), [&] {
      return T(static_cast<float>(bits() >> 40) * 0x1p-23f - 1);  // uniform in [-1, 1)
    });
  };
  if (dtype == DType::f16)
    fill(tensor.as<float16>());
  else if (dtype == DType::bf16)
    fill(tensor.as<bfloat16>());
  else
    fill(tensor.as<float>());
  return tensor;
}

double pairs_of(const BenchShape& s, bool causal) {
  const auto heads = static_cast<double>(s.batch * s.heads), tokens = static_cast<double>(s.tokens);
  return heads * tokens * (causal ? (tokens + 1) / 2 : tokens);
}
double attention_flops(const BenchShape& s, bool causal) {
  const auto heads = static_cast<double>(s.batch * s.heads), tokens = static_cast<double>(s.tokens);
  return 4 * heads * tokens * tokens * static_cast<double>(s.dim) / (causal ? 2 : 1);
}
double projection_flops(const BenchShape& s, double columns) {
  const auto width = static_cast<double>(s.heads * s.dim);
  return 2 * static_cast<double>(s.batch * s.tokens) * width * columns * width;
}

struct Attention4d {
  Tensor q, k, v, output, statistics, lse, dout, dq, dk, dv;
  AttentionOptions options;
  AttentionWants wants;
  AttentionOutputs outputs;

  Attention4d(const BenchShape& s, std::int64_t queries, const BenchSettings& settings)
      : q(random_tensor({s.batch, s.heads, queries, s.dim}, settings.dtype, 1)),
        k(random_tensor({s.batch, s.heads, s.tokens, s.dim}, settings.dtype, 2)),
        v(random_tensor(k.shape(), settings.dtype, 3)),
        output(Tensor::zeros(q.shape(), settings.dtype)) {
    options.causal = settings.causal;
    options.align = Align::bottom_right;
    outputs.output = output;
    wants.statistics = settings.statistics;
    if (settings.statistics == StatisticsSet::none) return;
    const bool full = settings.statistics == StatisticsSet::full;
    statistics = Tensor::zeros({s.batch, s.heads, full ? kFullStatistics : kLightStatistics}, DType::f32);
    outputs.statistics = statistics;
  }
  void forward(Context& context) const { attend_into(context, q, k, v, options, wants, outputs); }
};

Trial attention(const BenchShape& s, const BenchSettings& settings) {
  auto a = std::make_shared<Attention4d>(s, s.tokens, settings);
  return {[a](Context& context) { a->forward(context); }, attention_flops(s, settings.causal),
          pairs_of(s, settings.causal)};
}

Trial decode(const BenchShape& s, const BenchSettings& settings) {
  auto a = std::make_shared<Attention4d>(s, 1, settings);
  const auto rows = static_cast<double>(s.tokens);
  return {[a](Context& context) { a->forward(context); }, attention_flops(s, false) / rows, pairs_of(s, false) / rows};
}

Trial backward(const BenchShape& s, const BenchSettings& settings) {
  auto a = std::make_shared<Attention4d>(s, s.tokens, settings);
  a->dout = random_tensor(a->q.shape(), settings.dtype, 4);
  a->lse = Tensor::zeros({s.batch, s.heads, s.tokens}, DType::f32);
  for (Tensor* gradient : {&a->dq, &a->dk, &a->dv}) *gradient = Tensor::zeros(a->q.shape(), settings.dtype);
  Context context;
  attend_into(context, a->q, a->k, a->v, a->options, {.lse = true}, {.output = a->output, .lse = a->lse});
  return {[a](Context& c) {
            attend_backward_into(c, a->q, a->k, a->v, a->options, {.output = a->dout}, {}, {a->output, a->lse},
                                 {.dq = a->dq, .dk = a->dk, .dv = a->dv});
          },
          2.5 * attention_flops(s, settings.causal), pairs_of(s, settings.causal)};
}

struct Layer {
  MultiHeadAttention layer;
  Tensor x, dy;
  MultiHeadOptions options;
  MultiHeadWants wants;
  MultiHeadResults results;
  MultiHeadGradients gradients;

  Layer(const BenchShape& s, const BenchSettings& settings)
      : layer({.width = s.heads * s.dim, .heads = s.heads}, settings.dtype, 1),
        x(random_tensor({s.batch, s.tokens, s.heads * s.dim}, settings.dtype, 1)),
        dy(random_tensor(x.shape(), settings.dtype, 2)) {
    options.attention.causal = settings.causal;
    wants.attention.statistics = settings.statistics;
  }
  void forward(Context& context) { layer.forward_into(context, {x}, options, wants, results); }
};

Trial layer(const BenchShape& s, const BenchSettings& settings) {
  auto l = std::make_shared<Layer>(s, settings);
  return {[l](Context& context) { l->forward(context); }, projection_flops(s, 4) + attention_flops(s, settings.causal),
          pairs_of(s, settings.causal)};
}

Trial training(const BenchShape& s, const BenchSettings& settings) {
  auto l = std::make_shared<Layer>(s, settings);
  l->wants = MultiHeadWants::training();
  l->wants.attention.statistics = settings.statistics;
  return {[l](Context& context) {
            l->forward(context);
            multihead_backward_into(context, l->layer.shape(), l->layer.parameters(), {l->x}, l->options, l->results,
                                    {.output = l->dy}, {}, l->gradients);
          },
          3 * projection_flops(s, 4) + 3.5 * attention_flops(s, settings.causal), pairs_of(s, settings.causal)};
}

Trial projection(const BenchShape& s, const BenchSettings& settings) {
  struct Linear {
    Tensor x, weight, bias, y;
  };
  const std::int64_t width = s.heads * s.dim;
  auto l = std::make_shared<Linear>();
  l->x = random_tensor({s.batch * s.tokens, width}, settings.dtype, 1);
  l->weight = random_tensor({3 * width, width}, settings.dtype, 2);
  l->bias = random_tensor({3 * width}, settings.dtype, 3);
  l->y = Tensor::zeros({s.batch * s.tokens, 3 * width}, settings.dtype);
  return {[l](Context& context) { linear_into(context, l->x, l->weight, l->bias, l->y); }, projection_flops(s, 3), 0};
}

}  // namespace

const std::vector<BenchOp>& bench_ops() {
  static const std::vector<BenchOp> ops{
      {"attention", "attend", true, true, false, attention},
      {"backward", "attend_backward, given output and lse", false, true, false, backward},
      {"decode", "attend of one query over T keys", false, false, false, decode},
      {"layer", "multihead: projections, attention, W_O", true, true, true, layer},
      {"training", "multihead and multihead_backward", true, true, true, training},
      {"projection", "linear, width H*D to 3*H*D", false, false, true, projection},
  };
  return ops;
}

}  // namespace polyhead::cli
