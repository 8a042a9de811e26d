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

  GradientWorkspace(Carver& carver, const kernels::AttentionGradientProblem& problem)
      : D(padded<T>(static_cast<std::size_t>(problem.forward.head_dim))),
        E(padded<T>(static_cast<std::size_t>(problem.forward.value_dim))) {
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
  bool* hidden;           // [n] is the key hidden from the whole panel?
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
