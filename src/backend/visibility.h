// Which keys a query may see, as far as positions decide: causal, window, always-first. Shared by all kernels:
// constexpr, so that device code may call it, too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "polyhead/attention.h"

namespace polyhead::backend {

struct KeyRange {
  std::int64_t begin = 0, end = 0;
  constexpr bool empty() const noexcept { return begin >= end; }
};

// For a query at position p among `keys` keys, the visible ones are [0, head_end(p)) and [window_begin(p),
// window_end(p)). All three grow with p, so the first and last row of a block bound the whole block.
struct Visibility {
  bool causal = false;
  Window window;
  std::int64_t keys = 0;

  constexpr std::int64_t window_begin(std::int64_t p) const noexcept {
    return window.left == kUnlimited || p <= window.left ? 0 : std::min(p - window.left, keys);
  }
  constexpr std::int64_t window_end(std::int64_t p) const noexcept {
    const std::int64_t right = causal ? 0 : window.right;
    return right == kUnlimited || p >= keys - right ? keys : std::max<std::int64_t>(p + right + 1, 0);
  }
  constexpr std::int64_t head_end(std::int64_t p) const noexcept {
    const std::int64_t limit = causal ? std::clamp<std::int64_t>(p + 1, 0, keys) : keys;
    return std::min(window.always_first, limit);
  }

  // How many keys the row at p sees.
  constexpr std::int64_t count(std::int64_t p) const noexcept {
    const std::int64_t begin = std::max(window_begin(p), head_end(p));
    return head_end(p) + std::max<std::int64_t>(window_end(p) - begin, 0);
  }
  // The lowest key that the row at p sees; meaningless if it sees none.
  constexpr std::int64_t first(std::int64_t p) const noexcept { return head_end(p) > 0 ? 0 : window_begin(p); }

  // No query at a position below this one sees key j or any later one.
  constexpr std::int64_t earliest(std::int64_t j) const noexcept {
    const std::int64_t right = causal ? 0 : window.right;
    const bool by_all = right == kUnlimited || (!causal && j < window.always_first);
    return by_all ? std::numeric_limits<std::int64_t>::min() / 2 : j - right;
  }

  // No query at a position above this one sees key j.
  constexpr std::int64_t latest(std::int64_t j) const noexcept {
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max() / 2;
    return window.left >= kEnd - j || j < window.always_first ? kEnd : j + window.left;
  }

  // The smallest part of `within` that holds all keys of it that rows at positions [p_first, p_last] see.
  constexpr KeyRange hull(std::int64_t p_first, std::int64_t p_last, KeyRange within) const noexcept {
    const KeyRange head{within.begin, std::min(within.end, head_end(p_last))};
    const KeyRange body{std::max(within.begin, window_begin(p_first)), std::min(within.end, window_end(p_last))};
    if (head.empty()) return body;
    if (body.empty()) return head;
    return {head.begin, std::max(head.end, body.end)};
  }

  // Do rows at positions [p_first, p_last] see no key outside the range?
  constexpr bool sees_only(std::int64_t p_first, std::int64_t p_last, KeyRange range) const noexcept {
    const KeyRange all = hull(p_first, p_last, {0, keys});
    return all.empty() || (all.begin >= range.begin && all.end <= range.end);
  }

  // Does every row at positions [p_first, p_last] see every key of the range?
  constexpr bool sees_all(std::int64_t p_first, std::int64_t p_last, KeyRange range) const noexcept {
    const std::int64_t covered_from = head_end(p_first) >= window_begin(p_last) ? 0 : window_begin(p_last);
    return range.end <= head_end(p_first) || (range.begin >= covered_from && range.end <= window_end(p_first));
  }
};

}  // namespace polyhead::backend
