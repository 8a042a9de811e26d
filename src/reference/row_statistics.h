// What one row says about its head: its contribution to every field of Statistic.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/softmax_row.h"

namespace polyhead::reference {

// The keys that AttentionWants asks about: marked [B,S], target [B,T,4], both by place in the tensor.
struct Watched {
  explicit Watched(const AttentionWants& wants) : marked(wants.marked_keys), target(wants.target_keys) {}
  const Array<std::int32_t> marked, target;
};

template <class Real>
class RowStatistics {
 public:
  // Of a row that does not count.
  RowStatistics() { of(Statistic::max_logit) = -std::numeric_limits<Real>::infinity(); }

  RowStatistics(const Row<Real>& row, const Sequence& sequence, std::int64_t i, const Watched& watched)
      : RowStatistics() {
    if (row.keys.empty()) return;
    of(Statistic::rows) = 1;
    measure_spread(row);
    measure_peak(row, sequence.position(i));
    measure_neighbours(row, sequence.position(i));
    measure_watched(row, sequence, i, watched);
  }

  // Adds the first `count` fields to sums [count]; of max_logit it keeps the larger.
  void add_to(Real* sums, std::int64_t count) const {
    for (std::int64_t f = 0; f < count; ++f) {
      const Real x = fields_[static_cast<std::size_t>(f)];
      sums[f] = f == static_cast<int>(Statistic::max_logit) ? std::max(sums[f], x) : sums[f] + x;
    }
  }

 private:
  static std::size_t field(Statistic statistic, int slot) { return static_cast<std::size_t>(statistic) + slot; }
  Real& of(Statistic statistic, int slot = 0) { return fields_[field(statistic, slot)]; }

  // n: the place of key j among the visible ones, or -1.
  static std::int64_t find(const Row<Real>& row, std::int64_t j) {
    const auto found = std::lower_bound(row.keys.begin(), row.keys.end(), j);
    return found != row.keys.end() && *found == j ? found - row.keys.begin() : -1;
  }

  void measure_spread(const Row<Real>& row) {
    const auto surprise = [](Real p) { return p > 0 ? -p * std::log(p) : Real{0}; };
    Real entropy = surprise(row.sink_weight);
    for (const Real p : row.weights) entropy += surprise(p);
    of(Statistic::entropy) = entropy;
    const std::size_t outcomes = row.keys.size() + (row.has_sink ? 1 : 0);
    if (outcomes >= 2) {
      of(Statistic::normalised_rows) = 1;
      of(Statistic::normalised_entropy) = entropy / std::log(static_cast<Real>(outcomes));
    }
    of(Statistic::sink_weight) = row.sink_weight;
  }

  void measure_peak(const Row<Real>& row, std::int64_t p) {
    // max_element gives the first of equals, as the contract asks.
    const auto peak = std::max_element(row.logits.begin(), row.logits.end());
    const auto n = static_cast<std::size_t>(peak - row.logits.begin());
    of(Statistic::max_weight) = row.weights[n];
    of(Statistic::max_offset) = static_cast<Real>(row.keys[n] - p);
    of(Statistic::max_logit) = *peak;
  }

  void measure_neighbours(const Row<Real>& row, std::int64_t p) {
    of(Statistic::first_weight) = row.weights.front();
    count_key(row, p, Statistic::self_rows, Statistic::self_weight);
    count_key(row, p - 1, Statistic::previous_rows, Statistic::previous_weight);
    count_key(row, p + 1, Statistic::next_rows, Statistic::next_weight);
    for (std::size_t n = 0; n < row.keys.size(); ++n) {
      of(Statistic::distance) += row.weights[n] * static_cast<Real>(std::abs(p - row.keys[n]));
    }
  }

  void measure_watched(const Row<Real>& row, const Sequence& sequence, std::int64_t i, const Watched& watched) {
    if (watched.marked.present()) {
      for (std::size_t n = 0; n < row.keys.size(); ++n) {
        if (watched.marked(sequence.batch, sequence.key_place(row.keys[n]))) {
          of(Statistic::marked_weight) += row.weights[n];
        }
      }
    }
    if (watched.target.present()) {
      for (int slot = 0; slot < 4; ++slot) {
        const std::int64_t place = watched.target(sequence.batch, sequence.query_place(i), slot);
        if (place < 0) continue;
        count_key(row, place - sequence.first_key, Statistic::target_rows, Statistic::target_weight, slot);
      }
    }
  }

  void count_key(const Row<Real>& row, std::int64_t j, Statistic rows, Statistic weight, int slot = 0) {
    const std::int64_t n = find(row, j);
    if (n < 0) return;
    of(rows, slot) = 1;
    of(weight, slot) = row.weights[static_cast<std::size_t>(n)];
  }

  std::array<Real, kFullStatistics> fields_{};
};

}  // namespace polyhead::reference
