#include "model/likely.h"

#include <algorithm>
#include <cmath>

#include "model/score.h"
#include "ops/cross_entropy.h"
#include "ops/on_host.h"

namespace polyhead::model {
namespace {

// One pass over the row; most logits are compared only with the least of those kept so far.
std::vector<std::int32_t> largest(const float* row, std::int64_t V, std::int64_t most) {
  const auto before = [&](std::int32_t a, std::int32_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); };
  std::vector<std::int32_t> kept;  // a heap, the least in front
  for (std::int32_t v = 0; v < V; ++v) {
    if (std::ssize(kept) == most) {
      if (!(row[v] > row[kept.front()])) continue;
      std::pop_heap(kept.begin(), kept.end(), before);
      kept.pop_back();
    }
    kept.push_back(v);
    std::push_heap(kept.begin(), kept.end(), before);
  }
  std::sort(kept.begin(), kept.end(), before);
  return kept;
}

}  // namespace

Expectations expectations(autograd::Tape& tape, autograd::Variable logits, std::span<const std::int32_t> targets,
                          std::int64_t most) {
  const auto rows = std::ssize(targets);
  Tensor wanted = Tensor::empty({1, rows}, DType::i32);
  std::copy(targets.begin(), targets.end(), wanted.as<std::int32_t>());
  const ConstTensorView all = tape.value(logits);
  const std::int64_t V = all.shape(all.rank() - 1);
  const ConstTensorView each = all.rank() == 3 ? all : all.split(0, 1);  // [1,rows,V]
  const TensorView losses = tape.take({1, rows}, DType::f32), shares = tape.take({1, rows}, DType::f32),
                   totals = tape.take({2}, DType::f64);
  ops::cross_entropy(tape.context(), each, tape.here(wanted), ops::Share::all, losses, shares, totals);
  const OnHost values(tape.context(), each), lost(tape.context(), losses);
  Expectations found;
  for (std::int64_t t = 0; t < rows; ++t) {
    const float* row = values.as<float>() + t * V;
    const auto loss = static_cast<double>(lost.as<float>()[t]);
    // loss = ln of the denominator - logit of the target.
    const double denominator = loss + static_cast<double>(row[targets[static_cast<std::size_t>(t)]]);
    std::vector<Likely>& likely = found.rows.emplace_back();
    for (const std::int32_t token : largest(row, V, most)) {
      likely.push_back({token, std::exp(static_cast<double>(row[token]) - denominator)});
    }
    found.losses.push_back(loss);
  }
  expect_finite(found.losses, "the model: the loss after token");
  return found;
}

}  // namespace polyhead::model
