// The unit of work of the backward pass: a few blocks of keys of one key/value head, and all the queries that see them.
// Their dk and dv are complete when it ends. Blocks add their parts to dq in order, so that the bits are the same for
// any number of threads: a block waits, panel by panel, for the one before it.
#if defined(POLYHEAD_CPU_KEY_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#undef POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#else
#define POLYHEAD_CPU_KEY_GRADIENTS_INL_H_
#endif

#include <memory>
#include <optional>
#include <vector>

#include "core/awaited.h"
#include "cpu/block_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// A sequence's keys in `count` blocks of nearly equal size; a sequence without keys has one block, which is empty.
struct KeyBlocks {
  std::int64_t keys, count;

  explicit KeyBlocks(const kernels::Sequence& sequence)
      : keys(sequence.keys),
        count(std::max<std::int64_t>((keys + static_cast<std::int64_t>(kBlock) - 1) / static_cast<std::int64_t>(kBlock),
                                     1)) {}
  kernels::KeyRange operator[](std::int64_t b) const {
    if (count == 1) return {0, keys};  // divisions would show in calls of many short rows
    return {keys * b / count, keys * (b + 1) / count};
  }
};

// The block before is about to add: look a while before sleeping.
inline constexpr int kLooksForBlock = 1000;

// What the blocks of all heads share. The index of a panel is first_panel[sequence] + head * panels + panel.
template <class T>
struct GradientShared {
  std::int64_t panels = 0;                // of all heads
  std::int64_t copies = 1;                // of dq; block b adds to copy b % copies, and their sum is the result
  std::vector<std::int64_t> first_panel;  // [N]
  std::unique_ptr<Awaited[]> done;        // [copies][panels] 1 + the last block that has added to its dq
  std::vector<double> sink_parts;         // [panels]
  std::vector<T> weight_sums;             // [copies][panels][kPanel] over the blocks so far, of panels that want them
  // Of panels that have been walked over ahead; empty if none has.
  std::vector<T> norm, delta;  // [panels][kPanel]
  T* dq = nullptr;             // [copies][panels][kPanel][padded D] if sums cannot be formed in the tensor itself

  std::int64_t place_of(const GradientHead<T>& head, std::int64_t panel, std::int64_t copy = 0) const {
    return copy * panels + first_panel[static_cast<std::size_t>(head.head().n)] + head.head().h * head.panels() + panel;
  }
  T* dq_of(const GradientHead<T>& head, std::int64_t panel, std::int64_t copy) const {
    return dq + static_cast<std::size_t>(place_of(head, panel, copy)) * kPanel<T> * head.padded_D();
  }
  T* weight_sums_of(const GradientHead<T>& head, std::int64_t panel, std::int64_t copy) {
    return weight_sums.data() + static_cast<std::size_t>(place_of(head, panel, copy)) * kPanel<T>;
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

// x [rows][D] <- x / sums, row by row; a row without keys has sum 0.
template <class T>
void divide_rows(std::size_t rows, std::size_t D, const T* sums, T* x, std::size_t stride) {
  const Tag<T> d;
  for (std::size_t r = 0; r < rows; ++r) {
    if (sums[r] == 0) continue;
    const Vec<T> norm = hn::Set(d, 1 / sums[r]);
    for (std::size_t c = 0; c < D; c += kLanes<T>) {
      T* at = x + r * stride + c;
      hn::StoreU(hn::Mul(norm, hn::LoadU(d, at)), d, at);
    }
  }
}

// Blocks of a sequence's keys that add to one copy of dq: every copies-th from begin to before end, at most
// kBlocksAtOnce.
struct KeyItem {
  std::int64_t sequence, kv_head, begin, end;
};

template <class T>
class KeyGradients {
 public:
  KeyGradients(const kernels::AttentionGradientProblem& problem, GradientShared<T>& shared,
               const GradientWorkspace<T>& workspace, const KeyItem& item)
      : problem_(problem),
        shared_(shared),
        w_(workspace),
        item_(item),
        sequence_(problem.forward.sequences[item.sequence]),
        blocks_(sequence_),
        copy_(item.begin % shared.copies),
        heads_per_kv_(problem.forward.heads / problem.forward.kv_heads) {
    for (std::int64_t b = item.begin; b < item.end; b += shared.copies) {
      own_[own_count_].emplace(*this, b, own_count_, blocks_[b]);
      ++own_count_;
    }
  }

  // gate_parts [all blocks of the kv head][heads of a kv head].
  void run(double* gate_parts) {
    for (std::int64_t h = item_.kv_head * heads_per_kv_; h < (item_.kv_head + 1) * heads_per_kv_; ++h) {
      const GradientHead<T> head(problem_, item_.sequence, h, w_);
      if (head.takes_part()) {
        add_head(head, gate_parts + h - item_.kv_head * heads_per_kv_);
      } else {
        for (std::int64_t i = 0; item_.begin == 0 && i < head.panels(); ++i) clear_dq(head, head.rows_of(i), i);
      }
    }
    for_own([](Block& block) {
      block.dk.store();
      block.dv.store();
    });
  }

 private:
  struct Block {
    const std::int64_t index;
    const std::size_t place;  // among those of the item
    const kernels::KeyRange keys;
    BlockSums<T> dk, dv;
    // Of the head at hand.
    KeyRows<T> k, v;
    bool finite_keys = true;
    double gate = 0;  // its part of the gate's gradient

    Block(const KeyGradients& of, std::int64_t b, std::size_t at, kernels::KeyRange range)
        : index(b),
          place(at),
          keys(range),
          dk(of.sums_of(of.problem_.dk, range, at, of.w_.D, of.w_.dk, of.w_.partial_dk)),
          dv(of.sums_of(of.problem_.dv, range, at, of.w_.E, of.w_.dv, of.w_.partial_dv)) {}
  };
  // Panels that are held at once, in their order.
  struct Group {
    std::int64_t first_panel;
    std::size_t count;
    GradientPanel<T> panels[kPanelsAtOnce];
    bool loaded[kPanelsAtOnce];  // it sees some of the item's keys

    std::int64_t index_of(std::size_t place) const { return first_panel + static_cast<std::int64_t>(place); }
  };
  // What the panels of a group see of one block, together and each by itself. Those that see any of it are neighbours,
  // since all bounds of what a query sees grow with its number.
  struct Seen {
    std::size_t first_place = 0, end_place = 0;  // the panels that see any of it
    kernels::KeyRange all;
    kernels::KeyRange by[kPanelsAtOnce];
  };

  template <class Visit>
  void for_own(const Visit& visit) {
    for (std::size_t place = 0; place < own_count_; ++place) visit(*own_[place]);
  }

  // gate_parts: the head's place in the row of block 0.
  void add_head(const GradientHead<T>& head, double* gate_parts) {
    for_own([&](Block& block) {
      block.k = head.read_keys(block.keys, block.place);
      block.v = head.read_values(block.keys, block.place);
      block.finite_keys = all_finite(block.k.rows.data, block.k.rows.stride,
                                     static_cast<std::size_t>(block.keys.end - block.keys.begin), head.padded_D());
      block.gate = 0;
    });
    // The last panel first: under a causal mask all blocks see it, so that all can begin at once. Beginning at the
    // diagonal made each block wait until the one before had come that far.
    Group group;
    constexpr auto kStep = static_cast<std::int64_t>(kPanelsAtOnce);
    for (group.first_panel = (head.panels() - 1) / kStep * kStep; group.first_panel >= 0; group.first_panel -= kStep) {
      load(head, group);
      for_own([&](Block& block) { add_group(head, block, group); });
    }
    for_own([&](const Block& block) {
      gate_parts[block.index * heads_per_kv_] = block.gate * static_cast<double>(head.undropped());
    });
  }

  // Reads the panels that see any of the blocks. Those that see nothing at all are block 0's to finish.
  void load(const GradientHead<T>& head, Group& group) {
    group.count = std::min(kPanelsAtOnce, static_cast<std::size_t>(head.panels() - group.first_panel));
    for (std::size_t p = 0; p < group.count; ++p) {
      GradientPanel<T>& panel = group.panels[p];
      const std::int64_t index = group.index_of(p);
      const PanelRows<T> rows = head.rows_of(index);
      std::size_t place = 0;
      while (place < own_count_ && seen_by(head, rows, *own_[place]).empty()) ++place;
      group.loaded[p] = place < own_count_;
      const bool sees_nothing = !group.loaded[p] && item_.begin == 0 && head.head().sees_only(rows, own_[0]->keys);
      if (!group.loaded[p] && !sees_nothing) continue;
      panel.take_place(w_, p);
      head.load(index, sees_nothing || head.head().sees_only(rows, own_[place]->keys), panel);
      shared_.complete(head, index, panel);
      if (!sees_nothing) continue;
      if (!problem_.merged) std::fill_n(panel.sink_weight, kPanel<T>, T{1});
      clear_dq(head, rows, index);
      store_sink_part(head, panel, index);
    }
  }

  Seen seen_of(const GradientHead<T>& head, const Block& block, const Group& group) const {
    Seen seen;
    for (std::size_t p = 0; p < group.count; ++p) {
      const kernels::KeyRange keys = group.loaded[p] ? seen_by(head, group.panels[p], block) : kernels::KeyRange{};
      if (keys.empty()) continue;
      if (seen.all.empty()) {
        seen.all = keys;
        seen.first_place = p;
      }
      seen.by[p] = keys;
      seen.all = {std::min(seen.all.begin, keys.begin), std::max(seen.all.end, keys.end)};
      seen.end_place = p + 1;
    }
    return seen;
  }

  void add_group(const GradientHead<T>& head, Block& block, Group& group) {
    const Seen seen = seen_of(head, block, group);
    if (seen.all.empty()) return;
    for (std::size_t p = seen.first_place; p < seen.end_place; ++p) make_tile(head, block, group, p, seen.by[p]);
    if (head.sends()) add_to_keys(head, block, group, seen);
    for (std::size_t p = seen.first_place; p < seen.end_place; ++p) {
      add_to_dq(head, block, group.panels[p], group.index_of(p), seen.by[p]);
    }
  }

  void make_tile(const GradientHead<T>& head, Block& block, Group& group, std::size_t place,
                 kernels::KeyRange seen) const {
    alignas(64) T gate_sum[kPanel<T>] = {};
    GradientPanel<T>& panel = group.panels[place];
    const std::int64_t first = seen.begin - block.keys.begin;
    panel.take_tile(w_, place, static_cast<std::size_t>(first));
    head.make_tile(panel, seen, block.k.from(first), block.v.from(first), static_cast<T>(problem_.forward.scale),
                   gate_sum);
    if (head.sends()) head.through_softcap(panel, static_cast<std::size_t>(seen.end - seen.begin));
    for (std::size_t r = 0; head.wants_gate() && r < panel.rows; ++r) block.gate += static_cast<double>(gate_sum[r]);
    if (problem_.dsink_logit.present() && !sees_before(head, panel, block.index)) {
      store_sink_part(head, panel, group.index_of(place));
    }
  }

  // dv += P^T dO and dk += dS^T Q, over the rows of all panels of the group that see any of the block.
  void add_to_keys(const GradientHead<T>& head, Block& block, const Group& group, const Seen& seen) const {
    const auto first_key = static_cast<std::size_t>(seen.all.begin - block.keys.begin);
    const auto n = static_cast<std::size_t>(seen.all.end - seen.all.begin);
    const GradientPanel<T>& first = group.panels[seen.first_place];
    const std::size_t panels = seen.end_place - seen.first_place;
    const std::size_t rows = (panels - 1) * kPanel<T> + group.panels[seen.end_place - 1].rows;
    bool careful = false;
    for (std::size_t p = seen.first_place; p < seen.end_place; ++p) {
      clear_unseen(block, p, seen);
      const GradientPanel<T>& panel = group.panels[p];
      careful = careful || (head.may_weigh_nothing(panel, seen.all) && !head.vouches_for_rows(panel));
    }
    const auto rows_of = [&](std::size_t key, std::size_t last_key) {
      const auto row_of = [&](std::int64_t query) {
        return static_cast<std::size_t>(
            std::clamp<std::int64_t>(query - first.row, 0, static_cast<std::int64_t>(rows)));
      };
      const auto [begin, end] = head.head().mask.queries_of_some(seen.all.begin + static_cast<std::int64_t>(key),
                                                                 seen.all.begin + static_cast<std::int64_t>(last_key));
      return RowRange{row_of(begin), row_of(end)};
    };
    const std::size_t at = (seen.first_place * kBlock + first_key) * kPanel<T>;
    const auto [pt, dst] = round_tiles(head, group, seen, first_key, n);
    if (head.head().gate != 0) {
      block.dv.add(w_.pt + at, panels, first_key, n, rows, careful, rows_of, first.dout, pt, {first.dout_rows, w_.E});
    }
    block.dk.add(w_.dst + at, panels, first_key, n, rows, careful, rows_of, first.q, dst, {first.q_rows, w_.D});
  }
  // Both tiles of these keys in pairs of queries, from the first panel on; null where products are not made of pairs.
  struct PairTiles {
    const Pair *pt, *dst;
  };
  PairTiles round_tiles(const GradientHead<T>& head, const Group& group, const Seen& seen, std::size_t first_key,
                        std::size_t n) const {
    if (!head.pairs()) return {nullptr, nullptr};
    if constexpr (kMayPair<T>) {
      for (std::size_t p = seen.first_place; p < seen.end_place; ++p) {
        const std::size_t key = p * kBlock + first_key;
        round_rows(group.panels[p], n, w_.pt + key * kPanel<T>, w_.pairs.pt + key * kPanelUnits<Pair>);
        round_rows(group.panels[p], n, w_.dst + key * kPanel<T>, w_.pairs.dst + key * kPanelUnits<Pair>);
      }
    }
    const std::size_t at = (seen.first_place * kBlock + first_key) * kPanelUnits<Pair>;
    return {w_.pairs.pt + at, w_.pairs.dst + at};
  }
  // A panel's weights of keys that it does not see, but another of the group does, are 0.
  void clear_unseen(const Block& block, std::size_t place, const Seen& seen) const {
    const auto clear = [&](std::int64_t begin, std::int64_t end) {
      if (begin >= end) return;
      const std::size_t at = (place * kBlock + static_cast<std::size_t>(begin - block.keys.begin)) * kPanel<T>;
      for (T* tile : {w_.pt, w_.dst}) std::fill_n(tile + at, static_cast<std::size_t>(end - begin) * kPanel<T>, T{0});
    };
    clear(seen.all.begin, seen.by[place].begin);
    clear(seen.by[place].end, seen.all.end);
  }

  // dq += dS K, once the block before has added its part. That block has begun, since blocks are claimed in order, and
  // itself waits only for blocks before it. Nothing in an item throws: a block that did not add would deadlock the
  // next.
  void add_to_dq(const GradientHead<T>& head, const Block& block, const GradientPanel<T>& panel, std::int64_t index,
                 kernels::KeyRange seen) const {
    if (blocks_.count == 1) return add_part_to_dq(head, block, panel, index, true, seen);  // nobody waits
    const std::int64_t before = block_before(head, panel, block.index, shared_.copies);
    Awaited& done = shared_.done[static_cast<std::size_t>(shared_.place_of(head, index, copy_))];
    done.until(kLooksForBlock, [before](std::uint32_t blocks) { return blocks == before + 1; });
    add_part_to_dq(head, block, panel, index, before < 0, seen);
    done.set(static_cast<std::uint32_t>(block.index + 1));
  }
  void add_part_to_dq(const GradientHead<T>& head, const Block& block, const GradientPanel<T>& panel,
                      std::int64_t index, bool fresh, kernels::KeyRange seen) const {
    if (head.sends()) {
      add_product_to_dq(head, block, panel, index, fresh, seen);
      if (panel.sums_weights) normalise_dq(head, block, panel, index, fresh);
    } else if (fresh) {
      clear_dq(head, panel, index);
    }
  }
  void add_product_to_dq(const GradientHead<T>& head, const Block& block, const GradientPanel<T>& panel,
                         std::int64_t index, bool fresh, kernels::KeyRange seen) const {
    const Sums<T> dq = dq_of(head, panel, index);
    const KeyRows<T> keys = block.k.from(seen.begin - block.keys.begin);
    const Matrix<T>& k = keys.rows;
    auto n = static_cast<std::size_t>(seen.end - seen.begin);
    if (!block.finite_keys) {
      if (fresh) clear_dq(head, panel, index);
      return accumulate_seen<T, false>(panel.dst, n, panel.rows, k.data, k.stride, dq.data, dq.stride, w_.D);
    }
    const auto keys_of = [&](std::size_t row) {
      return head.may_hide_keys() ? n : head.head().keys_of(panel, row, seen);
    };
    if constexpr (kMayPair<T>) {
      if (head.pairs()) {
        round_weights(panel, n, panel.dst, w_.pairs.dst_by_key);
        return accumulate_values<Pair>(w_.pairs.dst_by_key, panel.rows, keys_of, keys.by_row.data, keys.by_row.stride,
                                       nullptr, fresh, dq.data, dq.stride, w_.D);
      }
    }
    const Matrix<T> live = live_keys(head, panel, k, n);
    accumulate_values<T>(panel.dst, panel.rows, keys_of, live.data, live.stride, nullptr, fresh, dq.data, dq.stride,
                         w_.D);
  }

  // Adds the tile's weights to the rows' sums; where dq has one copy, the last block divides it by them.
  void normalise_dq(const GradientHead<T>& head, const Block& block, const GradientPanel<T>& panel, std::int64_t index,
                    bool fresh) const {
    T* sums = shared_.weight_sums_of(head, index, copy_);
    const bool adds_sink = fresh && !sees_before(head, panel, block.index);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      sums[r] = (adds_sink ? panel.sink_weight[r] : fresh ? T{0} : sums[r]) + panel.weight_sum[r];
    }
    if (shared_.copies > 1) return;
    for (std::int64_t b = block.index + 1; b < blocks_.count; ++b) {
      if (!head.head().seen_by(panel, blocks_[b]).empty()) return;
    }
    const Sums<T> dq = dq_of(head, panel, index);
    divide_rows(panel.rows, w_.D, sums, dq.data, dq.stride);
  }

  // Closes the gaps that keys hidden from the whole panel leave in dst (in place) and among the keys (in a copy).
  Matrix<T> live_keys(const GradientHead<T>& head, const GradientPanel<T>& panel, const Matrix<T>& k,
                      std::size_t& n) const {
    if (!head.may_hide_keys()) return k;
    std::size_t live = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (panel.hidden[j]) continue;
      if (live != j) std::copy_n(panel.dst + j * kPanel<T>, kPanel<T>, panel.dst + live * kPanel<T>);
      std::copy_n(k.row(static_cast<std::int64_t>(j)), w_.D, w_.live_k + live * w_.D);
      ++live;
    }
    n = live;
    return {w_.live_k, w_.D};
  }

  // dsink = -p_sink (delta - dlse) of every row.
  void store_sink_part(const GradientHead<T>& head, const GradientPanel<T>& panel, std::int64_t index) const {
    if (!problem_.dsink_logit.present() || head.head().sink == -kInfinity<T>) return;
    double sum = 0;
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const double away = static_cast<double>(panel.delta[r]) - static_cast<double>(panel.dlse[r]);
      sum -= static_cast<double>(panel.sink_weight[r]) * away;
    }
    shared_.sink_parts[static_cast<std::size_t>(shared_.place_of(head, index))] = sum;
  }

  // In pairs, from the first of one on: it is hidden if the second is the first that is seen.
  static kernels::KeyRange seen_by(const GradientHead<T>& head, const PanelRows<T>& rows, const Block& block) {
    kernels::KeyRange keys = head.head().seen_by(rows, block.keys);
    if (head.pairs() && !keys.empty()) keys.begin -= (keys.begin - block.keys.begin) % 2;
    return keys;
  }
  // The last block before this one that the panel sees, going back by `step`; negative if there is none.
  std::int64_t block_before(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t block,
                            std::int64_t step) const {
    do block -= step;
    while (block >= 0 && head.head().seen_by(rows, blocks_[block]).empty());
    return std::max<std::int64_t>(block, -1);
  }
  bool sees_before(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t block) const {
    return block_before(head, rows, block, 1) >= 0;
  }

  Sums<T> dq_of(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t index) const {
    if (shared_.dq != nullptr) return {shared_.dq_of(head, index, copy_), w_.D};
    const TensorView& dq = problem_.dq;
    T* data = static_cast<T*>(dq.data()) + sequence_.batch * dq.stride(0) + head.head().h * dq.stride(1) +
              head.head().tensor_row(rows.row) * dq.stride(2);
    return {data, static_cast<std::size_t>(dq.stride(2))};
  }
  void clear_dq(const GradientHead<T>& head, const PanelRows<T>& rows, std::int64_t index) const {
    const Sums<T> dq = dq_of(head, rows, index);
    for (std::size_t r = 0; r < rows.rows; ++r) std::fill_n(dq.data + r * dq.stride, w_.D, T{0});
  }

  // scratch and partial [kBlocksAtOnce][kBlock][padded columns].
  BlockSums<T> sums_of(const TensorView& to, kernels::KeyRange keys, std::size_t place, std::size_t columns, T* scratch,
                       T* partial) const {
    const std::size_t at = place * kBlock * columns;
    return BlockSums<T>(to, sequence_.batch, item_.kv_head, sequence_.key_begin + keys.begin, keys.end - keys.begin,
                        heads_per_kv_ * panels_of<T>(sequence_), scratch + at, partial + at);
  }

  const kernels::AttentionGradientProblem& problem_;
  GradientShared<T>& shared_;
  const GradientWorkspace<T>& w_;
  const KeyItem item_;
  const kernels::Sequence sequence_;
  const KeyBlocks blocks_;
  const std::int64_t copy_, heads_per_kv_;
  std::size_t own_count_ = 0;
  std::optional<Block> own_[kBlocksAtOnce];
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
