// What a query sees by its position: the one place that knows causal masks, windows and keys that are always seen. All
// kernels ask here for the keys of a query, for the keys of a tile's queries (some or all of them), and for the queries
// of a key. Functions are constexpr so that device code may call them, too; Int is int there, and std::int64_t
// elsewhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/sequences.h"
#include "polyhead/attention.h"

namespace polyhead::kernels {

// [begin, end)
template <class Int>
struct Range {
  Int begin = 0, end = 0;
  constexpr bool empty() const noexcept { return begin >= end; }
};
using KeyRange = Range<std::int64_t>;

// Keys [0, first_end) and [begin, end): either may be empty, and they may overlap.
template <class Int>
struct KeySet {
  Int first_end, begin, end;  // not initialised: a GPU's shared memory cannot be

  // Is key j one of them? Without a branch: this is asked for every logit of a tile that is seen in part.
  constexpr bool has(Int j) const noexcept { return (j >= 0) & ((j < first_end) | ((j >= begin) & (j < end))); }
  // Are any, or all, of a range's keys among them? The range is not empty, but may reach beyond the sequence.
  constexpr bool has_any(Range<Int> range) const noexcept {
    return ((range.end > 0) & (std::max<Int>(range.begin, 0) < first_end)) |
           ((range.end > begin) & (range.begin < end) & (begin < end));
  }
  constexpr bool has_all(Range<Int> range) const noexcept {
    const Int from = first_end >= begin ? 0 : begin;
    return (range.begin >= 0) & ((range.end <= first_end) | ((range.begin >= from) & (range.end <= end)));
  }

  constexpr Int count() const noexcept { return first_end + std::max<Int>(end - std::max(begin, first_end), 0); }
  // The first of them, which means nothing if there are none; and a bound that all are below, which grows with the
  // query even where it sees none.
  constexpr Int lowest() const noexcept { return first_end > 0 ? 0 : begin; }
  constexpr Int bound() const noexcept { return std::max(first_end, end); }

  // Those within a range, as two ranges that do not overlap.
  struct Parts {
    Range<Int> first, rest;
  };
  constexpr Parts parts(Range<Int> within) const noexcept {
    const Range<Int> first{within.begin, std::min(within.end, first_end)};
    return {first, {std::max(first.empty() ? within.begin : first.end, begin), std::min(within.end, end)}};
  }
  // The smallest range that holds all those within a range.
  constexpr Range<Int> hull(Range<Int> within) const noexcept {
    const auto [first, rest] = parts(within);
    if (first.empty()) return rest;
    return {first.begin, rest.empty() ? first.end : rest.end};
  }
};

// What a call says about positions.
struct MaskOptions {
  bool causal = false;
  Window window;

  static MaskOptions of(const AttentionOptions& call) noexcept { return {call.causal, call.window}; }

  // Do positions matter? May what a query sees have a hole?
  constexpr bool positional() const noexcept {
    return causal || window.left != kUnlimited || window.right != kUnlimited;
  }
  constexpr bool has_holes() const noexcept { return window.always_first > 0; }

  friend bool operator==(const MaskOptions&, const MaskOptions&) = default;
};

// The mask of one sequence. Query i sees keys [0, first_end(i)) and [begin(i), end(i)). All three grow with i, and what
// consecutive queries see has no holes but the one between the two ranges: the first and the last of them tell what
// some of them see, and what all see. A sequence has at most kFar queries and kFar keys.
template <class Int>
struct PositionMask {
  static constexpr Int kFar = std::numeric_limits<Int>::max() / 2;

  // From i to begin, end and first_end, before those are clamped to the keys. first_shift >= end_shift, so that the
  // queries of a key are a range.
  Int begin_shift, end_shift, first_shift;
  Int first, keys;  // keys below `first` are in every window

  constexpr PositionMask(const MaskOptions& options, const Sequence& sequence) noexcept
      : begin_shift(shift(sequence.offset, options.window.left, -1)),
        end_shift(shift(sequence.offset + 1, options.causal ? 0 : options.window.right, 1)),
        first_shift(shift(sequence.offset + 1, options.causal ? 0 : kUnlimited, 1)),
        first(static_cast<Int>(std::min<std::int64_t>(options.window.always_first, kFar))),
        keys(static_cast<Int>(sequence.keys)) {}

  // The keys that query i sees; that some of the queries i to last see; that all of them see.
  constexpr KeySet<Int> keys_of(Int i) const noexcept { return {first_end(i), begin(i), end(i)}; }
  constexpr KeySet<Int> keys_of_some(Int i, Int last) const noexcept { return {first_end(last), begin(i), end(last)}; }
  constexpr KeySet<Int> keys_of_all(Int i, Int last) const noexcept { return {first_end(i), begin(last), end(i)}; }

  // The queries that see key j, and those that see some of the keys j to last. They may reach beyond the sequence.
  constexpr Range<Int> queries_of(Int j) const noexcept {
    const bool always = j < first;
    return {j - (always ? first_shift : end_shift) + 1, always ? kFar : j - begin_shift + 1};
  }
  constexpr Range<Int> queries_of_some(Int j, Int last) const noexcept {
    const Range<Int> lowest = queries_of(j);
    return {lowest.begin, std::max(lowest.end, queries_of(last).end)};
  }

  // Does query i see exactly keys [0, end(i)), for all i?
  constexpr bool begins_at_first() const noexcept {
    return begin_shift == -kFar && (first == 0 || end_shift >= first_shift);
  }
  // So many keys, at most, are seen by some of `queries` consecutive queries.
  constexpr std::int64_t most_keys(std::int64_t queries) const noexcept {
    const std::int64_t window = std::min<std::int64_t>(std::int64_t{end_shift} - begin_shift, keys);
    return std::min<std::int64_t>(std::min(first, keys) + window + queries - 1, keys);
  }

 private:
  constexpr Int begin(Int i) const noexcept { return clamped(i + begin_shift); }
  constexpr Int end(Int i) const noexcept { return clamped(i + end_shift); }
  constexpr Int first_end(Int i) const noexcept { return std::min(first, clamped(i + first_shift)); }
  constexpr Int clamped(Int j) const noexcept { return std::max<Int>(0, std::min(j, keys)); }

  // from + sign * reach, within kFar of 0.
  static constexpr Int shift(std::int64_t from, std::int64_t reach, int sign) noexcept {
    constexpr std::int64_t kMost = kUnlimited / 4;  // beyond any sequence
    if (reach > kMost) return static_cast<Int>(sign * kFar);
    return static_cast<Int>(std::clamp<std::int64_t>(from + sign * reach, -kFar, kFar));
  }
};

}  // namespace polyhead::kernels
