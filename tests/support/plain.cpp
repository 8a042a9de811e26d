#include "support/plain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention_in.h"
#include "support/compare.h"
#include "support/numbers.h"

namespace polyhead::test {
namespace {

template <class Numbers>
void run_in(const Materialised& m, const ForwardResults&, const AttentionOutputs& outputs) {
  reference::attend_in<Numbers>(m.q, m.k, m.v, m.options, m.wants, outputs);
}
template <class Numbers>
void run_in(const Materialised& m, const ForwardResults& forward, const AttentionGradientOutputs& outputs) {
  reference::attend_backward_in<Numbers>(m.q, m.k, m.v, m.options, m.upstream, m.gradient_wants, forward, outputs);
}

template <class Outputs>
void run_exact(const Materialised& m, const Outputs& outputs) {
  if (m.q.dtype() == DType::f64) return run_in<LongDoubles>(m, m.exact_forward, outputs);
  run_in<reference::Doubles>(m, m.exact_forward, outputs);
}

template <class Outputs>
void run_plain(const Materialised& m, const Outputs& outputs) {
  switch (m.q.dtype()) {
    case DType::f64: return run_in<reference::Doubles>(m, m.forward, outputs);
    case DType::f16: return run_in<Rounded<float, float16>>(m, m.forward, outputs);
    case DType::bf16: return run_in<Rounded<float, bfloat16>>(m, m.forward, outputs);
    default: return run_in<Rounded<float, float>>(m, m.forward, outputs);
  }
}

// The last axis from its end.
template <class View>
View backwards(const View& view) {
  if (!view.present()) return view;
  const int last = view.rank() - 1;
  Dims strides = view.strides();
  strides[last] = -strides[last];
  const std::int64_t end = std::max<std::int64_t>(view.shape(last) - 1, 0) * view.stride(last);
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  auto* data = static_cast<Byte*>(view.data()) + end * static_cast<std::int64_t>(size_of(view.dtype()));
  return View(data, view.dtype(), view.shape(), strides);
}

// The same case with its logits, or what values have to do with gradients, or both summed in the other order. How far a
// plain implementation is off is a matter of luck where a case has few rows; of equally plain ones the worst is the
// yardstick.
Materialised summed_backwards(const Materialised& m, bool logits, bool values) {
  Materialised other;
  other.q = logits ? backwards(m.q) : m.q;
  other.k = logits ? backwards(m.k) : m.k;
  other.v = values ? backwards(m.v) : m.v;
  other.options = m.options;
  other.wants = m.wants;
  other.upstream = m.upstream;
  other.forward = m.forward;
  if (values) other.upstream.output = backwards(m.upstream.output);
  if (values) other.forward.output = backwards(m.forward.output);
  other.gradient_wants = m.gradient_wants;
  return other;
}

// Of two results, element by element, the one farther from the exact one into `kept`.
void keep_worse(const ConstTensorView& exact, const ConstTensorView& other, const TensorView& kept) {
  if (!kept.present()) return;
  const std::vector<double> e = reference::Array<double>(exact).values(), o = reference::Array<double>(other).values(),
                            k = reference::Array<double>(kept).values();
  std::size_t n = 0;
  fill_with(kept, [&] {
    const std::size_t i = n++;
    return std::abs(o[i] - e[i]) > std::abs(k[i] - e[i]) ? o[i] : k[i];
  });
}

std::int64_t longest_sequence(const Materialised& m) {
  std::int64_t longest = 0;
  for (const reference::Sequence& sequence : reference::sequences_of(m.q, m.k, m.options)) {
    longest = std::max(longest, sequence.keys);
  }
  return longest;
}

std::int64_t sequence_count(const Materialised& m) {
  return m.options.cu_q.present() ? m.options.cu_q.shape(0) - 1 : m.q.shape(0);
}

std::int64_t count_or(const std::vector<std::int32_t>& chosen, std::int64_t all) {
  return chosen.empty() ? all : static_cast<std::int64_t>(chosen.size());
}

}  // namespace

Attention make_results(const Materialised& m, std::optional<DType> as) {
  const std::int64_t b = m.q.shape(0), h = m.q.shape(1), t = m.q.shape(2);
  const DType wide = as.value_or(m.q.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const DType storage = as.value_or(m.q.dtype());
  const AttentionWants& wants = m.wants;
  Attention results;
  results.output = Tensor::empty({b, h, t, m.v.shape(3)}, storage);
  if (wants.lse) results.lse = Tensor::empty({b, h, t}, wide);
  const std::int64_t columns = m.options.cu_k.present() ? longest_sequence(m) : m.k.shape(2);
  const Dims by_key{b, count_or(wants.weight_heads, h), count_or(wants.weight_rows, t), columns};
  if (wants.weights) {
    results.weights = Tensor::empty(by_key, wants.weights_f32 ? as.value_or(DType::f32) : storage);
  }
  if (wants.logits != LogitStage::none) results.logits = Tensor::empty(by_key, wide);
  if (wants.statistics == StatisticsSet::none) return results;
  const std::int64_t fields = wants.statistics == StatisticsSet::light ? kLightStatistics : kFullStatistics;
  results.statistics = Tensor::empty({sequence_count(m), h, fields}, wide);
  if (wants.row_statistics) results.row_statistics = Tensor::empty({b, h, t, fields}, wide);
  return results;
}

AttentionGradients make_gradients(const Materialised& m, std::optional<DType> as) {
  const auto like = [&](const ConstTensorView& input) {
    return Tensor::empty(input.shape(), as.value_or(input.dtype()));
  };
  AttentionGradients gradients;
  gradients.dq = like(m.q);
  gradients.dk = like(m.k);
  gradients.dv = like(m.v);
  if (m.gradient_wants.bias) gradients.dbias = like(m.options.bias);
  if (m.gradient_wants.sink_logit) gradients.dsink_logit = like(m.options.sink_logit);
  if (m.gradient_wants.gates) {
    gradients.dgates = Tensor::empty({sequence_count(m), m.q.shape(1)}, as.value_or(m.options.gates.dtype()));
  }
  return gradients;
}

AttentionOutputs views_of(Attention& results) {
  return {results.output, results.lse, results.weights, results.logits, results.statistics, results.row_statistics};
}
AttentionGradientOutputs views_of(AttentionGradients& gradients) {
  return {gradients.dq, gradients.dk, gradients.dv, gradients.dbias, gradients.dsink_logit, gradients.dgates};
}

ExpectedResults expected_results(const Materialised& m) {
  ExpectedResults expected{make_results(m, DType::f64), make_results(m)};
  run_exact(m, views_of(expected.exact));
  run_plain(m, views_of(expected.plain));
  Attention other = make_results(m);
  run_plain(summed_backwards(m, true, false), views_of(other));
  keep_worse(expected.exact.output, other.output, expected.plain.output);
  keep_worse(expected.exact.lse, other.lse, expected.plain.lse);
  keep_worse(expected.exact.weights, other.weights, expected.plain.weights);
  keep_worse(expected.exact.logits, other.logits, expected.plain.logits);
  keep_worse(expected.exact.statistics, other.statistics, expected.plain.statistics);
  keep_worse(expected.exact.row_statistics, other.row_statistics, expected.plain.row_statistics);
  return expected;
}
ExpectedGradients expected_gradients(const Materialised& m) {
  ExpectedGradients expected{make_gradients(m, DType::f64), make_gradients(m)};
  run_exact(m, views_of(expected.exact));
  run_plain(m, views_of(expected.plain));
  for (const auto& [logits, values] : {std::pair{true, false}, {false, true}, {true, true}}) {
    AttentionGradients other = make_gradients(m);
    AttentionGradientOutputs outputs = views_of(other);
    if (logits) outputs.dq = backwards(outputs.dq), outputs.dk = backwards(outputs.dk);
    if (values) outputs.dv = backwards(outputs.dv);
    run_plain(summed_backwards(m, logits, values), outputs);
    keep_worse(expected.exact.dq, other.dq, expected.plain.dq);
    keep_worse(expected.exact.dk, other.dk, expected.plain.dk);
    keep_worse(expected.exact.dv, other.dv, expected.plain.dv);
    keep_worse(expected.exact.dbias, other.dbias, expected.plain.dbias);
    keep_worse(expected.exact.dsink_logit, other.dsink_logit, expected.plain.dsink_logit);
    keep_worse(expected.exact.dgates, other.dgates, expected.plain.dgates);
  }
  return expected;
}

::testing::AssertionResult judge(const ExpectedResults& expected, const AttentionOutputs& got) {
  const auto& [exact, plain] = expected;
  auto result = near_enough("output", got.output, exact.output, plain.output);
  if (result && exact.lse.present()) result = near_enough("lse", got.lse, exact.lse, plain.lse);
  if (result && exact.weights.present()) {
    result = near_enough("weights", got.weights, exact.weights, plain.weights);
  }
  if (result && exact.logits.present()) {
    result = near_enough("logits", got.logits, exact.logits, plain.logits);
  }
  if (result && exact.statistics.present()) {
    result = statistics_near_enough("statistics", got.statistics, exact.statistics, plain.statistics);
  }
  if (result && exact.row_statistics.present()) {
    result = statistics_near_enough("row_statistics", got.row_statistics, exact.row_statistics, plain.row_statistics);
  }
  return result;
}

::testing::AssertionResult judge(const ExpectedGradients& expected, const AttentionGradientOutputs& got) {
  const auto& [exact, plain] = expected;
  auto result = near_enough("dq", got.dq, exact.dq, plain.dq);
  if (result) result = near_enough("dk", got.dk, exact.dk, plain.dk);
  if (result) result = near_enough("dv", got.dv, exact.dv, plain.dv);
  if (result && exact.dbias.present()) {
    result = near_enough("dbias", got.dbias, exact.dbias, plain.dbias);
  }
  if (result && exact.dsink_logit.present()) {
    result = near_enough("dsink_logit", got.dsink_logit, exact.dsink_logit, plain.dsink_logit);
  }
  if (result && exact.dgates.present()) {
    result = near_enough("dgates", got.dgates, exact.dgates, plain.dgates);
  }
  return result;
}

::testing::AssertionResult judge(const Materialised& m, const AttentionOutputs& got) {
  return judge(expected_results(m), got);
}
::testing::AssertionResult judge(const Materialised& m, const AttentionGradientOutputs& got) {
  return judge(expected_gradients(m), got);
}

bool has_near_tie(const Attention& exact) {
  constexpr double kEqual = 1e-12, kNear = 3e-6;
  const reference::Array<double> weights(exact.weights), lse(exact.lse);
  const std::int64_t columns = weights.shape()[3];
  for (std::size_t row = 0; row < lse.values().size(); ++row) {
    double first = -std::numeric_limits<double>::infinity(), second = first;
    for (std::int64_t j = 0; j < columns; ++j) {
      const double s =
          std::log(weights.values()[row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(j)]);
      second = std::max(second, std::min(first, s));
      first = std::max(first, s);
    }
    const double unit = std::max(1.0, std::abs(first + lse.values()[row]));
    if (first - second > kEqual * unit && first - second < kNear * unit) return true;
  }
  return false;
}

}  // namespace polyhead::test
