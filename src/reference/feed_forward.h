// The ops of a transformer other than attention, as defined, in any number type; in double they are the oracle.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace polyhead::reference {

// One row: LayerNorm with beta, RMSNorm without.
template <class Real>
std::vector<Real> normalised(const std::vector<Real>& x, const std::vector<Real>& gamma, const std::vector<Real>& beta,
                             Real epsilon) {
  const auto C = static_cast<Real>(x.size());
  Real mean = 0, square = 0;
  for (const Real value : x) mean += beta.empty() ? 0 : value / C;
  for (const Real value : x) square += (value - mean) * (value - mean) / C;
  std::vector<Real> y;
  for (std::size_t c = 0; c < x.size(); ++c) {
    y.push_back((x[c] - mean) / std::sqrt(square + epsilon) * gamma[c] + (beta.empty() ? 0 : beta[c]));
  }
  return y;
}

template <class Real>
Real gelu(Real x) {
  const Real root = static_cast<Real>(0.7978845608028654);  // sqrt(2 / pi)
  return x / 2 * (1 + std::tanh(root * (x + static_cast<Real>(0.044715) * x * x * x)));
}
template <class Real>
Real erf_gelu(Real x) {
  return x / 2 * (1 + std::erf(x / static_cast<Real>(1.4142135623730951)));
}
template <class Real>
Real silu(Real x) {
  return x / (1 + std::exp(-x));
}

// -ln softmax(logits)[target].
template <class Real>
Real cross_entropy(const std::vector<Real>& logits, std::size_t target) {
  Real top = logits[0], sum = 0;
  for (const Real logit : logits) top = std::max(top, logit);
  for (const Real logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum) - logits[target];
}

}  // namespace polyhead::reference
