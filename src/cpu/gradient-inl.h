// A tile of the backward pass: the weights P^T and the gradients dS^T of the logits of one block of keys for one panel
// of queries, in the layout of the forward pass.
//   P = e^(S - lse)     dP = dO V^T     dS = P (dP - delta + dlse)     delta = sum P dP = dO . O
// lse and dO . O come from the forward pass, except where a panel sees the keys of one block only: there both are made
// in the tile, which is more exact and reads less. Merged results have been summed over keys elsewhere too: they are
// taken as they are, and no row is normalised again.
#if defined(POLYHEAD_CPU_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_GRADIENT_INL_H_
#undef POLYHEAD_CPU_GRADIENT_INL_H_
#else
#define POLYHEAD_CPU_GRADIENT_INL_H_
#endif

#include "cpu/gradient_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// What weights and gradients are multiplied by.
template <class T>
struct GradientFactors {
  T values = 1;  // P in dV, and dP: gate / (1 - dropout)
  T scores = 1;  // dS: the scale of q . k
};

// dP, or 0 where P is 0: dP of a key that the row does not see may be NaN.
template <class T>
HWY_INLINE Vec<T> where_seen(Vec<T> p, Vec<T> dp) {
  return hn::IfThenZeroElse(hn::Eq(p, hn::Zero(Tag<T>())), dp);  // not Ne, which is false for NaN on AVX-512
}

// st <- e^(st - max of the lane), and norm <- the lane's factor from that to weights: 1 / (their sum + e^(sink - max)).
// kDelta: also raw_delta <- sum P dP, and panel.delta += factor * raw_delta. st, dp [n][kPanel].
template <class T, int kWidth, bool kDelta>
void softmax_in_tile(GradientPanel<T>& panel, std::size_t n, T sink, T factor, T* HWY_RESTRICT st,
                     const T* HWY_RESTRICT dp, Vec<T> (&norm)[kWidth], Vec<T> (&raw_delta)[kWidth]) {
  const Tag<T> d;
  Vec<T> top[kWidth], sum[kWidth];
  // The largest key gives e^0 = 1 exactly, unless the sink is far above all keys.
  const T far_sink = sink - static_cast<T>(80);
  for (int w = 0; w < kWidth; ++w) top[w] = hn::Set(d, std::max(far_sink, std::numeric_limits<T>::lowest()));
  for (std::size_t j = 0; j < n; ++j) {
    for (int w = 0; w < kWidth; ++w) top[w] = hn::Max(top[w], hn::Load(d, st + j * kPanel<T> + w * kLanes<T>));
  }
  for (int w = 0; w < kWidth; ++w) sum[w] = raw_delta[w] = hn::Zero(d);
  for_runs(n, [&](std::size_t begin, std::size_t end) {
    Vec<T> run[kWidth], delta_run[kWidth];
    for (int w = 0; w < kWidth; ++w) run[w] = delta_run[w] = hn::Zero(d);
    for (std::size_t j = begin; j < end; ++j) {
      for (int w = 0; w < kWidth; ++w) {
        const std::size_t at = j * kPanel<T> + w * kLanes<T>;
        const Vec<T> e = exp_nonpositive<T>(hn::Sub(hn::Load(d, st + at), top[w]));
        hn::Store(e, d, st + at);
        run[w] = hn::Add(run[w], e);
        if constexpr (kDelta) delta_run[w] = hn::MulAdd(e, where_seen<T>(e, hn::Load(d, dp + at)), delta_run[w]);
      }
    }
    for (int w = 0; w < kWidth; ++w) {
      sum[w] = hn::Add(sum[w], run[w]);
      raw_delta[w] = hn::Add(raw_delta[w], delta_run[w]);
    }
  });
  for (int w = 0; w < kWidth; ++w) {
    const std::size_t at = w * kLanes<T>;
    Vec<T> sink_weight = hn::Zero(d);
    if (sink != -kInfinity<T>) {
      sink_weight = exp_of<T>(at_least(hn::Set(d, T{-2000}), hn::Sub(hn::Set(d, sink), top[w])));
    }
    sum[w] = hn::Add(sum[w], sink_weight);
    hn::Store(sum[w], d, panel.total + at);
    const auto none = hn::Eq(sum[w], hn::Zero(d));  // no key, no sink
    norm[w] = hn::IfThenZeroElse(none, hn::Div(hn::Set(d, T{1}), sum[w]));
    hn::Store(hn::IfThenZeroElse(none, hn::Div(sink_weight, sum[w])), d, panel.sink_weight + at);
    raw_delta[w] = hn::IfThenZeroElse(none, hn::Div(raw_delta[w], sum[w]));
    if constexpr (kDelta) {
      hn::Store(hn::Add(hn::Mul(hn::Set(d, factor), raw_delta[w]), hn::Load(d, panel.delta + at)), d, panel.delta + at);
    }
  }
}

// Logits to weights and dP to dS, in place. st, dp [n][kPanel]. kGate: adds sum_j P dP to gate_sum [kPanel].
template <class T, int kWidth, bool kGate>
void through_softmax(const GradientPanel<T>& panel, std::size_t n, const GradientFactors<T>& factors,
                     T* HWY_RESTRICT st, T* HWY_RESTRICT dp, T* HWY_RESTRICT gate_sum) {
  const Tag<T> d;
  const Vec<T> values = hn::Set(d, factors.values), scores = hn::Set(d, factors.scores);
  Vec<T> lse[kWidth], delta[kWidth], gate[kWidth];
  for (int w = 0; w < kWidth; ++w) {
    lse[w] = hn::Load(d, panel.lse + w * kLanes<T>);
    delta[w] = hn::Load(d, panel.delta + w * kLanes<T>);
    gate[w] = hn::Load(d, gate_sum + w * kLanes<T>);
  }
  for (std::size_t j = 0; j < n; ++j) {
    for (int w = 0; w < kWidth; ++w) {
      const std::size_t at = j * kPanel<T> + w * kLanes<T>;
      const Vec<T> p = exp_nonpositive<T>(hn::Sub(hn::Load(d, st + at), lse[w]));
      const Vec<T> seen = where_seen<T>(p, hn::Load(d, dp + at));
      if constexpr (kGate) gate[w] = hn::MulAdd(p, seen, gate[w]);
      hn::Store(hn::Mul(values, p), d, st + at);
      // The product is rounded before delta is subtracted, as delta was: they are equal if the row sees one key.
      hn::Store(hn::Mul(hn::Mul(scores, p), hn::Sub(hn::Mul(values, seen), delta[w])), d, dp + at);
    }
  }
  for (int w = 0; w < kWidth; ++w) hn::Store(gate[w], d, gate_sum + w * kLanes<T>);
}

// The same for a panel with one tile.
template <class T, int kWidth>
void through_softmax_in_tile(GradientPanel<T>& panel, std::size_t n, T sink, const GradientFactors<T>& factors,
                             T* HWY_RESTRICT st, T* HWY_RESTRICT dp, T* HWY_RESTRICT gate_sum) {
  const Tag<T> d;
  const Vec<T> values = hn::Set(d, factors.values), scores = hn::Set(d, factors.scores);
  Vec<T> norm[kWidth], raw_delta[kWidth], delta[kWidth];
  softmax_in_tile<T, kWidth, true>(panel, n, sink, factors.values, st, dp, norm, raw_delta);
  for (int w = 0; w < kWidth; ++w) {
    delta[w] = hn::Load(d, panel.delta + w * kLanes<T>);
    hn::Store(hn::Add(raw_delta[w], hn::Load(d, gate_sum + w * kLanes<T>)), d, gate_sum + w * kLanes<T>);
  }
  for (std::size_t j = 0; j < n; ++j) {
    for (int w = 0; w < kWidth; ++w) {
      const std::size_t at = j * kPanel<T> + w * kLanes<T>;
      const Vec<T> p = hn::Mul(norm[w], hn::Load(d, st + at));
      const Vec<T> seen = where_seen<T>(p, hn::Load(d, dp + at));
      hn::Store(hn::Mul(values, p), d, st + at);
      // The product is rounded before delta is subtracted, as delta was: they are equal if the row sees one key.
      hn::Store(hn::Mul(hn::Mul(scores, p), hn::Sub(hn::Mul(values, seen), delta[w])), d, dp + at);
    }
  }
}

// st [n][kPanel]: logits to P, in place.
template <class T, int kWidth>
void make_weights(GradientPanel<T>& panel, std::size_t n, T sink, T* st) {
  const Tag<T> d;
  Vec<T> norm[kWidth], unused[kWidth];
  for (int w = 0; w < kWidth; ++w) norm[w] = hn::Load(d, panel.norm + w * kLanes<T>);
  if (panel.one_tile) softmax_in_tile<T, kWidth, false>(panel, n, sink, T{1}, st, st, norm, unused);
  for (std::size_t j = 0; j < n; ++j) {
    for (int w = 0; w < kWidth; ++w) {
      T* p = st + j * kPanel<T> + w * kLanes<T>;
      const Vec<T> x = hn::Load(d, p);
      const Vec<T> e = panel.one_tile ? x : exp_nonpositive<T>(hn::Sub(x, hn::Load(d, panel.lse + w * kLanes<T>)));
      hn::Store(hn::Mul(norm[w], e), d, p);
    }
  }
}

// to [kPanel] += a sum over n keys: add(sum, at) returns the sum with the term at offset `at` of a tile [n][kPanel].
template <class T, class Add>
void add_over_keys(const PanelRows<T>& panel, std::size_t n, T* to, const Add& add) {
  const Tag<T> d;
  for (std::size_t lane = 0; lane < panel.width(); lane += kLanes<T>) {
    Vec<T> sum = hn::Zero(d);
    for_runs(n, [&](std::size_t begin, std::size_t end) {
      Vec<T> run = hn::Zero(d);
      for (std::size_t j = begin; j < end; ++j) run = add(run, j * kPanel<T> + lane);
      sum = hn::Add(sum, run);
    });
    hn::Store(hn::Add(hn::Load(d, to + lane), sum), d, to + lane);
  }
}

// P to the weights that dV takes and dP to dS, in place, with all options. All are [n][kPanel]: `kept` is P after
// dropout (P itself without), `dweights` may be null. A gate of 0 lets nothing through, not even NaN. dP - delta of a
// row that sees one key is set to 0, for dO . O is rounded.
template <class T>
void through_softmax_and_more(GradientPanel<T>& panel, std::size_t n, const GradientFactors<T>& factors, const T* kept,
                              const T* dweights, T* pt, T* dp, T* gate_sum) {
  const Tag<T> d;
  const Vec<T> zero = hn::Zero(d), values = hn::Set(d, factors.values), scores = hn::Set(d, factors.scores);
  for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
    const std::size_t at = j * kPanel<T> + lane;
    const Vec<T> p = hn::Load(d, pt + at), used = hn::Load(d, kept + at);
    const Vec<T> seen = where_seen<T>(used, hn::Load(d, dp + at));
    hn::Store(hn::MulAdd(used, seen, hn::Load(d, gate_sum + lane)), d, gate_sum + lane);
    Vec<T> total = factors.values == 0 ? zero : hn::Mul(values, seen);
    if (dweights != nullptr) total = hn::Add(total, where_seen<T>(p, hn::Load(d, dweights + at)));
    hn::Store(total, d, dp + at);
  });
  if (panel.sums_delta) {
    add_over_keys(panel, n, panel.delta, [&](Vec<T> sum, std::size_t at) {
      return hn::MulAdd(hn::Load(d, pt + at), hn::Load(d, dp + at), sum);
    });
  }
  for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
    const std::size_t at = j * kPanel<T> + lane;
    const Vec<T> p = hn::Load(d, pt + at), delta = hn::Load(d, panel.delta + lane);
    const auto alone = hn::Eq(p, hn::Load(d, panel.lone + lane));
    const Vec<T> away = hn::IfThenZeroElse(alone, hn::Sub(hn::Load(d, dp + at), delta));
    hn::Store(hn::Mul(hn::Mul(scores, p), hn::Add(away, hn::Load(d, panel.dlse + lane))), d, dp + at);
    hn::Store(hn::Mul(values, hn::Load(d, kept + at)), d, pt + at);
  });
}

// One head in the backward pass: reads its panels and makes its tiles.
template <class T>
class GradientHead {
 public:
  GradientHead(const kernels::AttentionGradientProblem& problem, std::int64_t sequence, std::int64_t h,
               const GradientWorkspace<T>& workspace)
      : problem_(problem),
        w_(workspace),
        head_(problem.forward, sequence, h),
        dout_(problem.doutput, head_.sequence.batch, h, head_.sequence.query_begin),
        output_(problem.output, head_.sequence.batch, h, head_.sequence.query_begin),
        undropped_(static_cast<T>(1 / (1 - problem.forward.dropout.p))),
        pairs_(takes_pairs<T>(problem)) {}

  const Head<T>& head() const { return head_; }
  std::size_t padded_D() const { return padded<T>(head_.D); }
  bool pairs() const { return pairs_; }  // are products made of pairs of bf16?
  bool wants_gate() const { return problem_.dgates.present(); }
  // A head with gate 0 sends back only what flows around the gate.
  bool sends() const { return head_.gate != 0 || problem_.dlse.present() || problem_.dweights.present(); }
  // Is there anything to be computed from its keys?
  bool takes_part() const { return sends() || wants_gate(); }
  // Does dS depend on more than P, dP and a gate that is not 0?
  bool takes_more() const {
    return head_.drops() || head_.gate == 0 || problem_.dweights.present() || problem_.dlse.present();
  }
  bool reads_values() const { return head_.gate != 0 || wants_gate(); }

  T undropped() const { return undropped_; }
  // Can a tile hold keys that none of its queries sees? By keep or bias, and between the first keys and the window.
  bool may_hide_keys() const { return head_.masked_by_tensor() || problem_.forward.mask.has_holes(); }

  std::int64_t panels() const { return panels_of<T>(head_.sequence); }
  PanelRows<T> rows_of(std::int64_t index) const {
    const std::int64_t row = index * static_cast<std::int64_t>(kPanel<T>);
    const std::int64_t rows = std::min(static_cast<std::int64_t>(kPanel<T>), head_.sequence.queries - row);
    return {row, row + head_.sequence.offset, static_cast<std::size_t>(rows)};
  }

  // Rows of keys and values; if they cannot be read where they are, they are copied to one of kBlocksAtOnce places.
  KeyRows<T> read_keys(kernels::KeyRange keys, std::size_t place = 0) const {
    const bool often = panels() > 2;
    KeyRows<T> read{
        read_rows(head_.k, keys.begin, keys.end, head_.D, w_.D, often, w_.k + place * kBlock * w_.D), {}, {}};
    if (!pairs_) return read;
    const PairWorkspace& w = w_.pairs;
    read.by_column =
        read_paired_columns(head_.k, keys.begin, keys.end, head_.D, often, w.k_by_column + place * kBlock * w.D);
    read.by_row =
        read_paired_rows(head_.k, keys.begin, keys.end, head_.D, w_.D, w.k_by_row + place * kBlock / 2 * w_.D);
    return read;
  }
  KeyRows<T> read_values(kernels::KeyRange keys, std::size_t place = 0) const {
    if (!reads_values()) return {};
    const bool often = panels() > 2;
    if (!pairs_) {
      return {read_rows(head_.v, keys.begin, keys.end, head_.E, w_.E, often, w_.v + place * kBlock * w_.E), {}, {}};
    }
    const PairWorkspace& w = w_.pairs;
    return {{},
            read_paired_columns(head_.v, keys.begin, keys.end, head_.E, often, w.v_by_column + place * kBlock * w.E),
            {}};
  }

  // Reads the queries of a panel, which sees one block only or several, and their gradients from above. delta is
  // complete unless tiles add to it or there are dweights.
  void load(std::int64_t index, bool one_block, GradientPanel<T>& panel) const {
    static_cast<PanelRows<T>&>(panel) = rows_of(index);
    const bool one_tile = one_block && !problem_.merged;
    panel.one_tile = panel.sums_delta = one_tile;
    const std::int64_t begin = panel.row, end = begin + static_cast<std::int64_t>(panel.rows);
    panel.q = read_rows(head_.q, begin, end, head_.D, padded_D(), false, panel.q_copy);
    if (pairs_) {
      pair_up_rows(panel, head_.q, head_.D, panel.q_lanes, panel.q_rows);
    } else {
      into_lanes(panel, panel.q, head_.D, head_.q_factor, panel.qt);
    }
    std::fill_n(panel.lse, kPanel<T>, kInfinity<T>);  // e^(s - inf) = 0: lanes without a query
    std::fill_n(panel.norm, kPanel<T>, T{1});
    std::fill_n(panel.delta, kPanel<T>, T{0});
    if (reads_values()) {
      panel.dout = read_rows(dout_, begin, end, head_.E, head_.padded_E, false, panel.dout_copy);
      if (pairs_) {
        pair_up_rows(panel, dout_, head_.E, panel.dout_lanes, panel.dout_rows);
      } else {
        into_lanes(panel, panel.dout, head_.E, T{1}, panel.dout_t);
      }
    }
    if (!one_tile || takes_more()) find_lone_keys(panel);
    if (!one_tile) read_forward(panel);
    panel.sums_weights = !one_tile && rounds_visibly(panel.lse, panel.rows);
    std::fill_n(panel.dlse, kPanel<T>, T{0});
    for (std::size_t r = 0; problem_.dlse.present() && r < panel.rows; ++r) {
      panel.dlse[r] = static_cast<T>(row_number(problem_.dlse, begin + static_cast<std::int64_t>(r)));
    }
  }

  // panel.pt = weights after dropout, times the gate; panel.dst = scale * dS, of the keys for the panel. Adds sum_j P
  // dP over the keys that dropout left to gate_sum [kPanel]. Completes delta and sink_weight of a panel with one tile.
  void make_tile(GradientPanel<T>& panel, kernels::KeyRange keys, const KeyRows<T>& k, const KeyRows<T>& v, T scale,
                 T* gate_sum) const {
    const auto n = static_cast<std::size_t>(keys.end - keys.begin);
    logits(panel, keys, k, panel.pt);
    for (std::size_t j = 0; may_hide_keys() && j < n; ++j) {
      panel.hidden[j] = all_hidden(panel.pt + j * kPanel<T>, panel.rows);
    }
    const GradientFactors<T> factors{static_cast<T>(head_.gate) * undropped_, scale};
    const auto make = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      if (reads_values()) {
        weight_gradients(panel, keys, v);
      } else {
        std::fill_n(panel.dst, n * kPanel<T>, T{0});
      }
      const bool ahead = panel.sums_delta && !panel.one_tile;
      if (takes_more() || ahead || panel.sums_weights) {
        make_weights<T, kWidth>(panel, n, head_.sink, panel.pt);
        if (panel.sums_weights) sum_weights(panel, n);
        add_more(panel, keys, factors, gate_sum);
      } else if (panel.one_tile) {
        through_softmax_in_tile<T, kWidth>(panel, n, head_.sink, factors, panel.pt, panel.dst, gate_sum);
      } else {
        if (wants_gate()) {
          through_softmax<T, kWidth, true>(panel, n, factors, panel.pt, panel.dst, gate_sum);
        } else {
          through_softmax<T, kWidth, false>(panel, n, factors, panel.pt, panel.dst, gate_sum);
        }
        if (factors.values != 1) clear_lone_keys(panel, n, factors.values);
      }
    };
    panel.narrow() ? make(std::integral_constant<int, 1>{}) : make(std::integral_constant<int, 2>{});
    panel.finite = rows_finite(panel);
    if (!panel.finite) hide_again(panel, keys, k);
  }
  // May a query of the panel give one of these keys weight 0? What such a weight multiplies must not count even if it
  // is NaN.
  bool may_weigh_nothing(const GradientPanel<T>& panel, kernels::KeyRange keys) const {
    return !panel.finite || head_.drops() || head_.masked_by_tensor() || !head_.sees_all(panel, keys);
  }

  // Is it clear from each row's softmax and delta that q and dO are finite? With NaN or infinity in q every logit of
  // the row is NaN or infinite: then so is its sum or lse, or the row sees nothing. With NaN or infinity in dO so is
  // delta. A merged lse may be finite by keys, or a sink, of another shard.
  bool vouches_for_rows(const GradientPanel<T>& panel) const {
    const bool beside = problem_.dweights.present() || problem_.dlse.present();
    if (problem_.merged || beside || head_.softcap > 0 || head_.sink != -kInfinity<T> || head_.gate == 0 ||
        head_.drops()) {
      return false;
    }
    const Tag<T> d;
    bool all = true;
    for (std::size_t at = 0; at < panel.rows; at += kLanes<T>) {
      const Vec<T> delta = hn::Load(d, panel.delta + at);
      const auto sees = panel.one_tile ? hn::Gt(hn::Load(d, panel.total + at), hn::Zero(d))
                                       : hn::Lt(hn::Abs(hn::Load(d, panel.lse + at)), hn::Set(d, static_cast<T>(1e30)));
      const auto good = hn::And(sees, hn::Eq(hn::Sub(delta, delta), hn::Zero(d)));
      all = all && hn::AllFalse(d, hn::AndNot(good, hn::FirstN(d, panel.rows - at)));
    }
    return all;
  }

  // dst *= the softcap's derivative: turns the gradient of the capped logits into that of q . k.
  void through_softcap(const GradientPanel<T>& panel, std::size_t n) const {
    if (head_.softcap == 0) return;
    const Tag<T> d;
    for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
      T* ds = panel.dst + j * kPanel<T> + lane;
      const Vec<T> slope = where_seen<T>(hn::Load(d, ds), hn::Load(d, w_.slopes + j * kPanel<T> + lane));
      hn::Store(hn::Mul(hn::Load(d, ds), slope), d, ds);
    });
  }

  // The rounding of lse, half a unit in its last place, is an error that all weights of the row share. Their own errors
  // average out in dq, this one does not: where it shows, dq is divided by the sum of the weights.
  bool rounds_visibly(const T* lse, std::size_t rows) const {
    if (problem_.merged) return false;  // the weights of keys elsewhere are not known
    return size_of(problem_.forward.dtype) < sizeof(float) ? any_beyond(kFar, lse, rows) : any_beyond(16, lse, rows);
  }
  // Beyond this |lse| it is larger than all other errors of a row, and the row is normalised again, for dk and dv too.
  static constexpr T kFar = 1024;
  static bool any_beyond(T size, const T* lse, std::size_t rows) {
    bool found = false;  // no early exit, so that the loop is vectorised
    for (std::size_t r = 0; r < rows; ++r) {
      const T away = std::abs(lse[r]);
      found |= (away > size) & (away < static_cast<T>(1e30));  // a row with keys
    }
    return found;
  }
  // norm <- 1 / the sum of the weights that these keys and the sink have with a norm of 1.
  template <class ForBlocks>
  void normalise(GradientPanel<T>& panel, const ForBlocks& for_blocks) const {
    T sums[kPanel<T>];
    std::copy_n(panel.sink_weight, kPanel<T>, sums);
    for_blocks([&](kernels::KeyRange keys) {
      const auto n = static_cast<std::size_t>(keys.end - keys.begin);
      logits(panel, keys, read_keys(keys), panel.pt);
      make_weights<T, 2>(panel, n, head_.sink, panel.pt);
      sum_weights(panel, n);
      for (std::size_t r = 0; r < panel.rows; ++r) sums[r] += panel.weight_sum[r];
    });
    for (std::size_t r = 0; r < panel.rows; ++r) {
      if (sums[r] > 0) panel.norm[r] = 1 / sums[r];
    }
  }

 private:
  // st [n][kPanel] = the masked logits of the keys for the panel.
  void logits(const GradientPanel<T>& panel, kernels::KeyRange keys, const KeyRows<T>& k, T* st) const {
    const LogitTiles<T> tiles{st, w_.mask, w_.rows, w_.slopes};
    if constexpr (kMayPair<T>) {
      if (pairs_) return masked_logits<T>(head_, panel, panel.q_lanes, keys, k.by_column, tiles);
    }
    masked_logits<T>(head_, panel, panel.qt, keys, k.rows, tiles);
  }
  // panel.dst = dP of the keys.
  void weight_gradients(GradientPanel<T>& panel, kernels::KeyRange keys, const KeyRows<T>& v) const {
    if constexpr (kMayPair<T>) {
      if (pairs_) {
        return tile_scores<T>(head_, panel, keys, v.by_column, panel.dout_lanes, w_.pairs.E, T{1}, panel.dst);
      }
    }
    tile_scores<T>(head_, panel, keys, v.rows, panel.dout_t, head_.E, T{1}, panel.dst);
  }
  // weight_sum [kPanel] = the sum of P, which is in panel.pt [n][kPanel], over the keys.
  void sum_weights(GradientPanel<T>& panel, std::size_t n) const {
    const Tag<T> d;
    std::fill_n(panel.weight_sum, kPanel<T>, T{0});
    add_over_keys(panel, n, panel.weight_sum,
                  [&](Vec<T> sum, std::size_t at) { return hn::Add(sum, hn::Load(d, panel.pt + at)); });
  }
  void find_lone_keys(GradientPanel<T>& panel) const {
    std::fill_n(panel.lone, kPanel<T>, problem_.merged ? T{2} : T{1});
    if (head_.masked_by_tensor()) return;  // any row may have one key left
    for (std::size_t r = 0; r < panel.rows; ++r) {
      if (head_.mask.keys_of(panel.row + static_cast<std::int64_t>(r)).count() != 1) panel.lone[r] = T{2};
    }
  }
  // A row that sees one key has dS = 0, which the tile may miss: dO . O is rounded with the gate in it.
  void clear_lone_keys(const GradientPanel<T>& panel, std::size_t n, T values) const {
    const Tag<T> d;
    for_vectors(panel, n, [&](std::size_t j, std::size_t lane) {
      const std::size_t at = j * kPanel<T> + lane;
      const auto alone =
          hn::Eq(hn::Load(d, panel.pt + at), hn::Mul(hn::Set(d, values), hn::Load(d, panel.lone + lane)));
      hn::Store(hn::IfThenZeroElse(alone, hn::Load(d, panel.dst + at)), d, panel.dst + at);
    });
  }

  // Is every row free of NaN and infinity? Those in q and the logits show as NaN in lse, those in values and gradients
  // from above show in delta. (lse of a lane without a query is infinite.)
  static bool rows_finite(const GradientPanel<T>& panel) {
    const Tag<T> d;
    auto bad = hn::FirstN(d, 0);
    for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
      const Vec<T> delta = hn::Add(hn::Load(d, panel.delta + at), hn::Load(d, panel.dlse + at));
      bad = hn::Or(bad, hn::Or(hn::IsNaN(hn::Load(d, panel.lse + at)), hn::IsNaN(hn::Sub(delta, delta))));
    }
    return hn::AllFalse(d, bad);
  }
  // In a row that sees NaN, 0 * NaN has reached hidden keys too: sets both tiles to 0 there.
  void hide_again(const GradientPanel<T>& panel, kernels::KeyRange keys, const KeyRows<T>& k) const {
    const Tag<T> d;
    T* st = w_.kept;
    logits(panel, keys, k, st);
    for_vectors(panel, static_cast<std::size_t>(keys.end - keys.begin), [&](std::size_t j, std::size_t lane) {
      const std::size_t at = j * kPanel<T> + lane;
      const auto hidden = hn::Eq(hn::Load(d, st + at), hn::Set(d, -kInfinity<T>));
      for (T* tile : {panel.pt, panel.dst}) hn::Store(hn::IfThenZeroElse(hidden, hn::Load(d, tile + at)), d, tile + at);
    });
  }

  // Reads lse and forms delta = dO . O. All dS of a row share the rounding of delta, so it is summed in runs; but where
  // a row may see a single key it is summed as dP is, so that dP - delta is exactly 0.
  void read_forward(GradientPanel<T>& panel) const {
    const std::int64_t begin = panel.row, end = begin + static_cast<std::int64_t>(panel.rows);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const auto lse = static_cast<T>(row_number(problem_.lse, begin + static_cast<std::int64_t>(r)));
      panel.lse[r] = std::max(lse, std::numeric_limits<T>::lowest());
      panel.sink_weight[r] = head_.sink == -kInfinity<T> ? T{0} : std::exp(head_.sink - panel.lse[r]);
    }
    if (head_.gate == 0) return;
    if constexpr (kMayPair<T>) {
      if (pairs_) {
        pair_up_rows(panel, output_, head_.E, w_.pairs.output_lanes, nullptr);
        return sum_delta(panel, w_.pairs.output_lanes, panel.dout_lanes, w_.pairs.E);
      }
    }
    into_lanes(panel, read_rows(output_, begin, end, head_.E, head_.padded_E, false, w_.output), head_.E, T{1},
               w_.output_t);
    sum_delta(panel, w_.output_t, panel.dout_t, head_.E);
  }
  // panel.delta = out . dout; both [inner][kPanel].
  template <class U>
  static void sum_delta(GradientPanel<T>& panel, const U* out_t, const U* dout_t, std::size_t inner) {
    const Tag<T> d;
    for (std::size_t at = 0; at < panel.width(); at += kLanes<T>) {
      Vec<T> as_dp = hn::Zero(d), sum = hn::Zero(d);
      for_runs(inner, [&](std::size_t from, std::size_t to) {
        Vec<T> run = hn::Zero(d);
        for (std::size_t e = from; e < to; ++e) {
          const Vec<U> out = hn::Load(Tag<U>(), out_t + e * kPanel<T> + at);
          const Vec<U> dout = hn::Load(Tag<U>(), dout_t + e * kPanel<T> + at);
          as_dp = multiply_add<U>(out, dout, as_dp);
          run = multiply_add<U>(out, dout, run);
        }
        sum = hn::Add(sum, run);
      });
      const auto may_be_lone = hn::Eq(hn::Load(d, panel.lone + at), hn::Set(d, T{1}));
      hn::Store(hn::IfThenElse(may_be_lone, as_dp, sum), d, panel.delta + at);
    }
  }

  void add_more(GradientPanel<T>& panel, kernels::KeyRange keys, const GradientFactors<T>& factors, T* gate_sum) const {
    const auto n = static_cast<std::size_t>(keys.end - keys.begin);
    if (head_.drops()) {
      std::copy_n(panel.pt, n * kPanel<T>, w_.kept);
      drop(head_.dropout, panel, keys.begin, n, w_.kept);
    }
    const bool from_weights = problem_.dweights.present();
    if (from_weights) gather_dweights(panel, keys);
    through_softmax_and_more<T>(panel, n, factors, head_.drops() ? w_.kept : panel.pt,
                                from_weights ? w_.dweights : nullptr, panel.pt, panel.dst, gate_sum);
  }

  // w.dweights [n][kPanel] = dweights of the keys for the panel.
  void gather_dweights(const PanelRows<T>& panel, kernels::KeyRange keys) const {
    const ConstTensorView& dw = problem_.dweights;
    const std::int64_t at = head_.sequence.batch * dw.stride(0) + head_.h * dw.stride(1) +
                            head_.sequence.query_begin * dw.stride(2) + head_.sequence.weights_column * dw.stride(3);
    const auto* data = static_cast<const std::byte*>(dw.data()) + at * static_cast<std::int64_t>(size_of(dw.dtype()));
    gather_mask<T>({data, dw.dtype(), dw.stride(2), dw.stride(3)}, {}, panel, keys.begin,
                   static_cast<std::size_t>(keys.end - keys.begin), w_.rows, w_.dweights);
  }

  // to [columns][kPanel] = factor * rows^T; lanes without a row hold 0 or a copy of the last.
  static void into_lanes(const PanelRows<T>& panel, const Matrix<T>& rows, std::size_t columns, T factor, T* to) {
    clear_idle_lanes(panel, columns, to);
    transpose(rows.data, rows.stride, panel.rows, columns, factor, to, kPanel<T>);
  }
  // lanes [pairs of columns][kPanel] and, if wanted, by_row [kPanel / 2][padded columns] = the panel's rows in pairs.
  void pair_up_rows(const PanelRows<T>& panel, const Rows& from, std::size_t columns, Pair* lanes, Pair* by_row) const {
    const std::int64_t begin = panel.row, end = begin + static_cast<std::int64_t>(panel.rows);
    const std::size_t pairs = (columns + 1) / 2;
    const Matrix<Pair> rows = read_paired_columns(from, begin, end, columns, false, w_.pairs.lines);
    clear_idle_lanes(panel, pairs, lanes);
    transpose(rows.data, rows.stride, panel.rows, pairs, Pair{1}, lanes, kPanel<T>);
    if (by_row != nullptr) read_paired_rows(from, begin, end, columns, padded<T>(columns), by_row);
  }
  double row_number(const ConstTensorView& view, std::int64_t row) const {
    return number_at(view, head_.sequence.batch * view.stride(0) + head_.h * view.stride(1) +
                               head_.tensor_row(row) * view.stride(2));
  }

  const kernels::AttentionGradientProblem& problem_;
  const GradientWorkspace<T>& w_;
  const Head<T> head_;
  const Rows dout_, output_;
  const T undropped_;  // 1 / (1 - dropout)
  const bool pairs_;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
