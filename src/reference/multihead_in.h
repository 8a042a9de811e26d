// The layer as the papers write it, in any number type: a product, the split into heads, attention, the merge, a
// product; and the backward pass. Results between two steps are stored in the type `between`.
#pragma once

#include <cmath>

#include "core/philox.h"
#include "polyhead/layer.h"
#include "reference/attention_in.h"
#include "reference/rotary.h"

namespace polyhead::reference {

// y [B,L,N] = x [B,L,K] W^T + b, for W [N,K] and b [N].
template <class Numbers>
void linear_in(const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& bias,
               const TensorView& y) {
  using Real = typename Numbers::Real;
  const Array<Real> in(x), w(weight), b(bias);
  Array<Real> out(y.shape(), 0);
  const std::int64_t K = weight.shape(1), N = weight.shape(0), rows = N == 0 ? 0 : y.count() / N;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < N; ++n) {
      Real sum = 0;
      for (std::int64_t k = 0; k < K; ++k) sum += in.values()[static_cast<std::size_t>(r * K + k)] * w(n, k);
      out.values()[static_cast<std::size_t>(r * N + n)] = b.present() ? sum + b(n) : sum;
    }
  }
  out.store_to(y);
}

// dx = dy W, dW = dy^T x, db = sum of dy; each added to what is there.
template <class Numbers>
void linear_backward_in(const ConstTensorView& x, const ConstTensorView& weight, const ConstTensorView& dy,
                        const TensorView& dx, const TensorView& dweight, const TensorView& dbias) {
  using Real = typename Numbers::Real;
  const Array<Real> in(x), w(weight), up(dy);
  Array<Real> to_x(dx), to_w(dweight), to_b(dbias);
  const std::int64_t K = weight.shape(1), N = weight.shape(0), rows = K == 0 ? 0 : x.count() / K;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t n = 0; n < N; ++n) {
      const Real d = up.values()[static_cast<std::size_t>(r * N + n)];
      if (to_b.present()) to_b(n) += d;
      for (std::int64_t k = 0; k < K; ++k) {
        to_x.values()[static_cast<std::size_t>(r * K + k)] += d * w(n, k);
        to_w(n, k) += d * in.values()[static_cast<std::size_t>(r * K + k)];
      }
    }
  }
  to_x.store_to(dx);
  to_w.store_to(dweight);
  if (to_b.present()) to_b.store_to(dbias);
}

// Dropout of the output: Philox with the counter (column/8, row, 2^32-1, batch).
inline void drop_output(const Dropout& dropout, const TensorView& y) {
  if (dropout.p == 0) return;
  Array<double> values(y);
  for (std::int64_t b = 0; b < y.shape(0); ++b) {
    for (std::int64_t t = 0; t < y.shape(1); ++t) {
      for (std::int64_t c = 0; c < y.shape(2); ++c) {
        const Philox::Words words = Philox::words(
            dropout.seed, {static_cast<std::uint32_t>(c / 8), static_cast<std::uint32_t>(dropout.origin.row + t),
                           0xffffffffu, static_cast<std::uint32_t>(dropout.origin.sequence + b)});
        const std::uint32_t bits = (words[static_cast<std::size_t>(c % 8 / 2)] >> (c % 2 * 16)) & 0xffffu;
        values(b, t, c) *= bits >= std::lround(65536 * dropout.p) ? 1 / (1 - dropout.p) : 0;
      }
    }
  }
  values.store_to(y);
}

// The layer with its parameters taken apart: W and b of q, k and v, whether they were packed or not.
struct LayerParts {
  MultiHeadShape shape;
  MultiHeadInputs inputs;              // all three
  ConstTensorView weight[3], bias[3];  // of q, k, v
  std::int64_t heads[3];

  LayerParts(const MultiHeadShape& given, const MultiHeadViews& p, const MultiHeadInputs& in)
      : shape(given.resolved()), inputs(in), heads{shape.heads, shape.kv_heads, shape.kv_heads} {
    if (!inputs.key.present()) inputs.key = inputs.query;
    if (!inputs.value.present()) inputs.value = inputs.key;
    const ConstTensorView own[] = {p.q_proj_weight, p.k_proj_weight, p.v_proj_weight};
    std::int64_t row = 0;
    for (int i = 0; i < 3; ++i) {
      const std::int64_t rows = heads[i] * shape.head_dim;
      weight[i] = p.in_proj_weight.present() ? p.in_proj_weight.slice(0, row, row + rows) : own[i];
      if (shape.bias) bias[i] = p.in_proj_bias.slice(0, row, row + rows);
      row += rows;
    }
  }
  ConstTensorView input(int i) const { return i == 0 ? inputs.query : i == 1 ? inputs.key : inputs.value; }
  // [B,L,n*D] as [B,n,L,D].
  template <class View>
  View split(const View& merged, int i) const {
    return merged.split(2, heads[i]).transpose(1, 2);
  }
};

// RMSNorm of the rows of x [B,n,L,D], one per head, in place. The backward pass turns dy into dx in place and adds to
// dgamma [D].
template <class Numbers>
void normalise_heads_in(const TensorView& x, const ConstTensorView& gamma, double epsilon) {
  using Real = typename Numbers::Real;
  Array<Real> in(x);
  const Array<Real> g(gamma);
  const std::int64_t D = x.shape(3);
  for (std::int64_t row = 0; row < x.count() / D; ++row) {
    Real* values = in.values().data() + row * D;
    Real square = 0;
    for (std::int64_t d = 0; d < D; ++d) square += values[d] * values[d] / static_cast<Real>(D);
    const Real rms = std::sqrt(square + static_cast<Real>(epsilon));
    for (std::int64_t d = 0; d < D; ++d) values[d] = values[d] / rms * g(d);
  }
  in.store_to(x);
}
template <class Numbers>
void normalise_heads_backward_in(const ConstTensorView& x, const ConstTensorView& gamma, double epsilon,
                                 const TensorView& dy, const TensorView& dgamma) {
  using Real = typename Numbers::Real;
  const Array<Real> in(x), g(gamma);
  Array<Real> d(dy), to_gamma(dgamma);
  const std::int64_t D = x.shape(3);
  for (std::int64_t row = 0; row < x.count() / D; ++row) {
    const Real* values = in.values().data() + row * D;
    Real* gradient = d.values().data() + row * D;
    Real square = 0, mean = 0;  // of x^2; of the gradient along x / rms
    for (std::int64_t c = 0; c < D; ++c) square += values[c] * values[c] / static_cast<Real>(D);
    const Real rms = std::sqrt(square + static_cast<Real>(epsilon));
    for (std::int64_t c = 0; c < D; ++c) {
      to_gamma(c) += gradient[c] * values[c] / rms;
      mean += gradient[c] * g(c) * values[c] / rms / static_cast<Real>(D);
    }
    for (std::int64_t c = 0; c < D; ++c) gradient[c] = (gradient[c] * g(c) - values[c] / rms * mean) / rms;
  }
  d.store_to(dy);
  to_gamma.store_to(dgamma);
}

struct LayerSteps {
  Tensor part[3];    // [B,L,n*D] q, k, v after norm and rotary
  Tensor before[2];  // q and k before the norm, if there is one
  Tensor heads, output;
};

template <class Numbers>
LayerSteps multihead_in(const MultiHeadShape& shape, const MultiHeadViews& parameters, const MultiHeadInputs& inputs,
                        const MultiHeadOptions& options, DType between) {
  const LayerParts layer(shape, parameters, inputs);
  LayerSteps steps;
  for (int i = 0; i < 3; ++i) {
    const ConstTensorView x = layer.input(i);
    steps.part[i] = Tensor::empty({x.shape(0), x.shape(1), layer.heads[i] * layer.shape.head_dim}, between);
    linear_in<Numbers>(x, layer.weight[i], layer.bias[i], steps.part[i]);
    const TensorView view = layer.split(steps.part[i].view(), i);
    if (shape.qk_norm && i < 2) {
      steps.before[i] = Tensor::empty(steps.part[i].shape(), between);
      Array<double>(steps.part[i].view()).store_to(steps.before[i]);
      normalise_heads_in<Numbers>(view, i == 0 ? parameters.q_norm_weight : parameters.k_norm_weight,
                                  options.qk_norm_epsilon);
    }
    if (options.rotary && i < 2) {
      rotate(view, *options.rotary, i == 0 ? options.query_positions : options.key_positions, view);
    }
  }
  const ConstTensorView& query = layer.inputs.query;
  steps.heads = Tensor::empty(steps.part[0].shape(), between);
  attend_in<Numbers>(layer.split(steps.part[0].view(), 0), layer.split(steps.part[1].view(), 1),
                     layer.split(steps.part[2].view(), 2), options.attention, {},
                     {.output = layer.split(steps.heads.view(), 0)});
  steps.output = Tensor::empty(query.shape(), between);
  linear_in<Numbers>(steps.heads, parameters.out_proj_weight, parameters.out_proj_bias, steps.output);
  drop_output(options.output_dropout, steps.output);
  return steps;
}

template <class Numbers>
MultiHeadGradients multihead_backward_in(const MultiHeadShape& shape, const MultiHeadViews& parameters,
                                         const MultiHeadInputs& inputs, const MultiHeadOptions& options,
                                         const UpstreamGradients& upstream, const GradientWants& wants, DType between) {
  const LayerParts layer(shape, parameters, inputs);
  const LayerSteps steps = multihead_in<Numbers>(shape, parameters, inputs, options, between);
  const auto zeros = [&](const ConstTensorView& like) {
    return like.present() ? Tensor::zeros(like.shape(), between) : Tensor();
  };
  MultiHeadGradients g;
  MultiHeadTensors& d = g.dparameters;
  for_each_parameter([&](const char*, ParameterKind, Tensor& made, const ConstTensorView& like) { made = zeros(like); },
                     d, parameters);
  g.dquery = zeros(inputs.query);
  g.dkey = zeros(inputs.key);
  g.dvalue = zeros(inputs.value);

  Tensor dy = zeros(upstream.output), dheads = zeros(steps.heads);
  Array<double>(upstream.output).store_to(dy);
  drop_output(options.output_dropout, dy);
  linear_backward_in<Numbers>(steps.heads, parameters.out_proj_weight, dy, dheads, d.out_proj_weight, d.out_proj_bias);

  Tensor dpart[3] = {zeros(steps.part[0]), zeros(steps.part[1]), zeros(steps.part[2])};
  const std::int64_t sequences = options.attention.cu_q.present() ? options.attention.cu_q.shape(0) - 1 : dy.shape()[0];
  if (wants.bias) g.dbias = zeros(options.attention.bias);
  if (wants.sink_logit) g.dsink_logit = zeros(options.attention.sink_logit);
  if (wants.gates) g.dgates = Tensor::zeros({sequences, layer.shape.heads}, between);
  attend_backward_in<Numbers>(layer.split(steps.part[0].view(), 0), layer.split(steps.part[1].view(), 1),
                              layer.split(steps.part[2].view(), 2), options.attention,
                              {layer.split(dheads.view(), 0), upstream.lse, upstream.weights}, wants, {},
                              {layer.split(dpart[0].view(), 0), layer.split(dpart[1].view(), 1),
                               layer.split(dpart[2].view(), 2), g.dbias, g.dsink_logit, g.dgates});

  Tensor* const own[] = {&d.q_proj_weight, &d.k_proj_weight, &d.v_proj_weight};
  Tensor* const dinput[] = {&g.dquery, g.dkey.present() ? &g.dkey : &g.dquery,
                            g.dvalue.present() ? &g.dvalue
                            : g.dkey.present() ? &g.dkey
                                               : &g.dquery};
  std::int64_t row = 0;
  for (int i = 0; i < 3; ++i) {
    const TensorView view = layer.split(dpart[i].view(), i);
    if (options.rotary && i < 2) {
      rotate_back(view, *options.rotary, i == 0 ? options.query_positions : options.key_positions, view);
    }
    if (shape.qk_norm && i < 2) {
      normalise_heads_backward_in<Numbers>(layer.split(steps.before[i].view(), i),
                                           i == 0 ? parameters.q_norm_weight : parameters.k_norm_weight,
                                           options.qk_norm_epsilon, view, i == 0 ? d.q_norm_weight : d.k_norm_weight);
    }
    const std::int64_t rows = layer.heads[i] * layer.shape.head_dim;
    const TensorView dweight =
        d.in_proj_weight.present() ? d.in_proj_weight.view().slice(0, row, row + rows) : own[i]->view();
    const TensorView dbias = d.in_proj_bias.present() ? d.in_proj_bias.view().slice(0, row, row + rows) : TensorView{};
    linear_backward_in<Numbers>(layer.input(i), layer.weight[i], dpart[i], *dinput[i], dweight, dbias);
    row += rows;
  }
  return g;
}

}  // namespace polyhead::reference
