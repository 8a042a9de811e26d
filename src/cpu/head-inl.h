// One head of one sequence, resolved for the kernel: pointers, strides and options in the type we compute in.
#if defined(POLYHEAD_CPU_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_HEAD_INL_H_
#undef POLYHEAD_CPU_HEAD_INL_H_
#else
#define POLYHEAD_CPU_HEAD_INL_H_
#endif

#include <cmath>

#include "cpu/logits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Keys per block: S^T [kBlock][kPanel] is half of a 32 KB L1, and out is rescaled once per block.
inline constexpr std::size_t kBlock = 128;

// Rows of one head in a [B,H,T,D] tensor: row i starts at data + i * stride elements.
struct Rows {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
  DType dtype = DType::f32;

  Rows() = default;
  Rows(const ConstTensorView& view, std::int64_t b, std::int64_t h, std::int64_t row)
      : stride(view.stride(2)), dtype(view.dtype()) {
    if (view.data() == nullptr) return;  // an empty tensor may have no memory
    const std::int64_t at = b * view.stride(0) + h * view.stride(1) + row * view.stride(2);
    data = static_cast<const std::byte*>(view.data()) + at * static_cast<std::int64_t>(size_of(dtype));
  }
  // Can they be read as rows of T where they are? (Not if they run backwards or overlap: strides are unsigned from here
  // on.)
  template <class T>
  bool lie_as(std::size_t columns) const {
    return dtype == dtype_of<T> && stride >= static_cast<std::int64_t>(columns);
  }
  const std::byte* row(std::int64_t i) const { return data + i * stride * static_cast<std::int64_t>(size_of(dtype)); }
};

// Rows as T.
template <class T>
struct Matrix {
  const T* data = nullptr;
  std::size_t stride = 0;

  const T* row(std::int64_t i) const { return data + static_cast<std::size_t>(i) * stride; }
};

// Rows [begin, end): where they are if they lie as T and fill whole vectors, else copied to `copy` [..][padded] with 0
// behind the columns. Rows whose stride would crowd them into a few cache sets are copied too, and so are rows that are
// read often and lie far apart.
template <class T>
Matrix<T> read_rows(const Rows& from, std::int64_t begin, std::int64_t end, std::size_t columns, std::size_t padded,
                    bool read_often, T* copy) {
  const bool crowded = from.stride * static_cast<std::int64_t>(sizeof(T)) % 4096 == 0 ||
                       (read_often && from.stride > 2 * static_cast<std::int64_t>(padded));
  if (from.template lie_as<T>(columns) && columns == padded && !crowded) {
    return {reinterpret_cast<const T*>(from.row(begin)), static_cast<std::size_t>(from.stride)};
  }
  for (std::int64_t j = begin; j < end; ++j) {
    T* to = copy + static_cast<std::size_t>(j - begin) * padded;
    widen(from.row(j), from.dtype, columns, to);
    std::fill(to + columns, to + padded, T{0});
  }
  return {copy, padded};
}

// Rows [begin, end) of bf16 in pairs of columns: where they are, or copied to `copy` [..][pairs].
inline Matrix<Pair> read_paired_columns(const Rows& from, std::int64_t begin, std::int64_t end, std::size_t columns,
                                        bool read_often, Pair* copy) {
  const std::size_t pairs = (columns + 1) / 2;
  const std::byte* first = from.row(begin);
  const bool lie = from.lie_as<bfloat16>(columns) && columns % 2 == 0 && from.stride % 2 == 0 &&
                   reinterpret_cast<std::uintptr_t>(first) % alignof(Pair) == 0;
  const bool crowded =
      from.stride * 2 % 4096 == 0 || (read_often && from.stride > 2 * static_cast<std::int64_t>(columns));
  if (lie && !crowded) return {reinterpret_cast<const Pair*>(first), static_cast<std::size_t>(from.stride) / 2};
  for (std::int64_t j = begin; j < end; ++j) {
    pair_up(reinterpret_cast<const bfloat16*>(from.row(j)), columns,
            copy + static_cast<std::size_t>(j - begin) * pairs);
  }
  return {copy, pairs};
}

// Rows [begin, end) of bf16 in pairs of rows: copied to `copy` [pairs][padded], with 0 behind the columns.
inline Matrix<Pair> read_paired_rows(const Rows& from, std::int64_t begin, std::int64_t end, std::size_t columns,
                                     std::size_t padded, Pair* copy) {
  const auto row = [&](std::int64_t j) { return j < end ? reinterpret_cast<const bfloat16*>(from.row(j)) : nullptr; };
  Pair* to = copy;
  for (std::int64_t j = begin; j < end; j += 2, to += padded) {
    zip(row(j), row(j + 1), columns, to);
    std::fill(to + columns, to + padded, Pair{0});
  }
  return {copy, padded};
}

// One number of an f32 or f64 tensor, at an offset in elements.
inline double number_at(const ConstTensorView& view, std::int64_t offset) {
  return view.dtype() == DType::f64 ? static_cast<const double*>(view.data())[offset]
                                    : static_cast<double>(static_cast<const float*>(view.data())[offset]);
}

template <class T>
struct Head {
  const kernels::AttentionProblem& problem;
  kernels::Sequence sequence;
  std::int64_t n, h;  // sequence and query head
  kernels::PositionMask<std::int64_t> mask;
  std::size_t D, E, padded_E;
  Rows q, k, v;
  Plane keep, bias;
  T q_factor;     // folded into q: the scale, divided by the softcap if there is one
  T softcap = 0;  // 0: none
  T slope = 0;    // of alibi
  T sink = -kInfinity<T>;
  double gate = 1;
  DropoutKey dropout{};
  const std::uint8_t* marked = nullptr;

  Head(const kernels::AttentionProblem& p, std::int64_t sequence_index, std::int64_t head)
      : problem(p),
        sequence(p.sequences[sequence_index]),
        n(sequence_index),
        h(head),
        mask(p.mask_of(sequence)),
        D(static_cast<std::size_t>(p.head_dim)),
        E(static_cast<std::size_t>(p.value_dim)),
        padded_E(padded<T>(E)) {
    const std::int64_t b = sequence.batch;
    const std::int64_t g = h / (p.heads / p.kv_heads);
    q = Rows(p.q, b, h, sequence.query_begin);
    k = Rows(p.k, b, g, sequence.key_begin);
    v = Rows(p.v, b, g, sequence.key_begin);
    keep = plane(p.keep);
    bias = plane(p.bias);
    q_factor = static_cast<T>(p.softcap > 0 ? p.scale / p.softcap : p.scale);
    if (p.softcap > 0) softcap = static_cast<T>(p.softcap);
    if (p.alibi.present()) slope = static_cast<T>(number_at(p.alibi, n * p.alibi.stride(0) + h * p.alibi.stride(1)));
    if (p.sink_logit.present()) sink = static_cast<T>(number_at(p.sink_logit, h * p.sink_logit.stride(0)));
    if (p.gates.present()) gate = number_at(p.gates, n * p.gates.stride(0) + h * p.gates.stride(1));
    if (p.dropout.p > 0) {
      const Origin& origin = p.dropout.origin;
      dropout = {p.dropout.seed,
                 static_cast<std::uint32_t>(origin.head + h),
                 static_cast<std::uint32_t>(origin.sequence + n),
                 static_cast<std::uint32_t>(std::lround(65536.0 * p.dropout.p)),
                 origin.row,
                 origin.key};
    }
    if (p.marked_keys.present()) {
      marked =
          static_cast<const std::uint8_t*>(p.marked_keys.data()) + b * p.marked_keys.stride(0) + sequence.key_begin;
    }
  }

  // Units of the head dim.
  template <class U>
  std::size_t inner() const {
    return (D + kDepth<U> - 1) / kDepth<U>;
  }
  bool drops() const { return problem.dropout.p > 0; }
  // If so, only the logits tell whether a key is visible.
  bool masked_by_tensor() const { return keep.data != nullptr || bias.data != nullptr; }
  // The hull of these keys that the panel sees.
  kernels::KeyRange seen_by(const PanelRows<T>& panel, kernels::KeyRange keys) const {
    return mask.keys_of_some(panel.row, panel.last_row()).hull(keys);
  }
  // Does the panel see all of these keys, and does it see no others?
  bool sees_all(const PanelRows<T>& panel, kernels::KeyRange keys) const {
    return mask.keys_of_all(panel.row, panel.last_row()).has_all(keys);
  }
  bool sees_only(const PanelRows<T>& panel, kernels::KeyRange keys) const {
    const kernels::KeyRange all = seen_by(panel, {0, mask.keys});
    return all.empty() || (all.begin >= keys.begin && all.end <= keys.end);
  }
  // How many of these keys come before the last that a row of the panel may see, and that one.
  std::size_t keys_of(const PanelRows<T>& panel, std::size_t row, kernels::KeyRange keys) const {
    const std::int64_t bound = mask.keys_of(panel.row + static_cast<std::int64_t>(row)).bound();
    return static_cast<std::size_t>(std::clamp<std::int64_t>(bound - keys.begin, 0, keys.end - keys.begin));
  }
  std::int64_t tensor_row(std::int64_t row) const { return sequence.query_begin + row; }

 private:
  Plane plane(const ConstTensorView& view) const {
    if (!view.present()) return {};
    const std::int64_t at = sequence.batch * view.stride(0) + h * view.stride(1) +
                            sequence.query_begin * view.stride(2) + sequence.key_begin * view.stride(3);
    const auto* data =
        static_cast<const std::byte*>(view.data()) + at * static_cast<std::int64_t>(size_of(view.dtype()));
    return {data, view.dtype(), view.stride(2), view.stride(3)};
  }
};

// Memory for the masked logits of a tile: [kBlock][kPanel] unless it says otherwise.
template <class T>
struct LogitTiles {
  T* st;      // the logits
  T* mask;    // bias and keep
  T* rows;    // [kPanel][kBlock] the same, as they lie in the tensors
  T* slopes;  // derivative of the softcap, or null if not wanted
};

// st [n][kPanel] = rows [n][inner] . lanes [inner][kPanel]: keys and queries, or values and output gradients; inner
// counts units, pairs are then multiplied by `factor`. Keys beyond those that the first vector of queries sees are
// multiplied for the second only; what the first then holds is hidden by position.
template <class T, class U>
void tile_scores(const Head<T>& head, const PanelRows<T>& panel, kernels::KeyRange keys, const Matrix<U>& rows,
                 const U* lanes, std::size_t inner, T factor, T* st) {
  const auto n = static_cast<std::size_t>(keys.end - keys.begin);
  if (panel.narrow()) return scores<U, 1>(rows.data, rows.stride, n, lanes, inner, factor, st);
  const std::size_t both = head.keys_of(panel, kLanes<T> - 1, keys);
  scores<U, 2>(rows.data, rows.stride, both, lanes, inner, factor, st);
  scores<U, 1>(rows.data + both * rows.stride, rows.stride, n - both, lanes + kLanes<T>, inner, factor,
               st + both * kPanel<T> + kLanes<T>);
}

// tiles.st = masked logits of the keys, whose rows are k, for the panel, whose queries are qt [D][kPanel].
template <class T, class U>
void masked_logits(const Head<T>& head, const PanelRows<T>& panel, const U* qt, kernels::KeyRange keys,
                   const Matrix<U>& k, const LogitTiles<T>& tiles) {
  const auto n = static_cast<std::size_t>(keys.end - keys.begin);
  tile_scores(head, panel, keys, k, qt, head.template inner<U>(), head.q_factor, tiles.st);
  if (head.softcap > 0) apply_softcap(panel, n, head.softcap, tiles.st, tiles.slopes);
  if (head.masked_by_tensor()) {
    gather_mask(head.bias, head.keep, panel, keys.begin, n, tiles.rows, tiles.mask);
    add_mask(panel, n, tiles.mask, tiles.st);
  }
  if (head.slope != 0) add_alibi(panel, keys.begin, n, head.slope, tiles.st);
  if (!head.sees_all(panel, keys)) hide_by_position(head.mask, panel, keys.begin, n, tiles.st);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
