// The sequences of a batch, as a kernel of any device reads them: the lengths stay in device memory. Functions are
// constexpr so that device code may call them, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "polyhead/tensor.h"

namespace polyhead::kernels {

// One sequence: which part of the tensors it owns. Of the `rows` query rows from query_begin on, in batch row `batch`,
// the first `queries` exist; the rest are padding to be cleared. Key j is in row key_begin + j. Query i is at position
// i + offset.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t query_begin = 0, queries = 0, rows = 0;
  std::int64_t key_begin = 0, keys = 0;
  std::int64_t offset = 0;
  std::int64_t weights_column = 0;  // where key 0 stands in the weights
};

// A tensor of i32 or i64 in device memory.
class Integers {
 public:
  Integers() = default;
  explicit Integers(const ConstTensorView& view) : stride_(view.present() ? view.stride(0) : 0) {
    if (!view.present()) return;
    if (view.dtype() == DType::i64) {
      wide_ = static_cast<const std::int64_t*>(view.data());
    } else {
      narrow_ = static_cast<const std::int32_t*>(view.data());
    }
  }
  constexpr bool present() const noexcept { return narrow_ != nullptr || wide_ != nullptr; }
  constexpr std::int64_t operator[](std::int64_t n) const noexcept {
    return wide_ != nullptr ? wide_[n * stride_] : narrow_[n * stride_];
  }
  // Number n, clamped to [low, high]; `otherwise` if the tensor is absent.
  constexpr std::int64_t within(std::int64_t n, std::int64_t low, std::int64_t high, std::int64_t otherwise) const {
    return present() ? std::max(low, std::min((*this)[n], high)) : otherwise;
  }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  std::int64_t stride_ = 0;
};

// Positions up to this size can be added and subtracted without overflow.
inline constexpr std::int64_t kMostPosition = (std::int64_t{1} << 31) - 1;

// All `count` sequences. Numbers out of range are an error that Table::check_attention reports; they are clamped here
// so that a kernel which a queue runs before the report is read stays within the tensors.
struct Sequences {
  std::int64_t count = 0;              // B, or N if packed
  std::int64_t queries = 0, keys = 0;  // T and S of the tensors
  bool packed = false;
  bool bottom_right = false;
  Integers key_lengths{}, key_start{}, query_lengths{};  // [B]
  Integers cu_q{}, cu_k{};                               // [N+1]
  Integers first_position{};                             // [B] or [N]: where query 0 stands
  std::int64_t position = 0;                             // the same for all, without that list and bottom_right

  struct Iterator {
    const Sequences& of;
    std::int64_t n;
    constexpr Sequence operator*() const noexcept { return of[n]; }
    constexpr Iterator& operator++() noexcept { return ++n, *this; }
    constexpr bool operator!=(const Iterator& other) const noexcept { return n != other.n; }
  };
  constexpr Iterator begin() const noexcept { return {*this, 0}; }
  constexpr Iterator end() const noexcept { return {*this, count}; }

  constexpr Sequence operator[](std::int64_t n) const noexcept {
    Sequence s;
    if (packed) {
      s.query_begin = cu_q.within(n, 0, queries, 0);
      s.queries = s.rows = cu_q.within(n + 1, s.query_begin, queries, 0) - s.query_begin;
      s.key_begin = cu_k.within(n, 0, keys, 0);
      s.keys = cu_k.within(n + 1, s.key_begin, keys, 0) - s.key_begin;
    } else {
      const std::int64_t end = key_lengths.within(n, 0, keys, keys);
      s.batch = n;
      s.queries = query_lengths.within(n, 0, queries, queries);
      s.rows = queries;
      s.key_begin = s.weights_column = key_start.within(n, 0, end, 0);
      s.keys = end - s.key_begin;
    }
    s.offset = first_position.within(n, -kMostPosition, kMostPosition, bottom_right ? s.keys - s.queries : position);
    return s;
  }
};

}  // namespace polyhead::kernels
