// The values that attention depends on, checked before anything is computed.
#include <bit>
#include <cmath>

#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "kernels/bad_value.h"

namespace polyhead::cpu {
namespace {

using kernels::BadValue;
using kernels::Integers;
using Kind = BadValue::Kind;

// Offsets [0, a, b, ..., total] of a packed axis.
void expect_offsets(std::string_view op, const Integers& offsets, std::int64_t sequences, std::int64_t total, Kind ends,
                    Kind falls) {
  if (offsets[0] != 0 || offsets[sequences] != total) {
    throw kernels::error_of(op, {.kind = ends, .found = offsets[0], .found_too = offsets[sequences], .high = total});
  }
  for (std::int64_t n = 0; n < sequences; ++n) {
    if (offsets[n + 1] >= offsets[n]) continue;
    throw kernels::error_of(op, {.kind = falls, .found = offsets[n], .found_too = offsets[n + 1]});
  }
}

void expect_sequences(std::string_view op, const kernels::Sequences& s) {
  if (s.packed) {
    expect_offsets(op, s.cu_q, s.count, s.queries, Kind::cu_q_ends, Kind::cu_q_falls);
    expect_offsets(op, s.cu_k, s.count, s.keys, Kind::cu_k_ends, Kind::cu_k_falls);
  }
  const auto expect_within = [&](Kind kind, const Integers& numbers, std::int64_t b, std::int64_t high,
                                 std::int64_t low = 0) {
    if (!numbers.present() || (numbers[b] >= low && numbers[b] <= high)) return;
    throw kernels::error_of(op, {.kind = kind, .place = {b}, .found = numbers[b], .low = low, .high = high});
  };
  for (std::int64_t b = 0; b < s.count; ++b) {
    expect_within(Kind::key_lengths, s.key_lengths, b, s.keys);
    expect_within(Kind::key_start, s.key_start, b, s.key_lengths.present() ? s.key_lengths[b] : s.keys);
    expect_within(Kind::query_lengths, s.query_lengths, b, s.queries);
    expect_within(Kind::first_positions, s.first_position, b, kernels::kMostPosition, -kernels::kMostPosition);
  }
}

template <class T>
void expect_sinks(std::string_view op, const ConstTensorView& sinks) {
  for (std::int64_t h = 0; h < sinks.shape(0); ++h) {
    const auto sink = static_cast<double>(data_of<T>(sinks)[h * sinks.stride(0)]);
    if (sink < std::numeric_limits<double>::infinity()) continue;  // -inf is no sink
    throw kernels::error_of(op, {.kind = Kind::sink_logit, .place = {h}, .number = sink});
  }
}

void expect_targets(std::string_view op, const ConstTensorView& targets, std::int64_t keys) {
  const auto* places = data_of<std::int32_t>(targets);
  for (std::int64_t b = 0; b < targets.shape(0); ++b) {
    for (std::int64_t t = 0; t < targets.shape(1); ++t) {
      for (std::int64_t slot = 0; slot < targets.shape(2); ++slot) {
        const std::int32_t place = places[b * targets.stride(0) + t * targets.stride(1) + slot * targets.stride(2)];
        if (place >= -1 && place < keys) continue;
        throw kernels::error_of(op, {.kind = Kind::target_keys, .place = {b, t, slot}, .found = place, .high = keys});
      }
    }
  }
}

// Refuses +infinity, given by its bits, in a broadcast view [B,H,T,S]. Bits are compared a whole row at a time without
// a branch, so that the compiler vectorises it: the tensor is as large as the scores.
template <class Element, class Bits>
void expect_without(Team& team, std::string_view op, const ConstTensorView& view, Bits infinity) {
  const auto size = [&](int axis) {
    return view.stride(axis) == 0 ? std::min<std::int64_t>(view.shape(axis), 1) : view.shape(axis);
  };
  const std::int64_t columns = size(3), step = view.stride(3), H = size(1), T = size(2);
  for_rows(team, RowBlocks(size(0) * H * T, columns), [&](std::int64_t index) {
    const std::int64_t b = index / (H * T), h = index / T % H, t = index % T;
    const Element* row = data_of<Element>(view) + b * view.stride(0) + h * view.stride(1) + t * view.stride(2);
    Bits found = 0;
    if (step == 1) {
      for (std::int64_t s = 0; s < columns; ++s) found |= static_cast<Bits>(std::bit_cast<Bits>(row[s]) == infinity);
    } else {
      for (std::int64_t s = 0; s < columns; ++s)
        found |= static_cast<Bits>(std::bit_cast<Bits>(row[s * step]) == infinity);
    }
    if (found != 0) throw kernels::error_of(op, {.kind = Kind::bias});
  });
}

void expect_bias(Team& team, std::string_view op, const ConstTensorView& bias) {
  switch (bias.dtype()) {
    case DType::f64: return expect_without<double, std::uint64_t>(team, op, bias, 0x7ff0000000000000u);
    case DType::f32: return expect_without<float, std::uint32_t>(team, op, bias, 0x7f800000u);
    case DType::f16: return expect_without<float16, std::uint16_t>(team, op, bias, 0x7c00u);
    default: return expect_without<bfloat16, std::uint16_t>(team, op, bias, 0x7f80u);
  }
}

}  // namespace

void check_attention(Team& team, std::string_view op, const kernels::AttentionProblem& problem) {
  expect_sequences(op, problem.sequences);
  const ConstTensorView& sinks = problem.sink_logit;
  if (sinks.present()) sinks.dtype() == DType::f64 ? expect_sinks<double>(op, sinks) : expect_sinks<float>(op, sinks);
  if (problem.bias.present() && problem.bias.count() > 0) expect_bias(team, op, problem.bias);
  if (problem.target_keys.present()) expect_targets(op, problem.target_keys, problem.k.shape(2));
}

}  // namespace polyhead::cpu
