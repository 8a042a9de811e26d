#include "train/optimiser.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace polyhead::train {
namespace {

constexpr double kClipEpsilon = 1e-6;  // as in torch, so that runs can be compared step by step

}  // namespace

double Schedule::rate(std::int64_t step) const {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double way =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double down = 0.5 * (1 + std::cos(std::numbers::pi * std::min(way, 1.0)));
  return peak * (floor + (1 - floor) * down);
}

Optimiser::Optimiser(std::vector<autograd::Parameter*> parameters, const Options& options) : options_(options) {
  for (autograd::Parameter* parameter : parameters) {
    const Dims& shape = parameter->value.shape();
    const DType dtype = parameter->value.dtype();
    const auto zeros = [&] { return Tensor::zeros(shape, dtype, parameter->value.allocator()); };
    moments_.push_back({parameter, zeros(), zeros()});
  }
}

double Optimiser::norm(Context& context, autograd::Gradients& gradients) {
  if (!squares_.present()) {
    squares_ = Tensor::empty({static_cast<std::int64_t>(moments_.size())}, DType::f64, context.allocator());
  }
  std::vector<ConstTensorView> all;
  for (const Moments& m : moments_) all.push_back(gradients.of(*m.parameter));
  ops::sums_of_squares(context, all, squares_);
  std::vector<double> squares(moments_.size());
  context.allocator()->copy_out(squares.data(), squares_.view().data(), squares.size() * sizeof(double));
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

void Optimiser::step(Context& context, autograd::Gradients& gradients, double norm, double rate) {
  if (!std::isfinite(norm)) {
    throw Error(ErrorCode::value, "Optimiser::step", "norm: expected a finite number, found " + std::to_string(norm));
  }
  const double factor = options_.clip > 0 ? std::min(1.0, options_.clip / (norm + kClipEpsilon)) : 1;
  ++steps_;
  ops::AdamW rule = options_.rule;
  rule.rate = rate;
  std::vector<kernels::AdamWTensor> tensors;
  for (Moments& m : moments_) {
    const bool decays = m.parameter->value.shape().rank() >= 2;
    tensors.push_back({m.parameter->value, m.first, m.second, gradients.of(*m.parameter), decays});
  }
  ops::adamw(context, rule, steps_, factor, tensors);
}

}  // namespace polyhead::train
