// Attention forward and backward, as the contract states it, in any number type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "polyhead/attention.h"
#include "reference/row_statistics.h"
#include "reference/softmax_row.h"

namespace polyhead::reference {

// Collects the wanted results, each filled beforehand with the value for rows that do not exist.
template <class Real>
class Results {
 public:
  Results(const AttentionWants& wants, const AttentionOutputs& outputs)
      : output(like(outputs.output, 0)),
        lse_(like(outputs.lse, kNone)),
        weights_(like(outputs.weights, 0)),
        logits_(like(outputs.logits, kNone)),
        statistics_(like(outputs.statistics, 0)),
        row_statistics_(like(outputs.row_statistics, 0)),
        watched_(wants),
        stage_(wants.logits),
        heads_(wants.weight_heads),
        rows_(wants.weight_rows) {
    for (Array<Real>* sums : {&statistics_, &row_statistics_}) {
      const auto fields = static_cast<std::size_t>(sums->present() ? sums->shape()[sums->rank() - 1] : 1);
      for (std::size_t f = static_cast<std::size_t>(Statistic::max_logit); f < sums->values().size(); f += fields) {
        sums->values()[f] = kNone;
      }
    }
  }

  bool about_heads() const noexcept {
    return lse_.present() || weights_.present() || logits_.present() || statistics_.present() ||
           row_statistics_.present();
  }

  void report(const AttentionOptions& options, const Sequence& sequence, std::int64_t h, std::int64_t i,
              const Row<Real>& row) {
    const std::int64_t b = sequence.batch, query = sequence.query_place(i);
    if (lse_.present()) lse_(b, h, query) = row.lse;
    if (weights_.present()) report_by_key(options, sequence, h, i, row.keys, row.weights, weights_);
    if (logits_.present()) report_by_key(options, sequence, h, i, row.keys, logits_of(row), logits_);
    if (!statistics_.present() && !row_statistics_.present()) return;
    const RowStatistics<Real> contribution(row, sequence, i, watched_);
    if (statistics_.present()) contribution.add_to(statistics_.at(sequence.index, h), statistics_.shape()[2]);
    if (row_statistics_.present()) contribution.add_to(row_statistics_.at(b, h, query), row_statistics_.shape()[3]);
  }

  void store_to(const AttentionOutputs& outputs) const {
    output.store_to(outputs.output);
    if (lse_.present()) lse_.store_to(outputs.lse);
    if (weights_.present()) weights_.store_to(outputs.weights);
    if (logits_.present()) logits_.store_to(outputs.logits);
    if (statistics_.present()) statistics_.store_to(outputs.statistics);
    if (row_statistics_.present()) row_statistics_.store_to(outputs.row_statistics);
  }

  Array<Real> output;  // [B,H,T,E]

 private:
  static constexpr Real kNone = -std::numeric_limits<Real>::infinity();

  static Array<Real> like(const TensorView& tensor, Real fill) {
    return tensor.present() ? Array<Real>(tensor.shape(), fill) : Array<Real>();
  }

  const std::vector<Real>& logits_of(const Row<Real>& row) const {
    return stage_ == LogitStage::scaled ? row.scaled : stage_ == LogitStage::capped ? row.capped : row.logits;
  }
  // Writes the numbers of the keys that query i sees to its row of weights or logits.
  void report_by_key(const AttentionOptions& options, const Sequence& sequence, std::int64_t h, std::int64_t i,
                     const std::vector<std::int64_t>& keys, const std::vector<Real>& numbers, Array<Real>& to) const {
    const std::int64_t head = place_in(heads_, h), line = place_in(rows_, sequence.query_place(i));
    if (head < 0 || line < 0) return;
    for (std::size_t n = 0; n < keys.size(); ++n) {
      to(sequence.batch, head, line, weight_column(options, sequence, keys[n])) = numbers[n];
    }
  }
  // The index of a head or row among the chosen ones, or -1. An empty choice means all.
  static std::int64_t place_in(const std::vector<std::int32_t>& chosen, std::int64_t index) {
    if (chosen.empty()) return index;
    const auto found = std::find(chosen.begin(), chosen.end(), index);
    return found == chosen.end() ? -1 : found - chosen.begin();
  }

  Array<Real> lse_, weights_, logits_, statistics_, row_statistics_;
  Watched watched_;
  const LogitStage stage_;
  const std::vector<std::int32_t> heads_, rows_;  // whose weights are wanted
};

template <class Numbers>
void attend_in(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs) {
  using Real = typename Numbers::Real;
  const Heads<Numbers> heads(q, k, v, options);
  Results<Real> results(wants, outputs);
  for (const Sequence& sequence : heads.sequences) {
    for (std::int64_t h = 0; h < heads.count(); ++h) {
      const Real gate = heads.gate(sequence, h);
      if (gate == 0 && !results.about_heads()) continue;
      for (std::int64_t i = 0; i < sequence.queries; ++i) {
        const Row<Real> row = heads.row(sequence, h, i, gate != 0);
        results.report(options, sequence, h, i, row);
        Real* o = results.output.at(sequence.batch, h, sequence.query_place(i));
        for (std::size_t e = 0; e < row.output.size(); ++e) o[e] = gate * row.output[e];
      }
    }
  }
  results.store_to(outputs);
}

// Sums up the gradients of one call, row by row.
template <class Numbers>
class Gradients {
 public:
  using Real = typename Numbers::Real;

  Gradients(const Heads<Numbers>& heads, const UpstreamGradients& upstream, const ForwardResults& forward)
      : heads_(heads),
        output_(forward.output),
        lse_(forward.lse),
        doutput_(upstream.output),
        dlse_(upstream.lse),
        dweights_(upstream.weights),
        dq_(zeros(heads.queries)),
        dk_(zeros(heads.keys)),
        dv_(zeros(heads.values)),
        dbias_(zeros(heads.bias)),
        dsink_logit_(zeros(heads.sink_logit)),
        dgates_({static_cast<std::int64_t>(heads.sequences.size()), heads.count()}, 0) {}

  void add_row(const Sequence& sequence, std::int64_t h, std::int64_t i, bool want_dgate) {
    const Real gate = heads_.gate(sequence, h);
    const bool beside = dlse_.present() || dweights_.present();  // gradients that do not come through the gate
    if (gate == 0 && !want_dgate && !beside) return;
    const std::int64_t b = sequence.batch, query = sequence.query_place(i);
    const Row<Real> row = heads_.row(sequence, h, i, want_dgate, lse_.present() ? &lse_(b, h, query) : nullptr);
    const Real* dout = doutput_.at(b, h, query);
    for (std::size_t e = 0; e < row.output.size(); ++e) dgates_(sequence.index, h) += dout[e] * row.output[e];
    if (gate == 0 && !beside) return;

    std::vector<Real> dp(row.keys.size(), 0), dw(row.keys.size(), 0);
    if (gate != 0) through_values(sequence, h, row, gate, dout, dp);
    for (std::size_t n = 0; dweights_.present() && n < dw.size(); ++n) {
      dw[n] = dweights_.at(b, h, query)[weight_column(heads_.options, sequence, row.keys[n])];
      dp[n] += dw[n];
    }
    // delta = sum_j p_j dp_j. An output that was given has been summed over keys elsewhere too.
    Real delta = 0;
    for (std::size_t n = 0; n < dp.size(); ++n) delta += row.weights[n] * (output_.present() ? dw[n] : dp[n]);
    if (output_.present() && gate != 0) {
      for (std::int64_t e = 0; e < output_.shape()[3]; ++e) delta += dout[e] * output_.at(b, h, query)[e];
    }
    through_softmax(sequence, h, i, row, dp, delta);
  }

  void store_to(const AttentionGradientOutputs& outputs) const {
    dq_.store_to(outputs.dq);
    dk_.store_to(outputs.dk);
    dv_.store_to(outputs.dv);
    if (outputs.dbias.present()) dbias_.store_to(outputs.dbias);
    if (outputs.dsink_logit.present()) dsink_logit_.store_to(outputs.dsink_logit);
    if (outputs.dgates.present()) dgates_.store_to(outputs.dgates);
  }

 private:
  static Array<Real> zeros(const Array<Real>& like) {
    return like.present() ? Array<Real>(like.shape(), 0) : Array<Real>();
  }

  // o = gate * sum_j kept_j p_j v_j: dv_j += gate kept_j p_j dO and dp_j = gate kept_j dO . v_j.
  void through_values(const Sequence& sequence, std::int64_t h, const Row<Real>& row, Real gate, const Real* dout,
                      std::vector<Real>& dp) {
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      if (row.kept[n] == 0) continue;
      const std::int64_t g = heads_.kv_head(h), key = sequence.key_place(row.keys[n]);
      const Real* v = heads_.values.at(sequence.batch, g, key);
      Real* dv = dv_.at(sequence.batch, g, key);
      Real dot = 0;
      for (std::int64_t e = 0; e < heads_.values.shape()[3]; ++e) {
        dot += gate * dout[e] * v[e];
        dv[e] += row.dropped[n] * (gate * dout[e]);
      }
      dp[n] = row.kept[n] * Numbers::stored(dot);
    }
  }

  // ds_j = p_j (dp_j - delta + dlse); the sink is one more j with dp = 0.
  void through_softmax(const Sequence& sequence, std::int64_t h, std::int64_t i, const Row<Real>& row,
                       const std::vector<Real>& dp, Real delta) {
    const std::int64_t b = sequence.batch, query = sequence.query_place(i);
    const Real dlse = dlse_.present() ? dlse_(b, h, query) : 0;
    if (dsink_logit_.present()) dsink_logit_(h) += row.sink_weight * (dlse - delta);
    for (std::size_t n = 0; n < dp.size(); ++n) {
      const std::int64_t key = sequence.key_place(row.keys[n]);
      const Real ds = Numbers::stored(row.weights[n] * (dp[n] - delta + dlse));
      if (dbias_.present()) dbias_.spread(b, h, query, key) += ds;
      const Real factor = Numbers::stored(heads_.scale * ds * row.slopes[n]);
      const std::int64_t g = heads_.kv_head(h);
      const Real* q = heads_.queries.at(b, h, query);
      const Real* k = heads_.keys.at(b, g, key);
      Real* dq = dq_.at(b, h, query);
      Real* dk = dk_.at(b, g, key);
      for (std::int64_t d = 0; d < heads_.queries.shape()[3]; ++d) {
        dq[d] += factor * k[d];
        dk[d] += factor * q[d];
      }
    }
  }

  const Heads<Numbers>& heads_;
  const Array<Real> output_, lse_, doutput_, dlse_, dweights_;
  Array<Real> dq_, dk_, dv_, dbias_, dsink_logit_, dgates_;
};

template <class Numbers>
void attend_backward_in(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const AttentionOptions& options, const UpstreamGradients& upstream, const GradientWants& wants,
                        const ForwardResults& forward, const AttentionGradientOutputs& outputs) {
  const Heads<Numbers> heads(q, k, v, options);
  Gradients<Numbers> gradients(heads, upstream, forward);
  for (const Sequence& sequence : heads.sequences) {
    for (std::int64_t h = 0; h < heads.count(); ++h) {
      for (std::int64_t i = 0; i < sequence.queries; ++i) gradients.add_row(sequence, h, i, wants.gates);
    }
  }
  gradients.store_to(outputs);
}

}  // namespace polyhead::reference
