// One row of attention: the logits of the keys that a query sees, and what softmax makes of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/array.h"
#include "reference/rows.h"

namespace polyhead::reference {

// The type of a computation (Real), and how a number is rounded when it is stored between two steps (stored). The
// oracle keeps doubles as they are; tests measure what the same steps lose in another type.
struct Doubles {
  using Real = double;
  static double stored(double x) noexcept { return x; }
};

// Only the n visible keys have entries, so that nothing hidden is ever touched.
template <class Real>
struct Row {
  std::vector<std::int64_t> keys;  // [n] their j, ascending
  std::vector<Real> logits;        // [n] s_ij, after all that is added to it
  std::vector<Real> scaled;        // [n] scale * q . k
  std::vector<Real> capped;        // [n] the same after the softcap
  std::vector<Real> slopes;        // [n] derivative of the softcap
  std::vector<Real> weights;       // [n] p_ij
  std::vector<Real> kept;          // [n] 1/(1-p), or 0 where dropout took the key
  std::vector<Real> dropped;       // [n] p_ij after dropout
  std::vector<Real> output;        // [E] sum_j p_ij v_j, before the gate; empty unless asked for
  bool has_sink = false;           // a sink of -inf counts as none
  Real sink_weight = 0;
  Real lse = -std::numeric_limits<Real>::infinity();
};

template <class Numbers>
class Heads {
 public:
  using Real = typename Numbers::Real;

  Heads(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const AttentionOptions& given)
      : options(given),
        sequences(sequences_of(q, k, given)),
        queries(q),
        keys(k),
        values(v),
        keep(given.keep),
        bias(given.bias),
        alibi(given.alibi),
        sink_logit(given.sink_logit),
        gates(given.gates),
        // With a head dim of 0 every logit is 0; a scale of 1/sqrt(0) would make it NaN.
        scale(static_cast<Real>(
            given.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.shape(3))))))) {}

  std::int64_t count() const noexcept { return queries.shape()[1]; }
  std::int64_t kv_head(std::int64_t h) const noexcept { return h / (count() / keys.shape()[1]); }
  Real gate(const Sequence& sequence, std::int64_t h) const {
    if (!gates.present()) return 1;
    return gates.rank() == 1 ? gates(h) : gates(sequence.index, h);
  }

  Real slope_of(const Sequence& sequence, std::int64_t h) const {
    return alibi.rank() == 1 ? alibi(h) : alibi(sequence.index, h);
  }

  // Query i of head h of a sequence. Its output is computed only on request: a gate of 0 must not read values. With an
  // lse the weights are e^(s - lse): it may be that of more keys than there are here.
  Row<Real> row(const Sequence& sequence, std::int64_t h, std::int64_t i, bool with_output,
                const Real* lse = nullptr) const;

  const AttentionOptions& options;
  const std::vector<Sequence> sequences;
  const Array<Real> queries, keys, values;  // [B,H,T,D] [B,G,S,D] [B,G,S,E]
  const Array<Real> keep, bias, alibi, sink_logit, gates;
  const Real scale;

 private:
  bool visible(const Sequence& sequence, std::int64_t h, std::int64_t i, std::int64_t j) const;
  void add_logit(Row<Real>& row, const Sequence& sequence, std::int64_t h, std::int64_t i, std::int64_t j) const;
  void normalise(Row<Real>& row, std::int64_t h, const Real* lse) const;
  void drop(Row<Real>& row, const Sequence& sequence, std::int64_t h, std::int64_t i) const;
  void sum_values(Row<Real>& row, const Sequence& sequence, std::int64_t h) const;
};

template <class Numbers>
auto Heads<Numbers>::row(const Sequence& sequence, std::int64_t h, std::int64_t i, bool with_output,
                         const Real* lse) const -> Row<Real> {
  Row<Real> row;
  for (std::int64_t j = 0; j < sequence.keys; ++j) {
    if (visible(sequence, h, i, j)) add_logit(row, sequence, h, i, j);
  }
  normalise(row, h, lse);
  drop(row, sequence, h, i);
  if (with_output) sum_values(row, sequence, h);
  return row;
}

template <class Numbers>
bool Heads<Numbers>::visible(const Sequence& sequence, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const std::int64_t b = sequence.batch, query = sequence.query_place(i), key = sequence.key_place(j);
  if (!in_reach(options, sequence.position(i), j)) return false;
  if (keep.present() && keep.spread(b, h, query, key) == 0) return false;
  return !bias.present() || bias.spread(b, h, query, key) != -std::numeric_limits<Real>::infinity();
}

template <class Numbers>
void Heads<Numbers>::add_logit(Row<Real>& row, const Sequence& sequence, std::int64_t h, std::int64_t i,
                               std::int64_t j) const {
  const std::int64_t b = sequence.batch, query = sequence.query_place(i), key = sequence.key_place(j);
  const Real* q = queries.at(b, h, query);
  const Real* k = keys.at(b, kv_head(h), key);
  Real dot = 0;
  for (std::int64_t d = 0; d < queries.shape()[3]; ++d) dot += q[d] * k[d];
  const Real scaled = Numbers::stored(scale * Numbers::stored(dot));
  Real s = scaled, slope = 1;
  if (options.softcap > 0) {
    const auto cap = static_cast<Real>(options.softcap);
    const Real t = std::tanh(s / cap);
    s = Numbers::stored(cap * t);
    slope = 1 - t * t;
  }
  const Real capped = s;
  if (bias.present()) s = Numbers::stored(s + bias.spread(b, h, query, key));
  if (alibi.present()) {
    s = Numbers::stored(s - slope_of(sequence, h) * static_cast<Real>(std::abs(sequence.position(i) - j)));
  }
  if (s == -std::numeric_limits<Real>::infinity()) return;  // hidden by its own logit, as if by a bias of -inf
  row.keys.push_back(j);
  row.scaled.push_back(scaled);
  row.capped.push_back(capped);
  row.logits.push_back(s);
  row.slopes.push_back(slope);
}

template <class Numbers>
void Heads<Numbers>::normalise(Row<Real>& row, std::int64_t h, const Real* lse) const {
  const Real sink = sink_logit.present() ? sink_logit(h) : -std::numeric_limits<Real>::infinity();
  row.has_sink = sink != -std::numeric_limits<Real>::infinity();
  if (lse != nullptr) {
    row.lse = *lse;
    row.sink_weight = row.has_sink ? std::exp(sink - *lse) : 0;
    for (const Real s : row.logits) row.weights.push_back(Numbers::stored(std::exp(s - *lse)));
    return;
  }
  if (row.keys.empty()) {
    row.lse = sink;
    row.sink_weight = row.has_sink ? 1 : 0;
    return;
  }
  Real largest = sink;
  for (const Real s : row.logits) largest = std::max(largest, s);
  Real sum = std::exp(sink - largest);
  for (const Real s : row.logits) sum += std::exp(s - largest);
  row.lse = largest + std::log(sum);
  row.sink_weight = std::exp(sink - largest) / sum;
  for (const Real s : row.logits) row.weights.push_back(Numbers::stored(std::exp(s - largest) / sum));
}

template <class Numbers>
void Heads<Numbers>::drop(Row<Real>& row, const Sequence& sequence, std::int64_t h, std::int64_t i) const {
  const Dropout& dropout = options.dropout;
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    const bool kept = dropout.p == 0 || is_kept(dropout, sequence.index, h, i, row.keys[n]);
    row.kept.push_back(kept ? static_cast<Real>(1 / (1 - dropout.p)) : 0);
    row.dropped.push_back(Numbers::stored(row.weights[n] * row.kept[n]));
  }
}

template <class Numbers>
void Heads<Numbers>::sum_values(Row<Real>& row, const Sequence& sequence, std::int64_t h) const {
  row.output.assign(static_cast<std::size_t>(values.shape()[3]), 0);
  for (std::size_t n = 0; n < row.keys.size(); ++n) {
    if (row.kept[n] == 0) continue;  // not even NaN comes through
    const Real* v = values.at(sequence.batch, kv_head(h), sequence.key_place(row.keys[n]));
    for (std::size_t e = 0; e < row.output.size(); ++e) row.output[e] += row.dropped[n] * v[e];
  }
  for (Real& o : row.output) o = Numbers::stored(o);
}

}  // namespace polyhead::reference
