// The values that attention depends on, checked on the device.
#include "cuda/kernels.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;
using kernels::BadValue;
using kernels::Integers;
using Kind = BadValue::Kind;

constexpr std::int64_t kMostPosition = (std::int64_t{1} << 30) - 1;  // kernels count in 32 bits

// Checks the lengths of sequence n, or its two offsets; for sequence 0 also the first and last offset of all.
struct CheckSequence {
  kernels::Sequences s;
  Violations violations;

  __device__ void operator()(std::int64_t n) const {
    check_within(Kind::first_positions, s.first_position, n, kMostPosition, -kMostPosition);
    if (s.packed) {
      check_offsets(s.cu_q, n, s.queries, Kind::cu_q_ends, Kind::cu_q_falls);
      check_offsets(s.cu_k, n, s.keys, Kind::cu_k_ends, Kind::cu_k_falls);
      return;
    }
    check_within(Kind::key_lengths, s.key_lengths, n, s.keys);
    check_within(Kind::key_start, s.key_start, n, s.key_lengths.present() ? s.key_lengths[n] : s.keys);
    check_within(Kind::query_lengths, s.query_lengths, n, s.queries);
  }

  __device__ void check_offsets(const Integers& offsets, std::int64_t n, std::int64_t total, Kind ends,
                                Kind falls) const {
    if (n == 0 && (offsets[0] != 0 || offsets[s.count] != total)) {
      violations.add({.kind = ends, .found = offsets[0], .found_too = offsets[s.count], .high = total});
    }
    if (offsets[n + 1] < offsets[n]) {
      violations.add({.kind = falls, .found = offsets[n], .found_too = offsets[n + 1]});
    }
  }
  __device__ void check_within(Kind kind, const Integers& numbers, std::int64_t n, std::int64_t high,
                               std::int64_t low = 0) const {
    if (!numbers.present() || (numbers[n] >= low && numbers[n] <= high)) return;
    violations.add({.kind = kind, .place = {n}, .found = numbers[n], .low = low, .high = high});
  }
};

struct CheckSink {
  const float* sinks;
  std::int64_t stride;
  Violations violations;
  __device__ void operator()(std::int64_t h) const {
    const float sink = sinks[h * stride];
    if (sink < INFINITY) return;  // -inf is no sink
    violations.add({.kind = Kind::sink_logit, .place = {h}, .number = sink});
  }
};

struct CheckBias {
  Strided bias;
  std::int64_t H, T, S;  // those of the bias itself: 1 where it is broadcast
  Violations violations;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t at = bias.at(n / S / T / H, n / S / T % H, n / S % T, n % S);
    if (load(bias.data, bias.dtype, at) == INFINITY) violations.add({.kind = Kind::bias});
  }
};

struct CheckTarget {
  Strided targets;  // [B,T,4] i32
  std::int64_t T, slots, keys;
  Violations violations;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t b = n / slots / T, t = n / slots % T, slot = n % slots, at = targets.at(b, t, slot);
    const std::int64_t place = targets.dtype == DType::i64 ? static_cast<const std::int64_t*>(targets.data)[at]
                                                           : static_cast<const std::int32_t*>(targets.data)[at];
    if (place >= -1 && place < keys) return;
    violations.add({.kind = Kind::target_keys, .place = {b, t, slot}, .found = place, .high = keys});
  }
};

}  // namespace

void check_attention(CudaExecutor& executor, std::string_view op, const kernels::AttentionProblem& p) {
  const Violations violations = executor.queue().violations(op);
  const kernels::Sequences& s = p.sequences;
  if (s.packed || s.key_lengths.present() || s.key_start.present() || s.query_lengths.present() ||
      s.first_position.present()) {
    for_elements(executor, s.count, CheckSequence{s, violations});
  }
  if (p.sink_logit.present()) {
    expect_no_f64(op, p.sink_logit);
    for_elements(executor, p.heads, CheckSink{floats(p.sink_logit), p.sink_logit.stride(0), violations});
  }
  if (p.bias.present() && p.bias.count() > 0) {
    const auto size = [&](int axis) { return p.bias.stride(axis) == 0 ? 1 : p.bias.shape(axis); };
    for_elements(executor, size(0) * size(1) * size(2) * size(3),
                 CheckBias{Strided(p.bias), size(1), size(2), size(3), violations});
  }
  if (p.target_keys.present()) {
    for_elements(
        executor, p.target_keys.count(),
        CheckTarget{Strided(p.target_keys), p.target_keys.shape(1), p.target_keys.shape(2), p.k.shape(2), violations});
  }
}

}  // namespace polyhead::cuda
