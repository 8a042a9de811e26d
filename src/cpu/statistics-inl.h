// What a head did, from the state of complete rows: the fields of Statistic, one vector of rows at a time.
#if defined(POLYHEAD_CPU_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_STATISTICS_INL_H_
#undef POLYHEAD_CPU_STATISTICS_INL_H_
#else
#define POLYHEAD_CPU_STATISTICS_INL_H_
#endif

#include "cpu/head-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// [field][row of the panel]
template <class T>
struct Fields {
  alignas(64) T of[kFullStatistics][kPanel<T>];
  T* operator[](Statistic statistic) { return of[static_cast<int>(statistic)]; }
};

inline Statistic slot(Statistic first, int index) { return static_cast<Statistic>(static_cast<int>(first) + index); }

// Does every row see an unbroken range of keys that begins at key 0?
template <class T>
bool sees_from_first(const Head<T>& head) {
  return !head.masked_by_tensor() && head.mask.begins_at_first();
}

// Says which keys to watch while the tiles of this panel pass.
template <class T>
void watch_keys(const Head<T>& head, Panel<T>& panel) {
  panel.reset_statistics(head.problem.statistics_set == StatisticsSet::full);
  if (sees_from_first(head)) {
    const Tag<T> d;
    const Vec<T> keys = hn::Set(d, static_cast<T>(head.mask.keys));
    for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
      const std::int64_t row = panel.row + static_cast<std::int64_t>(at);
      const Vec<T> end = count_from(d, static_cast<T>(row + head.mask.end_shift));
      hn::Store(hn::Min(hn::Max(hn::Zero(d), end), keys), d, panel.visible + at);
    }
  } else if (!head.masked_by_tensor()) {
    for (std::size_t lane = 0; lane < panel.rows; ++lane) {
      const auto seen = head.mask.keys_of(panel.row + static_cast<std::int64_t>(lane));
      panel.visible[lane] = static_cast<T>(seen.count());
      panel.watch_key[kFirst][lane] = static_cast<std::int32_t>(seen.lowest());
    }
  }
  const ConstTensorView& targets = head.problem.target_keys;
  if (!targets.present()) return;
  for (std::size_t lane = 0; lane < panel.rows; ++lane) {
    const std::int64_t row = head.tensor_row(panel.row) + static_cast<std::int64_t>(lane);
    const auto* places = static_cast<const std::int32_t*>(targets.data()) + head.sequence.batch * targets.stride(0) +
                         row * targets.stride(1);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t key = places[k * targets.stride(2)] - head.sequence.key_begin;
      panel.watch_key[kTarget0 + k][lane] = key < 0 ? kNoKey : static_cast<std::int32_t>(key);
    }
  }
}

// The part of the statistics that needs a tile's logits, before absorb turns them into weights.
template <class T>
void watch_tile(const Head<T>& head, Panel<T>& panel, const T* st, std::size_t n, std::int64_t first_key) {
  catch_neighbours(panel, st, n, first_key);
  if (sees_from_first(head)) {
    if (first_key == 0) std::copy_n(st, panel.width(), panel.watched[kFirst]);
  } else if (head.masked_by_tensor()) {
    catch_first(panel, st, n);
    count_visible(panel, st, n);
  } else {
    catch_keys(panel, kFirst, st, n, first_key);
  }
  if (!head.problem.target_keys.present()) return;
  for (int k = 0; k < 4; ++k) catch_keys(panel, kTarget0 + k, st, n, first_key);
}

// Weight of a watched key; its count field is 1 where the row sees it.
template <class T>
HWY_INLINE void watched_weight(const Panel<T>& panel, const RowResults<T>& rows, int watch, std::size_t at, T* weight,
                               T* count) {
  const Tag<T> d;
  const Vec<T> s = hn::Load(d, panel.watched[watch] + at);
  const auto unseen = hn::Eq(s, hn::Set(d, -kInfinity<T>));
  const Vec<T> e = exp_nonpositive<T>(hn::Sub(s, above_infinity<T>(hn::Load(d, panel.max + at))));
  hn::Store(hn::Mul(e, hn::Load(d, rows.norm + at)), d, weight + at);
  if (count != nullptr) hn::Store(hn::IfThenZeroElse(unseen, hn::Set(d, T{1})), d, count + at);
}

template <class T>
HWY_INLINE void light_fields(const Head<T>& head, const Panel<T>& panel, const RowResults<T>& rows, std::size_t at,
                             Fields<T>& fields) {
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  const Vec<T> one = hn::Set(d, T{1}), zero = hn::Zero(d);
  const Vec<T> visible = hn::Load(d, panel.visible + at);
  const auto counted = hn::Gt(visible, zero);
  const auto put = [&](Statistic statistic, Vec<T> value) {
    hn::Store(hn::IfThenElseZero(counted, value), d, fields[statistic] + at);
  };
  const Vec<T> sum = hn::Load(d, panel.sum + at);
  const Vec<T> safe_sum = hn::IfThenElse(counted, sum, one);
  // H = ln l - u/l: both terms are of the size of H, nothing cancels.
  const Vec<T> mean_log = hn::Div(hn::Load(d, panel.log_sum + at), safe_sum);
  const Vec<T> entropy = at_least(zero, hn::Sub(log_of<T>(safe_sum), mean_log));
  const Vec<T> outcomes = hn::Add(visible, hn::Set(d, head.sink == -kInfinity<T> ? T{0} : T{1}));
  const auto several = hn::And(counted, hn::Gt(outcomes, one));
  const Vec<T> most = hn::Log(d, hn::IfThenElse(several, outcomes, hn::Set(d, T{2})));
  put(Statistic::rows, one);
  put(Statistic::entropy, entropy);
  put(Statistic::normalised_rows, hn::IfThenElseZero(several, one));
  put(Statistic::normalised_entropy, hn::IfThenElseZero(several, hn::Div(entropy, most)));
  put(Statistic::max_weight, hn::Load(d, rows.norm + at));
  const auto first_position = static_cast<hwy::MakeSigned<T>>(panel.position + static_cast<std::int64_t>(at));
  const auto offset = hn::Sub(hn::Load(di, panel.arg_max + at), count_from(di, first_position));
  put(Statistic::max_offset, hn::ConvertTo(d, offset));
  const Vec<T> logit = hn::Load(d, panel.max + at);
  hn::Store(hn::IfThenElse(counted, logit, hn::Set(d, -kInfinity<T>)), d, fields[Statistic::max_logit] + at);
  watched_weight<T>(panel, rows, kFirst, at, fields[Statistic::first_weight], nullptr);
  watched_weight<T>(panel, rows, kSelf, at, fields[Statistic::self_weight], fields[Statistic::self_rows]);
  watched_weight<T>(panel, rows, kPrevious, at, fields[Statistic::previous_weight], fields[Statistic::previous_rows]);
  watched_weight<T>(panel, rows, kNext, at, fields[Statistic::next_weight], fields[Statistic::next_rows]);
}

template <class T>
HWY_INLINE void full_fields(const Head<T>& head, const Panel<T>& panel, const RowResults<T>& rows, std::size_t at,
                            Fields<T>& fields) {
  const Tag<T> d;
  const Vec<T> norm = hn::Load(d, rows.norm + at);
  hn::Store(hn::Mul(norm, hn::Load(d, panel.distance + at)), d, fields[Statistic::distance] + at);
  hn::Store(hn::Mul(norm, hn::Load(d, panel.marked + at)), d, fields[Statistic::marked_weight] + at);
  for (int k = 0; k < 4; ++k) {
    watched_weight<T>(panel, rows, kTarget0 + k, at, fields[slot(Statistic::target_weight, k)],
                      fields[slot(Statistic::target_rows, k)]);
  }
  const auto counted = hn::Gt(hn::Load(d, panel.visible + at), hn::Zero(d));
  const Vec<T> top = hn::Max(hn::Load(d, panel.max + at), hn::Set(d, head.sink));
  const Vec<T> sink = hn::Div(exp_of<T>(at_least(hn::Set(d, T{-2000}), hn::Sub(hn::Set(d, head.sink), top))),
                              hn::Load(d, panel.sum + at));
  hn::Store(hn::IfThenElseZero(counted, sink), d, fields[Statistic::sink_weight] + at);
}

// Adds the panel's rows to `sums` [fields] and, if wanted, writes each row's fields.
template <class T>
void report_rows(const Head<T>& head, const Panel<T>& panel, const RowResults<T>& rows, double* sums) {
  const kernels::AttentionProblem& problem = head.problem;
  const bool full = problem.statistics_set == StatisticsSet::full;
  const int width = problem.statistics_width();
  Fields<T> fields;
  for (std::size_t at = 0; at < panel.rows; at += kLanes<T>) {
    light_fields(head, panel, rows, at, fields);
    if (full) full_fields(head, panel, rows, at, fields);
  }
  const Tag<T> d;
  for (int f = 0; f < width; ++f) {
    const bool maximum = static_cast<Statistic>(f) == Statistic::max_logit;
    Vec<T> total = hn::Set(d, maximum ? -kInfinity<T> : T{0});
    for (std::size_t at = 0; at < panel.rows; at += kLanes<T>) {
      const Vec<T> values = hn::Load(d, fields.of[f] + at);
      const auto exists = hn::FirstN(d, panel.rows - at);
      total = maximum ? hn::Max(total, hn::IfThenElse(exists, values, total))
                      : hn::Add(total, hn::IfThenElseZero(exists, values));
    }
    if (maximum) {
      sums[f] = std::max(sums[f], static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, total))));
    } else {
      sums[f] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, total)));
    }
  }
  const TensorView& out = problem.row_statistics;
  if (!out.present()) return;
  for (std::size_t lane = 0; lane < panel.rows; ++lane) {
    const std::int64_t row = head.tensor_row(panel.row) + static_cast<std::int64_t>(lane);
    T* to = static_cast<T*>(out.data()) + head.sequence.batch * out.stride(0) + head.h * out.stride(1) +
            row * out.stride(2);
    for (int f = 0; f < width; ++f) to[f * out.stride(3)] = fields.of[f][lane];
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
