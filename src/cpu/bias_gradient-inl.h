// The gradient of a bias, which may be broadcast along any axis. An item owns a piece of dbias and visits everything
// that is summed into it: no two threads add to the same number, but the weights are computed a second time.
#if defined(POLYHEAD_CPU_BIAS_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_BIAS_GRADIENT_INL_H_
#undef POLYHEAD_CPU_BIAS_GRADIENT_INL_H_
#else
#define POLYHEAD_CPU_BIAS_GRADIENT_INL_H_
#endif

#include "core/numbers.h"
#include "cpu/key_gradients-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

template <class T>
class BiasGradient {
 public:
  explicit BiasGradient(const kernels::AttentionGradientProblem& problem, const GradientShared<T>& shared)
      : problem_(problem), shared_(shared), dbias_(problem.dbias) {
    for (int axis = 0; axis < 4; ++axis) count_ *= pieces(axis);
  }

  std::int64_t items() const { return count_; }

  void run(const GradientWorkspace<T>& w, std::int64_t item) const {
    std::int64_t piece[4];
    for (int axis = 3; axis >= 0; --axis) {
      piece[axis] = item % pieces(axis);
      item /= pieces(axis);
    }
    T* sums = w.bias_sums;  // [kBlock][kPanel], row 0 only if broadcast over keys
    std::fill_n(sums, kBlock * kPanel<T>, T{0});
    for_piece(0, piece[0], 1, [&](std::int64_t b, std::int64_t) {
      for_piece(1, piece[1], 1, [&](std::int64_t h, std::int64_t) {
        const GradientHead<T> head(problem_, b, h, w);
        if (!head.sends()) return;
        for_piece(2, piece[2], kRows, [&](std::int64_t t, std::int64_t) {
          if (t < head.head().sequence.queries) add_panel(head, w, t / kRows, piece[3], sums);
        });
      });
    });
    store(w, piece, sums);
  }

 private:
  static constexpr auto kRows = static_cast<std::int64_t>(kPanel<T>), kKeys = static_cast<std::int64_t>(kBlock);

  bool summed(int axis) const { return dbias_.stride(axis) == 0; }
  std::int64_t step(int axis) const { return axis == 2 ? kRows : axis == 3 ? kKeys : 1; }
  std::int64_t pieces(int axis) const {
    if (summed(axis)) return 1;  // even of an empty axis, whose sum is 0
    return (dbias_.shape(axis) + step(axis) - 1) / step(axis);
  }
  // visit(begin, end) for the steps of an axis that belong to a piece: one, or all if the axis is summed.
  template <class Visit>
  void for_piece(int axis, std::int64_t piece, std::int64_t step, const Visit& visit) const {
    const std::int64_t size = dbias_.shape(axis);
    const std::int64_t first = summed(axis) ? 0 : piece * step, last = summed(axis) ? size : first + 1;
    for (std::int64_t at = first; at < last; at += step) visit(at, std::min(at + step, size));
  }

  void add_panel(const GradientHead<T>& head, const GradientWorkspace<T>& w, std::int64_t index, std::int64_t piece,
                 T* sums) const {
    const kernels::Sequence& sequence = head.head().sequence;
    alignas(64) T gate_sum[kPanel<T>] = {};
    for_piece(3, piece, kKeys, [&](std::int64_t begin, std::int64_t end) {
      const kernels::KeyRange within{std::max<std::int64_t>(begin - sequence.key_begin, 0),
                                     std::min(end - sequence.key_begin, sequence.keys)};
      const PanelRows<T> rows = head.rows_of(index);
      const kernels::KeyRange keys = head.head().seen_by(rows, within);
      if (keys.empty()) return;
      GradientPanel<T> panel;
      panel.take_place(w, 0);
      head.load(index, head.head().sees_only(rows, within), panel);
      shared_.complete(head, index, panel);
      head.make_tile(panel, keys, head.read_keys(keys), head.read_values(keys), T{1}, gate_sum);
      const auto n = static_cast<std::size_t>(keys.end - keys.begin);
      if (summed(3)) {
        // Summed within the tile first, so that rounding grows with the number of tiles, not of keys.
        alignas(64) T of_tile[kPanel<T>] = {};
        for (std::size_t j = 0; j < n; ++j) add_row(panel, panel.dst + j * kPanel<T>, of_tile);
        return add_row(panel, of_tile, sums);
      }
      const auto first = static_cast<std::size_t>(keys.begin + sequence.key_begin - begin);
      for (std::size_t j = 0; j < n; ++j) add_row(panel, panel.dst + j * kPanel<T>, sums + (first + j) * kPanel<T>);
    });
  }
  // sums [kPanel] += ds [kPanel] of the panel's queries.
  static void add_row(const PanelRows<T>& panel, const T* ds, T* sums) {
    const Tag<T> d;
    for (std::size_t lane = 0; lane < panel.rows; lane += kLanes<T>) {
      const Vec<T> more = hn::IfThenElseZero(hn::FirstN(d, panel.rows - lane), hn::Load(d, ds + lane));
      hn::Store(hn::Add(hn::Load(d, sums + lane), more), d, sums + lane);
    }
  }

  void store(const GradientWorkspace<T>& w, const std::int64_t (&piece)[4], T* sums) const {
    const std::int64_t t = piece[2] * kRows, s = piece[3] * kKeys;
    const std::int64_t rows = summed(2) ? 1 : std::min(kRows, dbias_.shape(2) - t);
    const std::int64_t columns = summed(3) ? 1 : std::min(kKeys, dbias_.shape(3) - s);
    const auto n = static_cast<std::size_t>(columns);
    if (summed(2)) {
      for (std::size_t j = 0; j < n; ++j) {
        double total = 0;
        for (std::size_t lane = 0; lane < kPanel<T>; ++lane) total += static_cast<double>(sums[j * kPanel<T> + lane]);
        sums[j * kPanel<T>] = static_cast<T>(total);
      }
    }
    transpose(sums, kPanel<T>, n, static_cast<std::size_t>(rows), T{1}, w.rows, kBlock);
    const auto size = static_cast<std::int64_t>(size_of(dbias_.dtype()));
    auto* data =
        static_cast<std::byte*>(dbias_.data()) + (piece[0] * dbias_.stride(0) + piece[1] * dbias_.stride(1)) * size;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < columns; ++j) {
        store_number(static_cast<double>(w.rows[r * kKeys + j]), dbias_.dtype(),
                     data + ((t + r) * dbias_.stride(2) + (s + j) * dbias_.stride(3)) * size);
      }
    }
  }

  const kernels::AttentionGradientProblem& problem_;
  const GradientShared<T>& shared_;
  const TensorView& dbias_;  // [B,H,T,S], stride 0 where broadcast
  std::int64_t count_ = 1;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
