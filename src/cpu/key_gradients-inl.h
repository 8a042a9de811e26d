// The unit of work of the backward pass: one block of keys of one key/value head, and all the queries that see it. Its
// dk and dv are complete when it ends. Blocks add their parts to dq in order, so that the bits are the same for any
// number of threads: a block waits, panel by panel, for the one before it.
#if defined(POLYHEAD_CPU_KEY_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#undef POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#else
#define POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#endif

#include <memory>
#include <vector>

#include "core/awaited.h"
#include "cpu/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// A sequence's keys in `count` blocks of nearly equal size; a sequence without keys has one block, which is empty.
struct KeyBlocks {
  std::int64_t keys, count;

  explicit KeyBlocks(const backend::Sequence& sequence)
      : keys(sequence.keys),
        count(std::max<std::int64_t>((keys + static_cast<std::int64_t>(kBlock) - 1) / static_cast<std::int64_t>(kBlock),
                                     1)) {}
  backend::KeyRange operator[](std::int64_t b) const { return {keys * b / count, keys * (b + 1) / count}; }
};

// The block before is about to add: look a while before sleeping.
inline constexpr int kLooksForBlock = 1000;

// What the blocks of all heads share. The index of a panel is first_panel[sequence] + head * panels + panel.
template <class T>
struct GradientShared {
  std::vector<std::int64_t> first_panel;  // [N]
  std::unique_ptr<Awaited[]> done;        // [panels] 1 + the last block that has added to its dq
  std::vector<double> sink_parts;         // [panels]
  std::vector<double> gate_parts;         // [items][heads of a kv head]
  std::vector<T> weight_sums;             // [panels][kPanel] over the blocks so far, of panels that want them
  // Of panels that have been walked over ahead; empty if none has.
  std::vector<T> norm, delta;  // [panels][kPanel]
  T* dq = nullptr;             // [panels][kPanel][padded D] if sums cannot be formed in the tensor itself

  std::int64_t place_of(const GradientHead<T>& head, std::int64_t panel) const {
    return first_panel[static_cast<std::size_t>(head.head().n)] + head.head().h * head.panels() + panel;
  }
  // Fills in what takes a walk over all keys of a panel: norm and delta.
  void complete(const GradientHead<T>& head, std::int64_t index, GradientPanel<T>& panel) const {
    if (panel.one_tile || norm.empty() || !head.sends()) return;
    const std::size_t at = static_cast<std::size_t>(place_of(head, index)) * kPanel<T>;
    for (std::size_t r = 0; r < panel.rows; ++r) {
      panel.norm[r] = norm[at + r];
      panel.sink_weight[r] *= panel.norm[r];
      panel.delta[r] = delta[at + r];
    }
  }
};

// Rows that can be added to.
template <class T>
struct Sums {
  T* data;
  std::size_t stride;
};

// Panels whose parts of dk and dv are summed up before they are added to the rest: rounding then grows with the number
// of these sums and with their length, not with the number of queries.
inline constexpr std::int64_t kPanelsPerSum = 16;

// dk or dv of one block: summed up in the tensor itself if its layout allows, else in scratch and stored at the end.
template <class T>
class BlockSums {
 public:
  // So many `panels` add to it; if they are few, it does not matter that the tensor's rows lie far apart. scratch and
  // partial [kBlock][padded columns].
  BlockSums(const TensorView& to, std::int64_t batch, std::int64_t kv_head, std::int64_t key, std::int64_t keys,
            std::int64_t panels, T* scratch, T* partial)
      : to_(to),
        keys_(static_cast<std::size_t>(keys)),
        columns_(static_cast<std::size_t>(to.shape(3))),
        data_(static_cast<std::byte*>(to.data()) +
              (batch * to.stride(0) + kv_head * to.stride(1) + key * to.stride(2)) *
                  static_cast<std::int64_t>(size_of(to.dtype()))),
        in_place_(to.dtype() == dtype_of<T> && padded<T>(columns_) == columns_ &&
                  (to.stride(2) == to.shape(3) || (panels <= 2 && to.stride(2) > to.shape(3)))),
        total_{scratch, padded<T>(columns_)},
        partial_{partial, padded<T>(columns_)},
        long_(panels > kPanelsPerSum) {
    if (in_place_) total_ = {reinterpret_cast<T*>(data_), static_cast<std::size_t>(to.stride(2))};
  }

  // Adds P^T X, pt [n][kPanel] and x [rows][..], to keys [first, first + n) of the block. `careful`: some weights may
  // be 0, and X not finite.
  template <class RowOf>
  void add(const T* pt, std::size_t first, std::size_t n, std::size_t rows, bool careful, const RowOf& row_of,
           const Matrix<T>& x) {
    const Sums<T>& sums = long_ ? partial_ : total_;
    bool& fresh = long_ ? fresh_partial_ : fresh_;
    const bool finite = !careful || all_finite(x.data, x.stride, rows, padded<T>(columns_));
    if (fresh && (first > 0 || n < keys_ || !finite)) clear(sums, fresh);
    T* to = sums.data + first * sums.stride;
    if (finite) {
      accumulate_keys(pt, n, rows, row_of, x.data, x.stride, fresh, to, sums.stride, padded<T>(columns_));
    } else {
      accumulate_seen<T, true>(pt, n, rows, x.data, x.stride, to, sums.stride, padded<T>(columns_));
    }
    fresh = false;
    if (long_ && ++summed_ == kPanelsPerSum) add_partial();
  }

  void store() {
    if (!fresh_partial_) add_partial();
    if (fresh_) clear(total_, fresh_);
    if (in_place_) return;
    const std::int64_t step = to_.stride(2) * static_cast<std::int64_t>(size_of(to_.dtype()));
    for (std::size_t j = 0; j < keys_; ++j) {
      narrow(total_.data + j * total_.stride, columns_, data_ + static_cast<std::int64_t>(j) * step, to_.dtype());
    }
  }

 private:
  void clear(const Sums<T>& sums, bool& fresh) const {
    for (std::size_t j = 0; j < keys_; ++j) std::fill_n(sums.data + j * sums.stride, padded<T>(columns_), T{0});
    fresh = false;
  }
  void add_partial() {
    const Tag<T> d;
    for (std::size_t j = 0; j < keys_; ++j) {
      for (std::size_t c = 0; c < padded<T>(columns_); c += kLanes<T>) {
        T* to = total_.data + j * total_.stride + c;
        const Vec<T> more = hn::Load(d, partial_.data + j * partial_.stride + c);
        hn::StoreU(fresh_ ? more : hn::Add(hn::LoadU(d, to), more), d, to);
      }
    }
    fresh_ = false;
    fresh_partial_ = true;
    summed_ = 0;
  }

  const TensorView& to_;
  const std::size_t keys_, columns_;
  std::byte* const data_;  // the block's first row
  const bool in_place_;
  Sums<T> total_, partial_;
  const bool long_;
  bool fresh_ = true, fresh_partial_ = true;  // nothing has been added yet
  std::int64_t summed_ = 0;                   // panels in partial_
};

template <class T>
class KeyGradients {
 public:
  KeyGradients(const backend::AttentionGradientProblem& problem, GradientShared<T>& shared,
               const GradientWorkspace<T>& workspace, std::int64_t sequence, std::int64_t kv_head, std::int64_t block)
      : problem_(problem),
        shared_(shared),
        w_(workspace),
        n_(sequence),
        g_(kv_head),
        block_(block),
        sequence_(problem.forward.sequences[sequence]),
        blocks_(sequence_),
        keys_(blocks_[block]),
        heads_per_kv_(problem.forward.heads / problem.forward.kv_heads),
        dk_(sums_of(problem.dk, workspace.dk, workspace.partial_dk)),
        dv_(sums_of(problem.dv, workspace.dv, workspace.partial_dv)) {}

  // gate_parts [heads of a kv head].
  void run(double* gate_parts) {
    for (std::int64_t h = g_ * heads_per_kv_; h < (g_ + 1) * heads_per_kv_; ++h) {
      const GradientHead<T> head(problem_, n_, h, w_);
      if (head.sends() || head.wants_gate()) {
        gate_parts[h - g_ * heads_per_kv_] = add_head(head);
      } else {
        for (std::int64_t i = 0; block_ == 0 && i < head.panels(); ++i) clear_dq(head, head.rows_of(i), i);
      }
    }
    dk_.store();
    dv_.store();
  }

 private:
  // Returns the block's part of the gate's gradient.
  double add_head(const GradientHead<T>& head) {
    const Matrix<T> k = head.read_keys(keys_), v = head.read_values(keys_);
    finite_keys_ = all_finite(k.data, k.stride, static_cast<std::size_t>(keys_.end - keys_.begin), head.padded_D());
    alignas(64) T gate_sum[kPanel<T>];
    double gate = 0;
    // The last panel first: under a causal mask all blocks see it, so that all can begin at once. Beginning at the
    // diagonal made each block wait until the one before had come that far.
    for (std::int64_t i = head.panels(); i-- > 0;) {
      const PanelRows<T> rows = head.rows_of(i);
      const backend::KeyRange seen = seen_by(head, rows, block_);
      const bool one_tile = head.head().sees_only(rows, keys_);
      if (seen.empty() && !(one_tile && block_ == 0)) continue;  // block 0 handles rows that see nothing
      GradientPanel<T> panel;
      head.load(i, one_tile, panel);
      shared_.complete(head, i, panel);
      const std::int64_t before = seen.empty() ? -1 : block_before(head, rows);
      std::fill_n(gate_sum, kPanel<T>, T{0});
      if (seen.empty()) {
        std::fill_n(panel.sink_weight, kPanel<T>, T{1});
        clear_dq(head, rows, i);
      } else {
        add_panel(head, panel, i, before, seen, {k.row(seen.begin - keys_.begin), k.stride},
                  {v.row(seen.begin - keys_.begin), v.stride}, gate_sum);
      }
      if (before < 0) shared_.sink_parts[static_cast<std::size_t>(shared_.place_of(head, i))] = sink_part(head, panel);
      for (std::size_t r = 0; r < panel.rows; ++r) gate += static_cast<double>(gate_sum[r]);
    }
    return gate * static_cast<double>(head.undropped());
  }

  void add_panel(const GradientHead<T>& head, GradientPanel<T>& panel, std::int64_t index, std::int64_t before,
                 backend::KeyRange seen, const Matrix<T>& k, const Matrix<T>& v, T* gate_sum) {
    const auto n = static_cast<std::size_t>(seen.end - seen.begin);
    head.make_tile(panel, seen, k, v, static_cast<T>(problem_.forward.scale), gate_sum);
    if (head.sends()) {
      head.through_softcap(panel, n);
      const auto first = static_cast<std::size_t>(seen.begin - keys_.begin);
      const auto row_of = [&](std::size_t key) {
        const std::int64_t p = head.head().visibility.earliest(seen.begin + static_cast<std::int64_t>(key));
        return static_cast<std::size_t>(
            std::clamp<std::int64_t>(p - panel.position, 0, static_cast<std::int64_t>(panel.rows)));
      };
      const bool careful = head.may_weigh_nothing(panel, seen) && !head.vouches_for_rows(panel);
      if (head.head().gate != 0) dv_.add(w_.pt, first, n, panel.rows, careful, row_of, panel.dout);
      dk_.add(w_.dst, first, n, panel.rows, careful, row_of, panel.q);
    }
    add_to_dq(head, panel, index, before, seen, k);
  }

  // dq += dS K, once the block before has added its part. That block has begun, since blocks are claimed in order, and
  // itself waits only for blocks before it. Nothing in an item throws: a block that did not add would deadlock the
  // next.
  void add_to_dq(const GradientHead<T>& head, const GradientPanel<T>& panel, std::int64_t index, std::int64_t before,
                 backend::KeyRange seen, const Matrix<T>& k) const {
    Awaited& done = shared_.done[static_cast<std::size_t>(shared_.place_of(head, index))];
    done.until(kLooksForBlock, [before](std::uint32_t blocks) { return blocks == before + 1; });
    if (head.sends()) {
      add_product_to_dq(head, panel, index, before < 0, seen, k);
      if (panel.sums_weights) normalise_dq(head, panel, index, before < 0);
    } else if (before < 0) {
      clear_dq(head, panel, index);
    }
    done.set(static_cast<std::uint32_t>(block_ + 1));
  }
  void add_product_to_dq(const GradientHead<T>& head, const GradientPanel<T>& panel, std::int64_t index, bool fresh,
                         backend::KeyRange seen, const Matrix<T>& k) const {
    const Sums<T> dq = dq_of(head, panel, index);
    auto n = static_cast<std::size_t>(seen.end - seen.begin);
    if (!finite_keys_) {
      if (fresh) clear_dq(head, panel, index);
      return accumulate_seen<T, false>(w_.dst, n, panel.rows, k.data, k.stride, dq.data, dq.stride, head.padded_D());
    }
    const Matrix<T> live = live_keys(head, k, n);
    const auto keys_of = [&](std::size_t row) {
      return head.may_hide_keys() ? n : head.head().keys_of(panel, row, seen);
    };
    accumulate_values<T>(w_.dst, panel.rows, keys_of, live.data, live.stride, nullptr, fresh, dq.data, dq.stride,
                         head.padded_D());
  }

  // Adds the tile's weights to the rows' sums; the last block divides dq by them.
  void normalise_dq(const GradientHead<T>& head, const GradientPanel<T>& panel, std::int64_t index, bool fresh) const {
    T* sums = shared_.weight_sums.data() + static_cast<std::size_t>(shared_.place_of(head, index)) * kPanel<T>;
    for (std::size_t r = 0; r < panel.rows; ++r)
      sums[r] = (fresh ? panel.sink_weight[r] : sums[r]) + panel.weight_sum[r];
    for (std::int64_t b = block_ + 1; b < blocks_.count; ++b) {
      if (!seen_by(head, panel, b).empty()) return;
    }
    const Tag<T> d;
    const Sums<T> dq = dq_of(head, panel, index);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      if (sums[r] == 0) continue;  // a row without keys
      const Vec<T> norm = hn::Set(d, 1 / sums[r]);
      for (std::size_t c = 0; c < head.padded_D(); c += kLanes<T>) {
        T* at = dq.data + r * dq.stride + c;
        hn::StoreU(hn::Mul(norm, hn::LoadU(d, at)), d, at);
      }
    }
  }

  // Closes the gaps that keys hidden from the whole panel leave in dst (in place) and among the keys (in a copy).
  Matrix<T> live_keys(const GradientHead<T>& head, const Matrix<T>& k, std::size_t& n) const {
    if (!head.may_hide_keys()) return k;
    std::size_t live = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (w_.hidden[j]) continue;
      if (live != j) std::copy_n(w_.dst + j * kPanel<T>, kPanel<T>, w_.dst + live * kPanel<T>);
      std::copy_n(k.row(static_cast<std::int64_t>(j)), head.padded_D(), w_.live_k + live * head.padded_D());
      ++live;
    }
    n = live;
    return {w_.live_k, head.padded_D()};
  }

  // dsink = -p_sink (delta - dlse) of every row.
  double sink_part(const GradientHead<T>& head, const GradientPanel<T>& panel) const {
    if (!problem_.dsink_logit.present() || head.head().sink == -kInfinity<T>) return 0;
    double sum = 0;
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const double away = static_cast<double>(panel.delta[r]) - static_cast<double>(panel.dlse[r]);
      sum -= static_cast<double>(panel.sink_weight[r]) * away;
    }
    return sum;
  }

  backend::KeyRange seen_by(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t block) const {
    return head.head().visibility.hull(rows.position, rows.last_position(), blocks_[block]);
  }
  // The last block before this one that the panel sees, or -1.
  std::int64_t block_before(const GradientHead<T>& head, const PanelRows<T>& rows) const {
    std::int64_t b = block_ - 1;
    while (b >= 0 && seen_by(head, rows, b).empty()) --b;
    return b;
  }

  Sums<T> dq_of(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t index) const {
    if (shared_.dq != nullptr) {
      const std::size_t size = kPanel<T> * head.padded_D();
      return {shared_.dq + static_cast<std::size_t>(shared_.place_of(head, index)) * size, head.padded_D()};
    }
    const TensorView& dq = problem_.dq;
    T* data = static_cast<T*>(dq.data()) + sequence_.batch * dq.stride(0) + head.head().h * dq.stride(1) +
              head.head().tensor_row(rows.row) * dq.stride(2);
    return {data, static_cast<std::size_t>(dq.stride(2))};
  }
  void clear_dq(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t index) const {
    const Sums<T> dq = dq_of(head, rows, index);
    for (std::size_t r = 0; r < rows.rows; ++r) std::fill_n(dq.data + r * dq.stride, head.padded_D(), T{0});
  }

  BlockSums<T> sums_of(const TensorView& to, T* scratch, T* partial) const {
    return BlockSums<T>(to, sequence_.batch, g_, sequence_.key_begin + keys_.begin, keys_.end - keys_.begin,
                        heads_per_kv_ * panels_of<T>(sequence_), scratch, partial);
  }

  const backend::AttentionGradientProblem& problem_;
  GradientShared<T>& shared_;
  const GradientWorkspace<T>& w_;
  const std::int64_t n_, g_, block_;
  const backend::Sequence sequence_;
  const KeyBlocks blocks_;
  const backend::KeyRange keys_;
  const std::int64_t heads_per_kv_;
  BlockSums<T> dk_, dv_;
  bool finite_keys_ = true;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
