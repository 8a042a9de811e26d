// Embedding on the CPU. The backward pass shares out columns, not rows, so that no two threads add to one number.
#include <algorithm>

#include "core/blocks.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "kernels/bad_value.h"

namespace polyhead::cpu {
namespace {

using kernels::BadValue;

void expect_indices(std::string_view op, const ConstTensorView& indices, std::int64_t entries) {
  const std::int64_t count = indices.count();
  const auto* numbers = data_of<std::int32_t>(indices);
  for (std::int64_t n = 0; n < count; ++n) {
    if (numbers[n] >= 0 && numbers[n] < entries) continue;
    throw kernels::error_of(op, {.kind = BadValue::Kind::indices, .place = {n}, .found = numbers[n], .high = entries});
  }
}

void expect_lengths(std::string_view op, const ConstTensorView& lengths, std::int64_t tokens) {
  const kernels::Integers numbers(lengths);
  for (std::int64_t b = 0; numbers.present() && b < lengths.shape(0); ++b) {
    if (numbers[b] >= 1 && numbers[b] <= tokens) continue;
    throw kernels::error_of(op, {.kind = BadValue::Kind::lengths, .found = numbers[b], .high = tokens});
  }
}

// T is the type of y, S that of the table.
template <class T, class S = T>
void embed_as(Team& team, const ConstTensorView& table, const ConstTensorView& indices,
              const ConstTensorView& positions, const TensorView& y) {
  const std::int64_t C = table.shape(1), length = y.shape(1);
  for_rows(team, RowBlocks(indices.count(), C), [&](std::int64_t row) {
    const S* entry = data_of<S>(table) + data_of<std::int32_t>(indices)[row] * C;
    T* to = data_of<T>(y) + row * C;
    if (!positions.present()) {
      std::transform(entry, entry + C, to, [](S number) { return static_cast<T>(number); });
      return;
    }
    const T* place = data_of<T>(positions) + row % length * C;
    for (std::int64_t c = 0; c < C; ++c) to[c] = static_cast<T>(entry[c]) + place[c];
  });
}

// y in f32 from a table in blocks.
void embed_blocks(Team& team, const ConstTensorView& table, const ConstTensorView& indices,
                  const ConstTensorView& positions, const TensorView& y) {
  const BlockMatrix matrix(table);
  const std::int64_t C = table.shape(1), length = y.shape(1);
  for_rows(team, RowBlocks(indices.count(), C), [&](std::int64_t row) {
    float* to = data_of<float>(y) + row * C;
    matrix.widen_row(data_of<std::int32_t>(indices)[row], to);
    if (!positions.present()) return;
    const float* place = data_of<float>(positions) + row % length * C;
    for (std::int64_t c = 0; c < C; ++c) to[c] += place[c];
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
        T* to = data_of<T>(dtable) + data_of<std::int32_t>(indices)[row] * C;
        const T* from = data_of<T>(dy) + row * C;
        for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    };
  });
}

template <class T>
void pool_as(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  const std::int64_t C = x.shape(2), all = x.shape(1);
  for_rows(team, RowBlocks(x.shape(0), C * all), [&](std::int64_t b) {
    const std::int64_t length = kernels::Integers(lengths).within(b, 1, all, all);
    T* to = data_of<T>(y) + b * C;
    std::fill_n(to, C, T{0});
    for (std::int64_t t = 0; t < length; ++t) {
      const T* from = data_of<T>(x) + (b * all + t) * C;
      for (std::int64_t c = 0; c < C; ++c) to[c] += from[c];
    }
    for (std::int64_t c = 0; c < C; ++c) to[c] /= static_cast<T>(length);
  });
}

template <class T>
void pool_backward_as(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  const std::int64_t C = dx.shape(2), all = dx.shape(1);
  for_rows(team, RowBlocks(dx.shape(0), C * all), [&](std::int64_t b) {
    const std::int64_t length = kernels::Integers(lengths).within(b, 1, all, all);
    const T* from = data_of<T>(dy) + b * C;
    for (std::int64_t t = 0; t < all; ++t) {
      T* to = data_of<T>(dx) + (b * all + t) * C;
      for (std::int64_t c = 0; c < C; ++c) to[c] = t < length ? from[c] / static_cast<T>(length) : T{0};
    }
  });
}

}  // namespace

void embed(Team& team, const kernels::EmbeddingProblem& problem) {
  const auto& [table, indices, positions, y] = problem;
  expect_indices("embed", indices, table.shape(0));
  switch (table.dtype()) {
    case DType::f64: return embed_as<double>(team, table, indices, positions, y);
    case DType::f16: return embed_as<float, float16>(team, table, indices, positions, y);
    case DType::bf16: return embed_as<float, bfloat16>(team, table, indices, positions, y);
    case DType::blocks: return embed_blocks(team, table, indices, positions, y);
    default: return embed_as<float>(team, table, indices, positions, y);
  }
}
void embed_backward(Team& team, const kernels::EmbeddingGradientProblem& problem) {
  const auto& [dy, indices, dtable] = problem;
  expect_indices("embed_backward", indices, dtable.shape(0));
  dy.dtype() == DType::f64 ? embed_backward_as<double>(team, dy, indices, dtable)
                           : embed_backward_as<float>(team, dy, indices, dtable);
}
void pool(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  expect_lengths("pool", lengths, x.shape(1));
  x.dtype() == DType::f64 ? pool_as<double>(team, x, lengths, y) : pool_as<float>(team, x, lengths, y);
}
void pool_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx) {
  expect_lengths("pool_backward", lengths, dx.shape(1));
  dy.dtype() == DType::f64 ? pool_backward_as<double>(team, dy, lengths, dx)
                           : pool_backward_as<float>(team, dy, lengths, dx);
}

}  // namespace polyhead::cpu
