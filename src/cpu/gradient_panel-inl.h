// A panel of queries in the backward pass, and the memory that a thread keeps panels, keys and sums in.
#if defined(POLYHEAD_CPU_GRADIENT_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_GRADIENT_PANEL_INL_H_
#undef POLYHEAD_CPU_GRADIENT_PANEL_INL_H_
#else
#define POLYHEAD_CPU_GRADIENT_PANEL_INL_H_
#endif

#include "cpu/carver.h"
#include "cpu/head-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Panels that a thread holds at once: their parts of dk and dv are one product, which goes to memory once.
inline constexpr std::size_t kPanelsAtOnce = 4;
// Blocks of keys that an item goes over together: a panel is read and transposed once for all of them.
inline constexpr std::size_t kBlocksAtOnce = 4;

// Is everything stored in bf16, and the target one that multiplies it in pairs?
template <class T>
bool takes_pairs(const kernels::AttentionGradientProblem& problem) {
  const kernels::AttentionProblem& forward = problem.forward;
  for (const ConstTensorView& view : {forward.q, forward.k, forward.v, problem.doutput, problem.output}) {
    if (view.present() && view.dtype() != DType::bf16) return false;
  }
  return kMayPair<T>;
}

// Rows of keys or of values, also in pairs if they are multiplied so.
template <class T>
struct KeyRows {
  Matrix<T> rows;                  // [n][padded D]
  Matrix<Pair> by_column, by_row;  // [n][pairs of D], [pairs of n][padded D]

  // Those from `first` on, which in pairs is even.
  KeyRows from(std::int64_t first) const {
    KeyRows rest;
    if (rows.data != nullptr) rest.rows = {rows.row(first), rows.stride};
    if (by_column.data != nullptr) rest.by_column = {by_column.row(first), by_column.stride};
    if (by_row.data != nullptr) rest.by_row = {by_row.row(first / 2), by_row.stride};
    return rest;
  }
};

// What a thread keeps in pairs of bf16; without them nothing.
struct PairWorkspace {
  std::size_t D, E;              // pairs
  Pair *k_by_column, *k_by_row;  // [kBlocksAtOnce][kBlock][D], [kBlocksAtOnce][kBlock / 2][padded D]
  Pair* v_by_column;             // [kBlocksAtOnce][kBlock][E]
  Pair *q_lanes, *q_rows;        // [kPanelsAtOnce][D][kPanel], [kPanelsAtOnce][kPanel / 2][padded D]
  Pair *dout_lanes, *dout_rows;  // the same with E
  Pair *output_lanes, *lines;    // [E][kPanel], [kPanel][D or E]
  Pair *pt, *dst;                // [kPanelsAtOnce][kBlock][kPanel / 2], pairs of queries
  Pair* dst_by_key;              // [kBlock / 2][kPanel], pairs of keys

  PairWorkspace(Carver& carver, bool used, std::size_t head_dim, std::size_t value_dim)
      : D((head_dim + 1) / 2), E((value_dim + 1) / 2) {
    constexpr std::size_t kKeys = kBlocksAtOnce * kBlock, kQueries = kPanelsAtOnce * kPanel<float>;
    const auto take = [&](std::size_t count) { return carver.take<Pair>(used ? count : 0); };
    k_by_column = take(kKeys * D);
    k_by_row = take(kKeys / 2 * padded<float>(head_dim));
    v_by_column = take(kKeys * E);
    q_lanes = take(kQueries * D);
    q_rows = take(kQueries / 2 * padded<float>(head_dim));
    dout_lanes = take(kQueries * E);
    dout_rows = take(kQueries / 2 * padded<float>(value_dim));
    output_lanes = take(kPanel<float> * E);
    lines = take(kPanel<float> * std::max(D, E));
    pt = take(kQueries / 2 * kBlock);
    dst = take(kQueries / 2 * kBlock);
    dst_by_key = take(kPanel<float> * kBlock / 2);
  }
};

// A thread's scratch.
template <class T>
struct GradientWorkspace {
  std::size_t D, E;                                // padded
  T *k, *dk, *partial_dk;                          // [kBlocksAtOnce][kBlock][D]
  T *v, *dv, *partial_dv;                          // [kBlocksAtOnce][kBlock][E]
  T *q, *qt;                                       // [kPanelsAtOnce][kPanel][D], [kPanelsAtOnce][D][kPanel]
  T *dout, *dout_t;                                // the same with E
  T *pt, *dst;                                     // [kPanelsAtOnce][kBlock][kPanel]
  bool* hidden;                                    // [kPanelsAtOnce][kBlock]
  T *output, *output_t;                            // [kPanel][E], [E][kPanel]
  T* live_k;                                       // [kBlock][D]
  T *mask, *slopes, *kept, *dweights, *bias_sums;  // [kBlock][kPanel]
  T* rows;                                         // [kPanel][kBlock]
  PairWorkspace pairs;

  GradientWorkspace(Carver& carver, const kernels::AttentionGradientProblem& problem)
      : D(padded<T>(static_cast<std::size_t>(problem.forward.head_dim))),
        E(padded<T>(static_cast<std::size_t>(problem.forward.value_dim))),
        pairs(carver, takes_pairs<T>(problem), static_cast<std::size_t>(problem.forward.head_dim),
              static_cast<std::size_t>(problem.forward.value_dim)) {
    for (T** keys : {&k, &dk, &partial_dk}) *keys = carver.take<T>(kBlocksAtOnce * kBlock * D);
    for (T** values : {&v, &dv, &partial_dv}) *values = carver.take<T>(kBlocksAtOnce * kBlock * E);
    for (T** queries : {&q, &qt}) *queries = carver.take<T>(kPanelsAtOnce * kPanel<T> * D);
    for (T** outputs : {&dout, &dout_t}) *outputs = carver.take<T>(kPanelsAtOnce * kPanel<T> * E);
    for (T** tile : {&pt, &dst}) *tile = carver.take<T>(kPanelsAtOnce * kBlock * kPanel<T>);
    hidden = carver.take<bool>(kPanelsAtOnce * kBlock);
    for (T** outputs : {&output, &output_t}) *outputs = carver.take<T>(kPanel<T> * E);
    live_k = carver.take<T>(kBlock * D);
    for (T** tile : {&mask, &slopes, &kept, &dweights, &bias_sums, &rows}) *tile = carver.take<T>(kBlock * kPanel<T>);
  }
};

// A panel of queries in the backward pass, and its tile with one block of keys.
template <class T>
struct GradientPanel : PanelRows<T> {
  bool one_tile;          // all keys that it sees are in one tile
  bool finite;            // no row sees NaN or infinity
  bool sums_delta;        // delta is being summed from tiles: from its only tile, or in a walk ahead of the blocks
  bool sums_weights;      // the weights' sums are wanted
  Matrix<T> q, dout;      // [rows][padded D], [rows][padded E]
  T *q_copy, *dout_copy;  // [kPanel][padded D], [kPanel][padded E] where they cannot be read where they are
  T *qt, *dout_t;         // [D][kPanel], [E][kPanel]
  T *pt, *dst;            // [n keys of the tile][kPanel] P^T and dS^T
  // As in the workspace, of this panel; qt and dout_t are then not used.
  Pair *q_lanes, *q_rows, *dout_lanes, *dout_rows;
  bool* hidden;  // [n] is the key hidden from the whole panel?
  alignas(64) T lse[kPanel<T>], delta[kPanel<T>], dlse[kPanel<T>], sink_weight[kPanel<T>];
  // P = norm e^(s - lse); norm is 1 except where lse is so large that its rounding outweighs all other errors.
  alignas(64) T norm[kPanel<T>];
  alignas(64) T weight_sum[kPanel<T>];  // of the tile's keys
  // 1 where the row may see a single key, whose weight is then 1; 2, which no weight is, where it does not. A weight of
  // 1 alone proves nothing: with an lse of 200 other keys may weigh 1e-5 and still be lost in its rounding.
  alignas(64) T lone[kPanel<T>];
  alignas(64) T total[kPanel<T>];  // of a panel with one tile: the sum of e^(s - max)

  // Takes the memory of one of kPanelsAtOnce places.
  void take_place(const GradientWorkspace<T>& w, std::size_t place) {
    q_copy = w.q + place * kPanel<T> * w.D;
    qt = w.qt + place * kPanel<T> * w.D;
    dout_copy = w.dout + place * kPanel<T> * w.E;
    dout_t = w.dout_t + place * kPanel<T> * w.E;
    q_lanes = w.pairs.q_lanes + place * kPanel<T> * w.pairs.D;
    q_rows = w.pairs.q_rows + place * kPanel<T> / 2 * w.D;
    dout_lanes = w.pairs.dout_lanes + place * kPanel<T> * w.pairs.E;
    dout_rows = w.pairs.dout_rows + place * kPanel<T> / 2 * w.E;
    take_tile(w, place, 0);
  }
  // Its tile begins at this key of the block.
  void take_tile(const GradientWorkspace<T>& w, std::size_t place, std::size_t key) {
    pt = w.pt + (place * kBlock + key) * kPanel<T>;
    dst = w.dst + (place * kBlock + key) * kPanel<T>;
    hidden = w.hidden + place * kBlock + key;
  }
};

template <class T>
std::int64_t panels_of(const kernels::Sequence& sequence) {
  const auto rows = static_cast<std::int64_t>(kPanel<T>);
  return (sequence.queries + rows - 1) / rows;
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
