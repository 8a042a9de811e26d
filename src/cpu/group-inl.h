// A group: consecutive panels of one head that walk over the keys together, so that a block of K and V is fetched once
// for all of them. This is the unit of work of a thread; its result depends on nothing but the problem.
#if defined(POLYHEAD_CPU_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_GROUP_INL_H_
#undef POLYHEAD_CPU_GROUP_INL_H_
#else
#define POLYHEAD_CPU_GROUP_INL_H_
#endif

#include "cpu/carver.h"
#include "cpu/statistics-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Panels per group: K and V blocks are fetched from L2 or beyond once per this many panels.
inline constexpr std::size_t kGroupPanels = 8;
template <class T>
inline constexpr std::int64_t kGroupRows = static_cast<std::int64_t>(kPanel<T>* kGroupPanels);

// A block of keys and values. Pairs are of columns of k and of rows of v.
template <class T, class U>
struct KeyBlock {
  Matrix<U> k, v;
  bool finite_v = true;  // also if that is not known yet, or if no weight is 0
  Matrix<T> wide_v{};    // v, one by one, if it is not finite
};

// A thread's scratch, carved up. Everything is aligned to 64 bytes.
template <class T, class U>
struct Workspace {
  static constexpr bool kPairs = std::is_same_v<U, Pair>;
  QueryPanel<T, U>* panels;  // [kGroupPanels]
  T* st;                     // [kBlock][kPanel] logits, then weights
  T* tile;                   // [kBlock][kPanel] bias and keep
  T* rows;                   // [kPanel][kBlock] rows of bias and keep, or of weights, as they lie in the tensors
  U* q_rows;                 // [kPanel][D] widened, or in pairs
  U* k;                      // [kBlock][D]
  U* v;                      // [kBlock][padded E]
  T* live_v;                 // [kBlock][padded E] values of keys that some row sees; in pairs, all of them one by one
  U* pt;                     // [kBlock / 2][kPanel] weights in pairs; for others null

  Workspace(Carver& carver, const kernels::AttentionProblem& problem) {
    const auto D = static_cast<std::size_t>(problem.head_dim);
    const std::size_t padded_E = padded<T>(static_cast<std::size_t>(problem.value_dim));
    panels = carver.take<QueryPanel<T, U>>(kGroupPanels);
    for (std::size_t i = 0; i < kGroupPanels; ++i) {
      U* qt = carver.take<U>(kPanel<T> * D);
      T* out = carver.take<T>(kPanel<T> * padded_E);
      if (panels == nullptr) continue;  // only measuring
      panels[i].qt = qt;
      panels[i].out = out;
    }
    for (T** tile_of : {&st, &tile, &rows}) *tile_of = carver.take<T>(kBlock * kPanel<T>);
    q_rows = carver.take<U>(kPanel<T> * D);
    k = carver.take<U>(kBlock * D);
    v = carver.take<U>(kBlock * padded_E);
    live_v = carver.take<T>(kBlock * padded_E);
    pt = kPairs ? carver.take<U>(kBlock / 2 * kPanel<T>) : nullptr;
  }
};

template <class T, class U>
class Group {
  static constexpr bool kPairs = std::is_same_v<U, Pair>;

 public:
  // Rows [first_row, first_row + rows) of the sequence.
  Group(const Head<T>& head, std::int64_t first_row, std::int64_t rows, const Workspace<T, U>& workspace)
      : head_(head),
        problem_(head.problem),
        w_(workspace),
        first_row_(first_row),
        rows_(rows),
        existing_(std::clamp<std::int64_t>(head.sequence.queries - first_row, 0, rows)),
        panels_((static_cast<std::size_t>(existing_) + kPanel<T> - 1) / kPanel<T>),
        values_(head.gate != 0 && head.problem.output.present()) {}

  // `sums` [fields] receives the statistics, if they are wanted.
  void run(double* sums) {
    if (!values_) clear_output(0, rows_);
    if (values_ || reports()) {
      load_queries();
      for_key_blocks([&](kernels::KeyRange block) { visit(block); });
      for (std::size_t i = 0; i < panels_; ++i) finish(w_.panels[i], sums);
    }
    clear_padding();
  }

 private:
  bool reports() const {
    return problem_.lse.present() || wants(problem_.weights) || wants(problem_.logits) ||
           problem_.statistics_set != StatisticsSet::none;
  }
  // Are the weights or logits of this head wanted?
  bool wants(const TensorView& by_key) const {
    return by_key.present() && problem_.weight_head_of[static_cast<std::size_t>(head_.h)] >= 0;
  }

  // q_factor * q, transposed to [D][kPanel], or q in pairs; lanes without a query hold 0 or a copy of the last.
  void load_queries() {
    for (std::size_t i = 0; i < panels_; ++i) {
      QueryPanel<T, U>& panel = w_.panels[i];
      panel.row = first_row_ + static_cast<std::int64_t>(i * kPanel<T>);
      panel.rows = std::min(kPanel<T>, static_cast<std::size_t>(existing_) - i * kPanel<T>);
      panel.position = panel.row + head_.sequence.offset;
      begin(panel);
      const std::size_t inner = head_.template inner<U>();
      clear_idle_lanes(panel, inner, panel.qt);
      const std::byte* from = head_.q.row(panel.row);
      if constexpr (kPairs) {
        const Matrix<Pair> rows = read_paired_columns(
            head_.q, panel.row, panel.row + static_cast<std::int64_t>(panel.rows), head_.D, false, w_.q_rows);
        transpose(rows.data, rows.stride, panel.rows, inner, Pair{1}, panel.qt, kPanel<T>);
      } else if (head_.q.template lie_as<T>(head_.D)) {
        transpose(reinterpret_cast<const T*>(from), static_cast<std::size_t>(head_.q.stride), panel.rows, head_.D,
                  head_.q_factor, panel.qt, kPanel<T>);
      } else {
        for (std::size_t r = 0; r < panel.rows; ++r) {
          widen(head_.q.row(panel.row + static_cast<std::int64_t>(r)), head_.q.dtype, head_.D, w_.q_rows + r * head_.D);
        }
        transpose(w_.q_rows, head_.D, panel.rows, head_.D, head_.q_factor, panel.qt, kPanel<T>);
      }
    }
  }

  void begin(Panel<T>& panel) const {
    panel.reset();
    if (problem_.statistics_set != StatisticsSet::none) watch_keys(head_, panel);
  }

  // visit(keys) for blocks of keys, in order, that cover exactly what some row of the group sees by its position.
  template <class Visit>
  void for_key_blocks(const Visit& visit) const {
    if (panels_ == 0) return;
    const auto [first, rest] =
        head_.mask.keys_of_some(first_row_, first_row_ + existing_ - 1).parts({0, head_.mask.keys});
    if (!first.empty() && !rest.empty() && rest.begin == first.end) return for_blocks_of({0, rest.end}, visit);
    for_blocks_of(first, visit);
    for_blocks_of(rest, visit);
  }
  template <class Visit>
  void for_blocks_of(kernels::KeyRange range, const Visit& visit) const {
    if (range.empty()) return;
    const std::int64_t size = range.end - range.begin;
    const std::int64_t blocks = (size + static_cast<std::int64_t>(kBlock) - 1) / static_cast<std::int64_t>(kBlock);
    for (std::int64_t b = 0; b < blocks; ++b) {
      visit(kernels::KeyRange{range.begin + size * b / blocks, range.begin + size * (b + 1) / blocks});
    }
  }

  void visit(kernels::KeyRange range) {
    const KeyBlock<T, U> block = read_block(range);
    for (std::size_t i = 0; i < panels_; ++i) attend_block(w_.panels[i], range, block);
  }
  KeyBlock<T, U> read_block(kernels::KeyRange range) const {
    KeyBlock<T, U> block{read_keys(range), {}};
    if (!values_) return block;
    if constexpr (kPairs) {
      block.v = read_paired_rows(head_.v, range.begin, range.end, head_.E, head_.padded_E, w_.v);
    } else {
      block.v = read_values(range, w_.v);
    }
    return block;
  }
  Matrix<T> read_values(kernels::KeyRange range, T* copy) const {
    return read_rows(head_.v, range.begin, range.end, head_.E, head_.padded_E, panels_ > 2, copy);
  }
  // A key before the first that is seen is visited, too, if that one is the second of its pair.
  void attend_block(QueryPanel<T, U>& panel, kernels::KeyRange range, const KeyBlock<T, U>& block) {
    kernels::KeyRange seen = head_.seen_by(panel, range);
    if (seen.empty()) return;
    if (kPairs) seen.begin -= (seen.begin - range.begin) % 2;
    attend_tile(panel, seen, skip(block, seen.begin - range.begin));
  }
  // Recomputes a panel whose output is not finite: where values hold NaN or infinity, a weight of 0 may have brought
  // them to rows that do not see them.
  void walk_again(QueryPanel<T, U>& panel) {
    begin(panel);
    for_key_blocks([&](kernels::KeyRange range) {
      KeyBlock<T, U> block = read_block(range);
      if constexpr (kPairs) {
        block.wide_v = read_values(range, w_.live_v);
      } else {
        block.wide_v = block.v;
      }
      block.finite_v =
          takes_all(range) || all_finite(block.wide_v.data, block.wide_v.stride,
                                         static_cast<std::size_t>(range.end - range.begin), head_.padded_E);
      attend_block(panel, range, block);
    });
  }
  // Does every query of the group see all of these keys and take all of their values?
  bool takes_all(kernels::KeyRange range) const {
    return !head_.masked_by_tensor() && !head_.drops() &&
           head_.mask.keys_of_all(first_row_, first_row_ + existing_ - 1).has_all(range);
  }
  static KeyBlock<T, U> skip(const KeyBlock<T, U>& block, std::int64_t keys) {
    return {{block.k.row(keys), block.k.stride},
            {block.v.row(keys / kDepth<U>), block.v.stride},
            block.finite_v,
            {block.wide_v.row(keys), block.wide_v.stride}};
  }
  Matrix<U> read_keys(kernels::KeyRange range) const {
    if constexpr (kPairs) {
      return read_paired_columns(head_.k, range.begin, range.end, head_.D, panels_ > 2, w_.k);
    } else
      return read_rows(head_.k, range.begin, range.end, head_.D, head_.D, panels_ > 2, w_.k);
  }
  // st = masked logits of the keys for the panel.
  void logits(const QueryPanel<T, U>& panel, kernels::KeyRange keys, const Matrix<U>& k) const {
    masked_logits<T, U>(head_, panel, panel.qt, keys, k, {w_.st, w_.tile, w_.rows, nullptr});
  }

  void attend_tile(QueryPanel<T, U>& panel, kernels::KeyRange keys, KeyBlock<T, U> block) {
    auto n = static_cast<std::size_t>(keys.end - keys.begin);
    logits(panel, keys, block.k);
    if (problem_.statistics_set != StatisticsSet::none) watch_tile(head_, panel, w_.st, n, keys.begin);
    bool hidden[kBlock];
    std::size_t dead = 0;
    if (head_.masked_by_tensor()) {
      for (std::size_t j = 0; j < n; ++j) dead += hidden[j] = all_hidden(w_.st + j * kPanel<T>, panel.rows);
      if (dead == n) return;
    }
    absorb_tile(panel, n, keys.begin);
    if (wants(problem_.weights) && head_.sees_only(panel, keys)) {
      panel.weights_stored = store_weights_of_tile(panel, keys);
    }
    if (!values_) return;
    if (head_.drops()) drop(head_.dropout, panel, keys.begin, n, w_.st);
    if (!block.finite_v) return add_values_seen(panel, n, block.wide_v);
    const T* alpha = panel.alpha;
    if constexpr (kPairs) {
      round_weights(panel, n, w_.st, w_.pt);
      const auto keys_of = [&](std::size_t row) { return head_.keys_of(panel, row, keys); };
      accumulate_values(w_.pt, panel.rows, keys_of, block.v.data, block.v.stride, alpha, panel.fresh, panel.out,
                        head_.padded_E, head_.padded_E);
    } else {
      if (dead > 0) n = gather_live(hidden, n, block);
      const auto keys_of = [&](std::size_t row) { return dead > 0 ? n : head_.keys_of(panel, row, keys); };
      accumulate_values(w_.st, panel.rows, keys_of, block.v.data, block.v.stride, alpha, panel.fresh, panel.out,
                        head_.padded_E, head_.padded_E);
    }
    panel.fresh = false;
  }

  // out = alpha out + P V, of visible keys only.
  void add_values_seen(Panel<T>& panel, std::size_t n, const Matrix<T>& v) const {
    for (std::size_t r = 0; r < panel.rows; ++r) {
      T* out = panel.out + r * head_.padded_E;
      for (std::size_t e = 0; e < head_.padded_E; ++e) out[e] = panel.fresh ? T{0} : panel.alpha[r] * out[e];
    }
    accumulate_seen<T, false>(w_.st, n, panel.rows, v.data, v.stride, panel.out, head_.padded_E, head_.padded_E);
    panel.fresh = false;
  }

  void absorb_tile(Panel<T>& panel, std::size_t n, std::int64_t first_key) {
    const std::uint8_t* marked = head_.marked == nullptr ? nullptr : head_.marked + first_key;
    const auto with_set = [&](auto set) {
      constexpr StatisticsSet kSet = decltype(set)::value;
      if (panel.narrow()) {
        absorb<T, 1, kSet>(panel, w_.st, n, first_key, marked);
      } else {
        absorb<T, 2, kSet>(panel, w_.st, n, first_key, marked);
      }
    };
    switch (problem_.statistics_set) {
      case StatisticsSet::none: return with_set(std::integral_constant<StatisticsSet, StatisticsSet::none>{});
      case StatisticsSet::light: return with_set(std::integral_constant<StatisticsSet, StatisticsSet::light>{});
      case StatisticsSet::full: return with_set(std::integral_constant<StatisticsSet, StatisticsSet::full>{});
    }
  }

  // Closes the gaps that keys hidden from the whole panel leave, in the weights (in place) and the values (in a copy).
  std::size_t gather_live(const bool* hidden, std::size_t n, KeyBlock<T, U>& block) const {
    std::size_t live = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (hidden[j]) continue;
      if (live != j) std::copy_n(w_.st + j * kPanel<T>, kPanel<T>, w_.st + live * kPanel<T>);
      std::copy_n(block.v.data + j * block.v.stride, head_.padded_E, w_.live_v + live * head_.padded_E);
      ++live;
    }
    block.v = {w_.live_v, head_.padded_E};
    return live;
  }

  // Results.

  void finish(QueryPanel<T, U>& panel, double* sums) {
    RowResults<T> results;
    complete_rows(panel, head_.sink, sums != nullptr, problem_.lse.present(), results);
    if (values_ && !store_output(panel, results)) {
      walk_again(panel);
      complete_rows(panel, head_.sink, sums != nullptr, problem_.lse.present(), results);
      store_output(panel, results);
    }
    if (problem_.lse.present()) {
      for (std::size_t r = 0; r < panel.rows; ++r) *lse_at(panel.row + static_cast<std::int64_t>(r)) = results.lse[r];
    }
    if (sums != nullptr) report_rows(head_, panel, results, sums);
    if (wants(problem_.weights) && !panel.weights_stored) store_weights(panel, results);
    if (wants(problem_.logits)) store_logits(panel);
  }

  std::byte* output_row(std::int64_t row) const {
    const TensorView& o = problem_.output;
    const std::int64_t at =
        head_.sequence.batch * o.stride(0) + head_.h * o.stride(1) + head_.tensor_row(row) * o.stride(2);
    return static_cast<std::byte*>(o.data()) + at * static_cast<std::int64_t>(size_of(o.dtype()));
  }
  T* lse_at(std::int64_t row) const {
    const TensorView& lse = problem_.lse;
    return static_cast<T*>(lse.data()) + head_.sequence.batch * lse.stride(0) + head_.h * lse.stride(1) +
           head_.tensor_row(row) * lse.stride(2);
  }

  // output = gate / (1 - dropout) * norm * out. Returns whether all of it is finite.
  bool store_output(Panel<T>& panel, const RowResults<T>& results) const {
    const std::int64_t first = panel.row - first_row_;
    if (panel.fresh) {  // no key was seen
      clear_output(first, first + static_cast<std::int64_t>(panel.rows));
      return true;
    }
    const Tag<T> d;
    const DType dtype = problem_.output.dtype();
    const T common = static_cast<T>(head_.gate / (1 - problem_.dropout.p));
    const std::size_t E = head_.E, padded_E = head_.padded_E;
    const bool direct = dtype == dtype_of<T> && E == padded_E;
    const std::int64_t step = problem_.output.stride(2) * static_cast<std::int64_t>(size_of(dtype));
    std::byte* to = output_row(panel.row);
    T* row = panel.out;
    Vec<T> spoilt = hn::Zero(d);  // 0 * x is 0 or NaN, which Or keeps
    for (std::size_t r = 0; r < panel.rows; ++r, to += step, row += padded_E) {
      const Vec<T> factor = hn::Set(d, common * results.norm[r]);
      T* scaled = direct ? reinterpret_cast<T*>(to) : row;
      Vec<T> sum = hn::Zero(d);
      for (std::size_t e = 0; e < padded_E; e += kLanes<T>) {
        const Vec<T> x = hn::Mul(factor, hn::Load(d, row + e));
        hn::StoreU(x, d, scaled + e);
        sum = hn::MulAdd(x, hn::Zero(d), sum);
      }
      spoilt = hn::Or(spoilt, sum);
      if (!direct) narrow(row, E, to, dtype);
    }
    return hn::AllFalse(d, hn::IsNaN(spoilt));
  }

  // The weights of a panel that sees only one tile are at hand: st holds e^(s - max) of its keys. Those of other panels
  // come from a second walk over the keys, which leaves the path of the output as it is.
  bool store_weights_of_tile(const Panel<T>& panel, kernels::KeyRange keys) {
    Panel<T> completed = panel;
    RowResults<T> results;
    complete_rows(completed, head_.sink, false, false, results);
    if (!all_finite(results.norm, kPanel<T>, 1, panel.width())) return false;  // a row sees NaN
    if (clear_weights(panel, keys)) write_weights(panel, results, keys);
    return true;
  }
  void store_weights(const QueryPanel<T, U>& panel, const RowResults<T>& results) {
    const kernels::KeyRange seen = head_.seen_by(panel, {0, head_.mask.keys});
    if (!clear_weights(panel, problem_.mask.has_holes() ? kernels::KeyRange{} : seen)) return;
    for_key_blocks([&](kernels::KeyRange range) {
      const kernels::KeyRange keys = head_.seen_by(panel, range);
      if (keys.empty()) return;
      const Tag<T> d;
      logits(panel, keys, read_keys(keys));
      for_vectors(panel, static_cast<std::size_t>(keys.end - keys.begin), [&](std::size_t j, std::size_t lane) {
        T* at = w_.st + j * kPanel<T> + lane;
        const Vec<T> s = hn::Load(d, at), norm = hn::Load(d, results.norm + lane);
        const Vec<T> e = exp_nonpositive<T>(hn::Sub(s, above_infinity<T>(hn::Load(d, panel.max + lane))));
        // In a row that sees NaN all weights are NaN, but that of a hidden key is 0.
        const auto hidden = hn::Eq(s, hn::Set(d, -kInfinity<T>));
        hn::Store(hn::IfThenZeroElse(hidden, or_nan<T>(norm, e)), d, at);
      });
      write_weights(panel, results, keys);
    });
  }

  // Zeroes the panel's weights outside these keys; says whether any of its rows is wanted.
  bool clear_weights(const PanelRows<T>& panel, kernels::KeyRange keys) const {
    const auto size = static_cast<std::int64_t>(size_of(problem_.weights.dtype()));
    const std::int64_t begin = keys.empty() ? 0 : head_.sequence.weights_column + keys.begin;
    const std::int64_t end = keys.empty() ? 0 : head_.sequence.weights_column + keys.end;
    bool any = false;
    for (std::size_t r = 0; r < panel.rows; ++r) {
      std::byte* row = row_of(problem_.weights, panel.row + static_cast<std::int64_t>(r));
      if (row == nullptr) continue;
      any = true;
      std::memset(row, 0, static_cast<std::size_t>(begin * size));
      std::memset(row + end * size, 0, static_cast<std::size_t>((problem_.weights.shape(3) - end) * size));
    }
    return any;
  }

  // Writes norm * st of these keys, 0 where st is 0: a row of weights per lane.
  void write_weights(const PanelRows<T>& panel, const RowResults<T>& results, kernels::KeyRange keys) const {
    const Tag<T> d;
    const DType dtype = problem_.weights.dtype();
    const auto n = static_cast<std::size_t>(keys.end - keys.begin);
    const std::int64_t column = head_.sequence.weights_column + keys.begin;
    for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
      const std::size_t at = j * kPanel<T> + lane;
      const Vec<T> e = hn::Load(d, w_.st + at);
      hn::Store(hn::IfThenZeroElse(hn::Eq(e, hn::Zero(d)), hn::Mul(hn::Load(d, results.norm + lane), e)), d,
                w_.tile + at);
    });
    // If all rows are wanted and the keys are a multiple of four, they go straight into the tensor.
    if (problem_.weights_in_order && dtype == dtype_of<T> && n % 4 == 0) {
      T* to = reinterpret_cast<T*>(row_of(problem_.weights, panel.row)) + column;
      return transpose(w_.tile, kPanel<T>, n, panel.rows, T{1}, to,
                       static_cast<std::size_t>(problem_.weights.stride(2)));
    }
    transpose(w_.tile, kPanel<T>, n, panel.rows, T{1}, w_.rows, kBlock);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      std::byte* row = row_of(problem_.weights, panel.row + static_cast<std::int64_t>(r));
      if (row == nullptr) continue;
      narrow(w_.rows + r * kBlock, n, row + column * static_cast<std::int64_t>(size_of(dtype)), dtype);
    }
  }

  // Writes the logits of the wanted stage, in another walk over the keys; those of hidden keys are -inf.
  void store_logits(const QueryPanel<T, U>& panel) {
    fill_logits(panel.row, panel.row + static_cast<std::int64_t>(panel.rows));
    for_key_blocks([&](kernels::KeyRange range) {
      const kernels::KeyRange keys = head_.seen_by(panel, range);
      if (keys.empty()) return;
      const auto n = static_cast<std::size_t>(keys.end - keys.begin);
      const Matrix<U> k = read_keys(keys);
      logits(panel, keys, k);
      if (problem_.logit_stage != LogitStage::biased) go_back(panel, keys, k);
      transpose(w_.st, kPanel<T>, n, panel.rows, T{1}, w_.rows, kBlock);
      for (std::size_t r = 0; r < panel.rows; ++r) {
        auto* row = reinterpret_cast<T*>(row_of(problem_.logits, panel.row + static_cast<std::int64_t>(r)));
        if (row == nullptr) continue;
        std::copy_n(w_.rows + r * kBlock, n, row + head_.sequence.weights_column + keys.begin);
      }
    });
  }
  // Replaces the masked logits in st by those before the bias or before the softcap; hidden ones stay hidden.
  void go_back(const QueryPanel<T, U>& panel, kernels::KeyRange keys, const Matrix<U>& k) {
    const Tag<T> d;
    const auto n = static_cast<std::size_t>(keys.end - keys.begin);
    tile_scores(head_, panel, keys, k, panel.qt, head_.template inner<U>(), head_.q_factor, w_.tile);
    const bool capped = head_.softcap > 0 && problem_.logit_stage == LogitStage::capped;
    if (capped) apply_softcap(panel, n, head_.softcap, w_.tile, static_cast<T*>(nullptr));
    const Vec<T> factor = hn::Set(d, head_.softcap > 0 && !capped ? head_.softcap : T{1});
    for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
      const std::size_t at = j * kPanel<T> + lane;
      const Vec<T> masked = hn::Load(d, w_.st + at), none = hn::Set(d, -kInfinity<T>);
      hn::Store(hn::IfThenElse(hn::Eq(masked, none), none, hn::Mul(factor, hn::Load(d, w_.tile + at))), d, w_.st + at);
    });
  }
  void fill_logits(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t r = begin; r < end; ++r) {
      auto* row = reinterpret_cast<T*>(row_of(problem_.logits, r));
      if (row != nullptr) std::fill_n(row, problem_.logits.shape(3), -kInfinity<T>);
    }
  }

  // Where the weights or logits of a row go, or null if they are not wanted.
  std::byte* row_of(const TensorView& weights, std::int64_t row) const {
    const std::int32_t h = problem_.weight_head_of[static_cast<std::size_t>(head_.h)];
    const std::int32_t t = problem_.weight_row_of[static_cast<std::size_t>(head_.tensor_row(row))];
    if (h < 0 || t < 0) return nullptr;
    const std::int64_t at = head_.sequence.batch * weights.stride(0) + h * weights.stride(1) + t * weights.stride(2);
    return static_cast<std::byte*>(weights.data()) + at * static_cast<std::int64_t>(size_of(weights.dtype()));
  }

  void clear_output(std::int64_t begin, std::int64_t end) const {
    if (!problem_.output.present()) return;
    for (std::int64_t r = begin; r < end; ++r) {
      std::memset(output_row(first_row_ + r), 0, head_.E * size_of(problem_.output.dtype()));
    }
  }

  // Clears the results of rows beyond the sequence's own queries.
  void clear_padding() const {
    clear_output(existing_, rows_);
    if (wants(problem_.logits)) fill_logits(first_row_ + existing_, first_row_ + rows_);
    for (std::int64_t r = first_row_ + existing_; r < first_row_ + rows_; ++r) {
      if (problem_.lse.present()) *lse_at(r) = -kInfinity<T>;
      if (wants(problem_.weights) && row_of(problem_.weights, r) != nullptr) {
        std::memset(row_of(problem_.weights, r), 0,
                    static_cast<std::size_t>(problem_.weights.shape(3)) * size_of(problem_.weights.dtype()));
      }
      const TensorView& out = problem_.row_statistics;
      if (!out.present()) continue;
      T* fields = static_cast<T*>(out.data()) + head_.sequence.batch * out.stride(0) + head_.h * out.stride(1) +
                  head_.tensor_row(r) * out.stride(2);
      for (int f = 0; f < problem_.statistics_width(); ++f) {
        fields[f * out.stride(3)] = static_cast<Statistic>(f) == Statistic::max_logit ? -kInfinity<T> : T{0};
      }
    }
  }

  const Head<T>& head_;
  const kernels::AttentionProblem& problem_;
  const Workspace<T, U>& w_;
  const std::int64_t first_row_, rows_, existing_;
  const std::size_t panels_;
  const bool values_;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
