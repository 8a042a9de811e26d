// A panel: up to 2 vectors of queries of one head, one query per lane, and the state of their rows. The softmax and all
// the statistics are vertical operations on S^T [keys][lanes].
#if defined(POLYHEAD_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_PANEL_INL_H_
#undef POLYHEAD_CPU_PANEL_INL_H_
#else
#define POLYHEAD_CPU_PANEL_INL_H_
#endif

#include <algorithm>

#include "cpu/products-inl.h"
#include "kernels/attention.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Keys whose logits are kept aside as their tile passes, so that their weights are known once the row is complete.
enum Watch { kPrevious, kSelf, kNext, kFirst, kTarget0, kWatches = kTarget0 + 4 };
inline constexpr std::int32_t kNoKey = -1;

// Which queries of a sequence stand in the lanes.
template <class T>
struct PanelRows {
  std::int64_t row;       // of the sequence, in lane 0
  std::int64_t position;  // of lane 0, among the keys
  std::size_t rows;

  std::int64_t last_row() const { return row + static_cast<std::int64_t>(rows) - 1; }
  // Lanes in use: one vector or two.
  std::size_t width() const { return rows <= kLanes<T> ? kLanes<T> : kPanel<T>; }
  bool narrow() const { return width() == kLanes<T>; }
};

template <class T>
struct Panel : PanelRows<T> {
  static constexpr std::size_t kSize = kPanel<T>;
  using Index = hwy::MakeSigned<T>;

  // Row state: m = max s, l = sum e^(s-m); alpha is what the last tile rescaled the row by.
  alignas(64) T max[kSize], sum[kSize], alpha[kSize];
  // Statistics: u = sum (s-m) e^(s-m), sum |p-j| e^(s-m), sum e^(s-m) over marked keys, the number of visible keys, the
  // key of the maximum, and the logits of watched keys.
  alignas(64) T log_sum[kSize], distance[kSize], marked[kSize], visible[kSize];
  alignas(64) Index arg_max[kSize];
  alignas(64) T watched[kWatches][kSize];
  std::int32_t watch_key[kWatches][kSize];  // of kFirst and the targets; the others follow from the position

  T* out;               // [kSize][padded E]
  bool fresh;           // nothing has been added to out yet
  bool weights_stored;  // from its only tile

  void reset() {
    fresh = true;
    weights_stored = false;
    std::fill(max, max + kSize, -kInfinity<T>);
    for (T* zeroed : {sum, alpha}) std::fill(zeroed, zeroed + kSize, T{0});
  }
  void reset_statistics(bool full) {
    for (T* zeroed : {log_sum, visible}) std::fill(zeroed, zeroed + kSize, T{0});
    std::fill(arg_max, arg_max + kSize, Index{0});
    for (int watch = 0; watch < (full ? kWatches : kTarget0); ++watch) {
      std::fill(watched[watch], watched[watch] + kSize, -kInfinity<T>);
    }
    if (!full) return;
    for (T* zeroed : {distance, marked}) std::fill(zeroed, zeroed + kSize, T{0});
  }
};

// A panel with its queries as the kernel multiplies them.
template <class T, class U>
struct QueryPanel : Panel<T> {
  U* qt;  // [units of D][kSize], scaled unless they are pairs
};

// Keys whose terms are summed on their own before they join the sum of the tile, which then joins that of the row.
// Added one by one to a row of thousands, each term would be rounded to the last place of the whole sum.
inline constexpr std::size_t kRun = 16;
// visit(begin, end) for runs of n keys.
template <class Visit>
HWY_INLINE void for_runs(std::size_t n, const Visit& visit) {
  for (std::size_t begin = 0; begin < n; begin += kRun) visit(begin, std::min(n, begin + kRun));
}

// A row's maximum, or the lowest number where it is -inf (nothing seen yet) or NaN: with that subtracted, hidden keys
// still give e^-inf = 0.
template <class T>
HWY_INLINE Vec<T> above_infinity(Vec<T> max) {
  const Vec<T> least = hn::Set(Tag<T>(), std::numeric_limits<T>::lowest());
  return hn::IfThenElse(hn::Ge(max, least), max, least);
}

// m and its arg-max over a tile. st [n][kPanel]; key of row 0 is first_key.
template <class T, int kWidth, StatisticsSet kSet>
HWY_INLINE void raise_maximum(Panel<T>& panel, const T* HWY_RESTRICT st, std::size_t n, std::int64_t first_key,
                              Vec<T> (&top)[kWidth]) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  Vec<T> where[kWidth], row = hn::Zero(d);  // counts the tile's rows, which are keys
  for (int w = 0; w < kWidth; ++w) {
    top[w] = hn::Load(d, panel.max + w * kLanes<T>);
    where[w] = hn::Set(d, T{-1});
  }
  for (std::size_t j = 0; j < n; ++j, row = hn::Add(row, hn::Set(d, T{1}))) {
    for (int w = 0; w < kWidth; ++w) {
      const Vec<T> s = hn::Load(d, st + j * kPanel<T> + w * kLanes<T>);
      if constexpr (kSet != StatisticsSet::none) {
        where[w] = hn::IfThenElse(hn::Gt(s, top[w]), row, where[w]);
      }
      top[w] = hn::Max(top[w], s);
    }
  }
  if constexpr (kSet != StatisticsSet::none) {
    for (int w = 0; w < kWidth; ++w) {
      auto* arg_max = panel.arg_max + w * kLanes<T>;
      const auto raised = hn::RebindMask(di, hn::Ge(where[w], hn::Zero(d)));
      const auto key = hn::Add(hn::ConvertTo(di, where[w]), hn::Set(di, static_cast<hwy::MakeSigned<T>>(first_key)));
      hn::Store(hn::IfThenElse(raised, key, hn::Load(di, arg_max)), di, arg_max);
    }
  }
}

// Takes a tile of logits into the row state and turns it into unnormalised weights in place: s -> e^(s-m).
// st [n][kPanel]; `marked` are the flags of these keys, or null.
template <class T, int kWidth, StatisticsSet kSet>
void absorb(Panel<T>& panel, T* HWY_RESTRICT st, std::size_t n, std::int64_t first_key, const std::uint8_t* marked) {
  constexpr bool kLight = kSet != StatisticsSet::none, kFull = kSet == StatisticsSet::full;
  const Tag<T> d;
  Vec<T> top[kWidth], sum[kWidth], log_sum[kWidth], distance[kWidth], marks[kWidth], behind[kWidth];
  raise_maximum<T, kWidth, kSet>(panel, st, n, first_key, top);
  for (int w = 0; w < kWidth; ++w) {
    const std::size_t at = w * kLanes<T>;
    const Vec<T> old = hn::Load(d, panel.max + at);
    hn::Store(top[w], d, panel.max + at);
    top[w] = above_infinity<T>(top[w]);
    Vec<T> change = hn::Sub(old, top[w]);
    const Vec<T> alpha = exp_clamping<T>(change);
    hn::Store(alpha, d, panel.alpha + at);
    const Vec<T> old_sum = hn::Load(d, panel.sum + at);
    sum[w] = log_sum[w] = distance[w] = marks[w] = hn::Zero(d);
    hn::Store(hn::Mul(alpha, old_sum), d, panel.sum + at);
    if constexpr (kLight) {
      const Vec<T> shifted = hn::MulAdd(change, old_sum, hn::Load(d, panel.log_sum + at));
      hn::Store(hn::Mul(alpha, shifted), d, panel.log_sum + at);
    }
    if constexpr (kFull) {
      for (T* total : {panel.distance, panel.marked}) hn::Store(hn::Mul(alpha, hn::Load(d, total + at)), d, total + at);
      behind[w] =
          count_from(d, static_cast<T>(panel.position - first_key + static_cast<std::int64_t>(at)));  // p_i - first_key
    }
  }
  for_runs(n, [&](std::size_t begin, std::size_t end) {
    Vec<T> run[kWidth], log_run[kWidth], distance_run[kWidth];
    for (int w = 0; w < kWidth; ++w) run[w] = log_run[w] = distance_run[w] = hn::Zero(d);
    for (std::size_t j = begin; j < end; ++j) {
      for (int w = 0; w < kWidth; ++w) {
        T* s = st + j * kPanel<T> + w * kLanes<T>;
        Vec<T> x = hn::Sub(hn::Load(d, s), top[w]);
        const Vec<T> e = exp_clamping<T>(x);
        hn::Store(e, d, s);
        run[w] = hn::Add(run[w], e);
        if constexpr (kLight) log_run[w] = hn::MulAdd(x, e, log_run[w]);
        if constexpr (kFull) {
          const Vec<T> away = hn::Abs(hn::Sub(behind[w], hn::Set(d, static_cast<T>(static_cast<int>(j)))));
          distance_run[w] = hn::MulAdd(away, e, distance_run[w]);
          if (marked != nullptr && marked[j] != 0) marks[w] = hn::Add(marks[w], e);
        }
      }
    }
    for (int w = 0; w < kWidth; ++w) {
      sum[w] = hn::Add(sum[w], run[w]);
      if constexpr (kLight) log_sum[w] = hn::Add(log_sum[w], log_run[w]);
      if constexpr (kFull) distance[w] = hn::Add(distance[w], distance_run[w]);
    }
  });
  for (int w = 0; w < kWidth; ++w) {
    const auto add = [&](Vec<T> more, T* totals) {
      T* total = totals + w * kLanes<T>;
      hn::Store(hn::Add(hn::Load(d, total), more), d, total);
    };
    add(sum[w], panel.sum);
    if constexpr (kLight) add(log_sum[w], panel.log_sum);
    if constexpr (kFull) {
      add(distance[w], panel.distance);
      add(marks[w], panel.marked);
    }
  }
}

// Keeps aside the logits of keys p_i - 1, p_i and p_i + 1 that lie in the tile: three diagonals. st [n][kPanel] holds
// logits, key of row 0 is first_key.
template <class T>
void catch_neighbours(Panel<T>& panel, const T* st, std::size_t n, std::int64_t first_key) {
  for (int watch = kPrevious; watch <= kNext; ++watch) {
    const std::int64_t shift = panel.position + watch - kSelf - first_key;  // row of the tile for lane 0
    const std::int64_t begin = std::max<std::int64_t>(0, -shift);
    const std::int64_t end = std::min(static_cast<std::int64_t>(panel.rows), static_cast<std::int64_t>(n) - shift);
    for (std::int64_t lane = begin; lane < end; ++lane) {
      panel.watched[watch][lane] = st[(shift + lane) * static_cast<std::int64_t>(kPanel<T>) + lane];
    }
  }
}

// The same for one kind of watched key, which is another one in each row.
template <class T>
void catch_keys(Panel<T>& panel, int watch, const T* st, std::size_t n, std::int64_t first_key) {
  const auto begin = static_cast<std::int32_t>(first_key);
  for (std::size_t lane = 0; lane < panel.rows; ++lane) {
    const auto row = static_cast<std::uint32_t>(panel.watch_key[watch][lane] - begin);
    if (row < n) panel.watched[watch][lane] = st[row * kPanel<T> + lane];
  }
}

// Keeps aside the logit of each row's first visible key, where only the logits can tell (keep, bias): -inf is hidden.
template <class T>
void catch_first(Panel<T>& panel, const T* st, std::size_t n) {
  const Tag<T> d;
  for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
    Vec<T> first = hn::Load(d, panel.watched[kFirst] + at);
    for (std::size_t j = 0; j < n; ++j) {
      const auto none_yet = hn::Eq(first, hn::Set(d, -kInfinity<T>));
      if (hn::AllFalse(d, none_yet)) break;
      first = hn::IfThenElse(none_yet, hn::Load(d, st + j * kPanel<T> + at), first);
    }
    hn::Store(first, d, panel.watched[kFirst] + at);
  }
}

// How many keys of the tile each row sees, where only the logits can tell.
template <class T>
void count_visible(Panel<T>& panel, const T* st, std::size_t n) {
  const Tag<T> d;
  for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
    Vec<T> visible = hn::Load(d, panel.visible + at);
    for (std::size_t j = 0; j < n; ++j) {
      const auto hidden = hn::Eq(hn::Load(d, st + j * kPanel<T> + at), hn::Set(d, -kInfinity<T>));
      visible = hn::Add(visible, hn::IfThenZeroElse(hidden, hn::Set(d, T{1})));
    }
    hn::Store(visible, d, panel.visible + at);
  }
}

// The results of complete rows: the factor for output and weights, and lse.
template <class T>
struct RowResults {
  alignas(64) T norm[kPanel<T>], lse[kPanel<T>];
};

// Adds the sink (a logit, -inf for none) to every row's denominator and normalises: `norm` is the weight per unit of
// e^(s - max). Leaves the total in sum and, for statistics, in log_sum; max stays that of the keys.
template <class T>
void complete_rows(Panel<T>& panel, T sink, bool with_statistics, bool with_lse, RowResults<T>& results) {
  const Tag<T> d;
  for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
    const Vec<T> keys_max = hn::Load(d, panel.max + at), key_sum = hn::Load(d, panel.sum + at);
    const Vec<T> top =
        hn::Max(hn::Set(d, std::numeric_limits<T>::lowest()), hn::Max(keys_max, hn::Set(d, sink)));  // never -inf
    Vec<T> key_change = hn::Zero(d), key_factor = hn::Set(d, T{1}), sink_change = hn::Zero(d),
           sink_weight = hn::Zero(d);
    if (sink != -kInfinity<T>) {
      // Once per row, so the exact exp is affordable; x is clamped where e^x is 0, so that x * e^x is not NaN.
      const Vec<T> least = hn::Set(d, static_cast<T>(sizeof(T) == 8 ? -2000 : -200));
      key_change = at_least(least, hn::Sub(keys_max, top));
      sink_change = at_least(least, hn::Sub(hn::Set(d, sink), top));
      key_factor = exp_of<T>(key_change);
      sink_weight = exp_of<T>(sink_change);
    }
    const Vec<T> sum = hn::MulAdd(key_factor, key_sum, sink_weight);
    const auto empty = hn::Eq(sum, hn::Zero(d));
    hn::Store(hn::IfThenZeroElse(empty, hn::Div(key_factor, sum)), d, results.norm + at);
    hn::Store(sum, d, panel.sum + at);
    if (with_statistics) {
      const Vec<T> key_log_sum = hn::MulAdd(key_change, key_sum, hn::Load(d, panel.log_sum + at));
      hn::Store(hn::MulAdd(sink_change, sink_weight, hn::Mul(key_factor, key_log_sum)), d, panel.log_sum + at);
    }
    if (with_lse) {
      const Vec<T> lse = hn::Add(top, log_of<T>(hn::IfThenElse(empty, hn::Set(d, T{1}), sum)));
      hn::Store(hn::IfThenElse(empty, hn::Set(d, -kInfinity<T>), lse), d, results.lse + at);
    }
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
