// Embedding on the CPU. The backward pass shares out columns, not rows, so that no two threads add to one number.
#include "backend/embedding.h"

#include <algorithm>

#include "cpu/parallel.h"

namespace polyhead::cpu {
namespace {

template <class T>
void embed_as(Team& team, const ConstTensorView& table, const ConstTensorView& indices,
              const ConstTensorView& positions, const TensorView& y) {
  const std::int64_t C = table.shape(1), length = y.shape(1);
  for_rows(team, RowBlocks(indices.count(), C), [&](std::int64_t row) {
    const T* entry = table.as<T>() + indices.as<std::int32_t>()[row] * C;
    T* to = y.as<T>() + row * C;
    if (!positions.present()) {
      std::copy_n(entry, C, to);
      return;
    }
    const T* place = positions.as<T>() + row % length * C;
    for (std::int64_t c = 0; c < C; ++c) to[c] = entry[c] + place[c];
  });
}

template <class T>
void embed_backward_as(Team& team, const ConstTensorView& dy, const ConstTensorView& indices,
                       const TensorView& dtable) {
  constexpr std::int64_t kColumns = 16;  // a cache line of f32
  const std::int64_t C = dy.shape(2), M = indices.count(), pieces = (C + kColumns - 1) / kColumns;
  const auto members = static_cast<int>(std::clamp<std::int64_t>(dy.count() / 32768, 1, team.threads()));
  team.for_each(pieces, std::max<std::int64_t>(1, pieces / (4 * members)), members, [&](int) {
    return [&](std::int64_t piece) {
      const std::int64_t begin = piece * kColumns, end = std::min(C, begin + kColumns);
      for (std::int64_t row = 0; row < M; ++row) {
        T* to = dtable.as<T>() + indices.as<std::int32_t>()[row] * C;
        const T* from = dy.as<T>() + row * C;
        for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    };
  });
}

std::int64_t length_of(const ConstTensorView& lengths, std::int64_t b, std::int64_t all) {
  return lengths.present() ? lengths.as<std::int32_t>()[b * lengths.stride(0)] : all;
}

template <class T>
void pool_as(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  const std::int64_t C = x.shape(2), all = x.shape(1);
  for_rows(team, RowBlocks(x.shape(0), C * all), [&](std::int64_t b) {
    const std::int64_t length = length_of(lengths, b, all);
    T* to = y.as<T>() + b * C;
    std::fill_n(to, C, T{0});
    for (std::int64_t t = 0; t < length; ++t) {
      const T* from = x.as<T>() + (b * all + t) * C;
      for (std::int64_t c = 0; c < C; ++c) to[c] += from[c];
    }
    for (std::int64_t c = 0; c < C; ++c) to[c] /= static_cast<T>(length);
  });
}

template <class T>
void pool_backward_as(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  const std::int64_t C = dx.shape(2), all = dx.shape(1);
  for_rows(team, RowBlocks(dx.shape(0), C * all), [&](std::int64_t b) {
    const std::int64_t length = length_of(lengths, b, all);
    const T* from = dy.as<T>() + b * C;
    for (std::int64_t t = 0; t < all; ++t) {
      T* to = dx.as<T>() + (b * all + t) * C;
      for (std::int64_t c = 0; c < C; ++c) to[c] = t < length ? from[c] / static_cast<T>(length) : T{0};
    }
  });
}

}  // namespace

void embed(Team& team, const ConstTensorView& table, const ConstTensorView& indices, const ConstTensorView& positions,
           const TensorView& y) {
  table.dtype() == DType::f64 ? embed_as<double>(team, table, indices, positions, y)
                              : embed_as<float>(team, table, indices, positions, y);
}
void embed_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& indices, const TensorView& dtable) {
  dy.dtype() == DType::f64 ? embed_backward_as<double>(team, dy, indices, dtable)
                           : embed_backward_as<float>(team, dy, indices, dtable);
}
void pool(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  x.dtype() == DType::f64 ? pool_as<double>(team, x, lengths, y) : pool_as<float>(team, x, lengths, y);
}
void pool_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  dy.dtype() == DType::f64 ? pool_backward_as<double>(team, dy, lengths, dx)
                           : pool_backward_as<float>(team, dy, lengths, dx);
}

}  // namespace polyhead::cpu
