// The light statistics, from what the forward pass leaves of every row. A pass of its own, over the rows alone: it
// looks again at the few keys that are watched (the first visible one, self, previous and next), and sums in a fixed
// order.
#pragma once

#include "cuda/sm90/arguments.h"
#include "cuda/sm90/softmax.cuh"
#include "polyhead/attention.h"

namespace polyhead::cuda::sm90 {

struct StatisticsArguments {
  backend::Sequences sequences;
  Reach reach;
  int heads = 0, heads_per_kv = 1;
  int slots = 0;  // blocks of kRowsPerSlot rows that a head has at the most
  float scale = 1;
  Strided<const void> queries, keys;
  const float* sink_logit = nullptr;
  std::int64_t sink_head = 0;
  const RowOutcome* outcomes = nullptr;  // [B,H,T]
  float* sums = nullptr;                 // [B or 1][H][slots][kLightStatistics]
  Strided<float> row_statistics;         // may be absent
  std::int64_t row_statistics_field = 0;
  Strided<float> statistics;  // [N,H,field], by its strides
};

inline constexpr int kRowsPerSlot = 32;

// Of a row's fields, those that lane c of four makes: fields 2c and 2c + 1 in x and y (lane 3 has no y), and the count
// and weight of its watched key, fields 6 + 2c and 7 + 2c (lane 0, the first key, has no count).
struct FieldParts {
  float x = 0, y = 0, count = 0, weight = 0;

  __device__ void add(const FieldParts& other, int c) {
    x = c == 3 ? fmaxf(x, other.x) : x + other.x;  // max_logit is the one maximum
    y += other.y;
    count += other.count;
    weight += other.weight;
  }
  // into[f * stride] for the fields of lane c.
  __device__ void store(float* into, std::int64_t stride, int c) const {
    into[2 * c * stride] = x;
    if (c < 3) into[(2 * c + 1) * stride] = y;
    if (c > 0) into[(6 + 2 * c) * stride] = count;
    into[(7 + 2 * c) * stride] = weight;
  }
};
static_assert(static_cast<int>(Statistic::max_logit) == 6 && static_cast<int>(Statistic::first_weight) == 7 &&
              static_cast<int>(Statistic::next_weight) == 13 && kLightStatistics == 14);

template <class T>
__device__ inline float2 widen(std::uint32_t two) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return {__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&two));
  }
}

// This lane's 8 columns of q . k.
template <class T>
__device__ inline float partial_dot(const uint4& q, const T* k) {
  const uint4 other = *reinterpret_cast<const uint4*>(k);
  const std::uint32_t as[4] = {q.x, q.y, q.z, q.w}, bs[4] = {other.x, other.y, other.z, other.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 a = widen<T>(as[i]), b = widen<T>(bs[i]);
    sum = fmaf(a.y, b.y, fmaf(a.x, b.x, sum));
  }
  return sum;
}

// A row: D / 8 lanes share it, the first four of which make its fields.
template <class T, int D>
class RowReport {
 public:
  static constexpr int kLanes = D / 8;

  __device__ RowReport(const StatisticsArguments& a, int sequence, int head)
      : a_(a),
        s_(a.sequences[sequence]),
        head_(head),
        lane_(static_cast<int>(threadIdx.x) % kLanes),
        sink_(a.sink_logit != nullptr && a.sink_logit[head * a.sink_head] > -INFINITY) {}

  __device__ FieldParts fields(int row) const {
    FieldParts parts;
    if (lane_ == 3) parts.x = -INFINITY;
    const int p = row + static_cast<int>(clamped(s_.offset));
    const RowSight sight(a_.reach, p, static_cast<int>(s_.keys));
    const int visible = row < s_.queries ? sight.count() : 0;
    if (visible == 0) return parts;
    const std::int64_t place = s_.query_begin + row;
    const RowOutcome outcome = a_.outcomes[(s_.batch * a_.heads + head_) * a_.sequences.queries + place];
    const int keys[4] = {sight.first(), p, p - 1, p + 1};
    const T* query = static_cast<const T*>(a_.queries.data) + a_.queries.offset(s_.batch, head_, place);
    const uint4 q = *reinterpret_cast<const uint4*>(query + lane_ * 8);
    float own = 0;
    bool seen = false;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (!sight.sees(keys[c])) continue;  // the same for all lanes of the row
      const T* key = static_cast<const T*>(a_.keys.data) +
                     a_.keys.offset(s_.batch, head_ / a_.heads_per_kv, s_.key_begin + keys[c]);
      const float score = sum_of_lanes(partial_dot(q, key + lane_ * 8));
      if (lane_ == c) {
        own = score;
        seen = true;
      }
    }
    const auto weight = [&](float score) { return exp2_fast(fmaf(score, a_.scale, -outcome.lse)); };
    parts.count = seen ? 1 : 0;
    parts.weight = seen ? weight(own) : 0;
    const float outcomes = static_cast<float>(visible + (sink_ ? 1 : 0));
    switch (lane_) {
      case 0:
        parts.x = 1;
        parts.y = outcome.entropy;
        break;
      case 1:
        parts.x = outcomes > 1 ? 1 : 0;
        parts.y = outcomes > 1 ? outcome.entropy / logf(outcomes) : 0;
        break;
      case 2:
        parts.x = weight(outcome.best);
        parts.y = static_cast<float>(outcome.best_key - p);
        break;
      case 3: parts.x = outcome.best * a_.scale / kLog2E; break;
      default: break;
    }
    return parts;
  }

  __device__ bool is_written(int row) const { return row < s_.rows; }
  __device__ void store(int row, const FieldParts& parts) const {
    if (a_.row_statistics.data == nullptr || lane_ >= 4) return;
    parts.store(a_.row_statistics.data + a_.row_statistics.offset(s_.batch, head_, s_.query_begin + row),
                a_.row_statistics_field, lane_);
  }
  __device__ int lane() const { return lane_; }

 private:
  __device__ static std::int64_t clamped(std::int64_t offset) {
    return std::max<std::int64_t>(-Reach::kLongest, std::min<std::int64_t>(offset, Reach::kLongest));
  }
  // Lanes of a row go through the same branches, so its lanes alone take part.
  __device__ static float sum_of_lanes(float x) {
    const unsigned row = kLanes == 32 ? ~0u : ((1u << kLanes) - 1) << (threadIdx.x % 32 / kLanes * kLanes);
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) x += __shfl_xor_sync(row, x, step);
    return x;
  }

  const StatisticsArguments& a_;
  const backend::Sequence s_;
  const int head_, lane_;
  const bool sink_;
};

// One block of 128 threads: the rows of a slot.
template <class T, int D>
__global__ void __launch_bounds__(128) report_rows(const __grid_constant__ StatisticsArguments a) {
  using Report = RowReport<T, D>;
  __shared__ float warps[4][kLightStatistics];
  const int column = static_cast<int>(blockIdx.x) / a.slots;
  int slot = static_cast<int>(blockIdx.x) - column * a.slots;
  const int sequence = a.sequences.packed ? find_sequence(a.sequences, slot, kRowsPerSlot, slot) : column / a.heads;
  const Report report(a, sequence, a.sequences.packed ? column : column % a.heads);
  constexpr int kRowsAtATime = 128 / Report::kLanes;
  FieldParts total;
  if (report.lane() == 3) total.x = -INFINITY;
  for (int i = static_cast<int>(threadIdx.x) / Report::kLanes; i < kRowsPerSlot; i += kRowsAtATime) {
    const int row = slot * kRowsPerSlot + i;
    if (!report.is_written(row)) break;
    const FieldParts parts = report.fields(row);
    report.store(row, parts);
    total.add(parts, report.lane());
  }
  __syncwarp();
#pragma unroll
  for (int step = Report::kLanes; step < 32; step *= 2) {
    const FieldParts other{__shfl_xor_sync(~0u, total.x, step), __shfl_xor_sync(~0u, total.y, step),
                           __shfl_xor_sync(~0u, total.count, step), __shfl_xor_sync(~0u, total.weight, step)};
    total.add(other, report.lane());
  }
  if (threadIdx.x % 32 < 4) total.store(warps[threadIdx.x / 32], 1, report.lane());
  __syncthreads();
  const int f = static_cast<int>(threadIdx.x);
  if (f >= kLightStatistics) return;
  float sum = warps[0][f];
  for (int w = 1; w < 4; ++w) {
    sum = f == static_cast<int>(Statistic::max_logit) ? fmaxf(sum, warps[w][f]) : sum + warps[w][f];
  }
  a.sums[static_cast<std::int64_t>(blockIdx.x) * kLightStatistics + f] = sum;
}

// statistics [N,H,..] from the sums of the slots. One block of 32 x 16 threads per sequence and head: thread (f, s)
// sums field f over the s-th part of the slots.
__global__ void __launch_bounds__(512) sum_statistics(const __grid_constant__ StatisticsArguments a) {
  constexpr int kParts = 16;
  __shared__ double part[kParts][32];
  const int n = static_cast<int>(blockIdx.x) / a.heads, h = static_cast<int>(blockIdx.x) % a.heads;
  const int f = static_cast<int>(threadIdx.x), s = static_cast<int>(threadIdx.y);
  const bool maximum = f == static_cast<int>(Statistic::max_logit), field = f < kLightStatistics;
  const bool packed = a.sequences.packed;
  const int begin = packed ? first_slot(a.sequences, n, kRowsPerSlot) : 0;
  const int end = packed ? first_slot(a.sequences, n + 1, kRowsPerSlot) : a.slots;
  const int share = (end - begin + kParts - 1) / kParts;
  const float* sums = a.sums + static_cast<std::int64_t>(packed ? h : n * a.heads + h) * a.slots * kLightStatistics;
  double total = maximum ? -INFINITY : 0;
  for (int t = begin + s * share; field && t < min(begin + (s + 1) * share, end); ++t) {
    const double value = sums[static_cast<std::int64_t>(t) * kLightStatistics + f];
    total = maximum ? fmax(total, value) : total + value;
  }
  part[s][f] = total;
  __syncthreads();
  if (s > 0 || !field) return;
  for (int other = 1; other < kParts; ++other) total = maximum ? fmax(total, part[other][f]) : total + part[other][f];
  a.statistics.data[a.statistics.offset(n, h, f)] = static_cast<float>(total);
}

}  // namespace polyhead::cuda::sm90
