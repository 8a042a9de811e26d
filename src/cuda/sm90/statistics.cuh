// Statistics of the heads, from what the forward pass leaves of every row. Sums are taken in a fixed order.
#pragma once

#include "cuda/sm90/arguments.h"
#include "cuda/sm90/softmax.cuh"
#include "polyhead/attention.h"

namespace polyhead::cuda::sm90 {

// target_keys [B,T,4], by its strides; absent if data is null.
struct TargetKeys {
  const void* data = nullptr;
  bool wide = false;  // 64 bits each, not 32
  std::int64_t batch = 0, row = 0, slot = 0;

  __device__ std::int64_t at(std::int64_t b, std::int64_t t, int s) const {
    const std::int64_t place = b * batch + t * row + s * slot;
    return wide ? static_cast<const std::int64_t*>(data)[place] : static_cast<const std::int32_t*>(data)[place];
  }
};

struct StatisticsArguments {
  kernels::Sequences sequences;
  Reach reach;
  int heads = 0, heads_per_kv = 1;
  float scale = 1;  // includes log2(e)
  Strided<const void> queries, keys;
  const float* sink_logit = nullptr;
  std::int64_t sink_head = 0;
  TargetKeys targets;
  RowOutcome* outcomes = nullptr;  // [B,H,T]
  RowMoments* moments = nullptr;   // [B,H,T], for the full set
  Strided<float> row_statistics;   // [B,H,T,field]; this and statistics may be absent
  std::int64_t row_statistics_field = 0;
  Strided<float> statistics;  // [N,H,field], by its strides
};

// One head of one sequence.
class HeadRows {
 public:
  __device__ HeadRows(const StatisticsArguments& a, int sequence, int head)
      : a_(a),
        s_(a.sequences[sequence]),
        head_(head),
        offset_(static_cast<int>(
            std::max<std::int64_t>(-Reach::kLongest, std::min<std::int64_t>(s_.offset, Reach::kLongest)))) {}

  __device__ const kernels::Sequence& sequence() const { return s_; }
  __device__ int position(int row) const { return row + offset_; }
  __device__ RowSight sight(int row) const { return {a_.reach, position(row), static_cast<int>(s_.keys)}; }
  // The row's index in outcomes and moments.
  __device__ std::int64_t place(int row) const {
    return (s_.batch * a_.heads + head_) * a_.sequences.queries + s_.query_begin + row;
  }
  // The target key of a slot, if the row sees it; otherwise -1.
  __device__ int target(int row, int slot) const {
    const std::int64_t key = a_.targets.at(s_.batch, s_.query_begin + row, slot) - s_.key_begin;
    return key >= 0 && key < s_.keys && sight(row).sees(static_cast<int>(key)) ? static_cast<int>(key) : -1;
  }

 private:
  const StatisticsArguments& a_;
  const kernels::Sequence s_;
  const int head_, offset_;
};

// This lane's 8 columns of q . k.
template <class T>
__device__ inline float partial_dot(const T* q, const T* k) {
  const uint4 a = *reinterpret_cast<const uint4*>(q), b = *reinterpret_cast<const uint4*>(k);
  const std::uint32_t as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = widen<T>(as[i]), y = widen<T>(bs[i]);
    sum = fmaf(x.y, y.y, fmaf(x.x, y.x, sum));
  }
  return sum;
}

inline constexpr int kRowsPerSlot = 64;

// Writes the scores of the target keys to moments. A block of 128 threads has kRowsPerSlot rows of a head, D / 8 lanes
// for each.
template <class T, int D>
__global__ void __launch_bounds__(128) score_targets(const __grid_constant__ StatisticsArguments a, int slots) {
  constexpr int kLanes = D / 8;
  const int column = static_cast<int>(blockIdx.x) / slots, lane = static_cast<int>(threadIdx.x) % kLanes;
  int slot = static_cast<int>(blockIdx.x) - column * slots;
  const int sequence = a.sequences.packed ? find_sequence(a.sequences, slot, kRowsPerSlot, slot) : column / a.heads;
  const int head = a.sequences.packed ? column : column % a.heads;
  const HeadRows rows(a, sequence, head);
  const kernels::Sequence& s = rows.sequence();
  for (int i = static_cast<int>(threadIdx.x) / kLanes; i < kRowsPerSlot; i += 128 / kLanes) {
    const int row = slot * kRowsPerSlot + i;
    const T* q = static_cast<const T*>(a.queries.data) + a.queries.offset(s.batch, head, s.query_begin + row);
    for (int t = 0; t < 4; ++t) {
      const int key = row < s.queries ? rows.target(row, t) : -1;
      const T* k =
          static_cast<const T*>(a.keys.data) + a.keys.offset(s.batch, head / a.heads_per_kv, s.key_begin + key);
      float score = key < 0 ? 0 : partial_dot(q + lane * 8, k + lane * 8);
#pragma unroll
      for (int step = 1; step < kLanes; step *= 2) score += __shfl_xor_sync(~0u, score, step);
      if (key >= 0 && lane == 0) a.moments[rows.place(row)].target[t] = score;
    }
  }
}

// The fields of one row, in the order of Statistic.
template <bool kFull>
struct Fields {
  static constexpr int kCount = kFull ? kFullStatistics : kLightStatistics;
  static constexpr int kMaximum = static_cast<int>(Statistic::max_logit);
  float of[kCount];

  __device__ Fields() {
#pragma unroll
    for (int f = 0; f < kCount; ++f) of[f] = f == kMaximum ? -INFINITY : 0;
  }
  __device__ void set(Statistic statistic, float value, int slot = 0) {
    of[static_cast<int>(statistic) + slot] = value;
  }
  __device__ void count(Statistic rows, Statistic weight, float value, int slot = 0) {
    set(rows, 1, slot);
    set(weight, value, slot);
  }
};

template <bool kFull>
__device__ inline Fields<kFull> fields_of(const StatisticsArguments& a, const HeadRows& rows, int row, float sink) {
  Fields<kFull> fields;
  const RowSight sight = rows.sight(row);
  const int visible = sight.count(), p = rows.position(row);
  if (row >= rows.sequence().queries || visible == 0) return fields;
  const RowOutcome outcome = a.outcomes[rows.place(row)];
  const float outcomes = static_cast<float>(visible + (sink > -INFINITY ? 1 : 0));
  const bool alone = outcomes == 1;  // a single key has all the weight, to the last bit
  const auto weight = [&](float score) {
    return alone && score > -INFINITY ? 1 : exp2_of(fmaf(score, a.scale, -outcome.lse));
  };
  fields.set(Statistic::rows, 1);
  fields.set(Statistic::entropy, alone ? 0 : outcome.entropy);
  if (outcomes > 1) {
    fields.count(Statistic::normalised_rows, Statistic::normalised_entropy, outcome.entropy / logf(outcomes));
  }
  fields.set(Statistic::max_weight, weight(outcome.best));
  fields.set(Statistic::max_offset, static_cast<float>(outcome.best_key - p));
  fields.set(Statistic::max_logit, outcome.best * a.scale / kLog2E);
  fields.set(Statistic::first_weight, weight(outcome.watched[0]));
  if (sight.sees(p - 1)) fields.count(Statistic::previous_rows, Statistic::previous_weight, weight(outcome.watched[1]));
  if (sight.sees(p)) fields.count(Statistic::self_rows, Statistic::self_weight, weight(outcome.watched[2]));
  if (sight.sees(p + 1)) fields.count(Statistic::next_rows, Statistic::next_weight, weight(outcome.watched[3]));
  if constexpr (kFull) {
    const RowMoments& moments = a.moments[rows.place(row)];
    fields.set(Statistic::distance, moments.distance);
    fields.set(Statistic::marked_weight, moments.marked);
    for (int t = 0; t < 4 && a.targets.data != nullptr; ++t) {
      if (rows.target(row, t) < 0) continue;
      fields.count(Statistic::target_rows, Statistic::target_weight, weight(moments.target[t]), t);
    }
    fields.set(Statistic::sink_weight, exp2_of(sink * kLog2E - outcome.lse));
  }
  return fields;
}

inline constexpr int kReportThreads = 512;

// row_statistics of one head of one sequence per block, and their sums; its threads take rows in turn.
template <bool kFull>
__global__ void __launch_bounds__(kReportThreads) report_head(const __grid_constant__ StatisticsArguments a) {
  using Row = Fields<kFull>;
  constexpr int kWarps = kReportThreads / 32;
  __shared__ double parts[kWarps][Row::kCount];
  const int n = static_cast<int>(blockIdx.x) / a.heads, head = static_cast<int>(blockIdx.x) % a.heads;
  const HeadRows rows(a, n, head);
  const kernels::Sequence& s = rows.sequence();
  const float sink = a.sink_logit == nullptr ? -INFINITY : a.sink_logit[head * a.sink_head];
  const auto join = [](int f, double x, double y) { return f == Row::kMaximum ? fmax(x, y) : x + y; };
  double total[Row::kCount];
#pragma unroll
  for (int f = 0; f < Row::kCount; ++f) total[f] = f == Row::kMaximum ? -INFINITY : 0;
  for (int row = static_cast<int>(threadIdx.x); row < s.rows; row += kReportThreads) {
    const Row fields = fields_of<kFull>(a, rows, row, sink);
    float* const to = a.row_statistics.data + a.row_statistics.offset(s.batch, head, s.query_begin + row);
#pragma unroll
    for (int f = 0; f < Row::kCount; ++f) {
      if (a.row_statistics.data != nullptr) to[f * a.row_statistics_field] = fields.of[f];
      total[f] = join(f, total[f], fields.of[f]);
    }
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int f = 0; f < Row::kCount; ++f) {
    for (int step = 16; step > 0; step /= 2) total[f] = join(f, total[f], __shfl_xor_sync(~0u, total[f], step));
    if (threadIdx.x % 32 == 0) parts[warp][f] = total[f];
  }
  __syncthreads();
  const int f = static_cast<int>(threadIdx.x);
  if (f >= Row::kCount || a.statistics.data == nullptr) return;
  double sum = parts[0][f];
  for (int w = 1; w < kWarps; ++w) sum = join(f, sum, parts[w][f]);
  a.statistics.data[a.statistics.offset(n, head, f)] = static_cast<float>(sum);
}

// words [B][count]: bit i % 32 of word i / 32 says whether key i is marked; 0 behind the last. A warp makes a word.
__global__ void __launch_bounds__(256)
    pack_marks(const std::uint8_t* marked, std::int64_t batch_stride, std::int64_t key_stride, std::int64_t keys,
               std::uint32_t* words, int count) {
  const int word = static_cast<int>(blockIdx.x * 8 + threadIdx.x / 32);
  if (word >= count) return;
  const std::int64_t key = std::int64_t{32} * word + threadIdx.x % 32;
  const bool is_marked = key < keys && marked[blockIdx.y * batch_stride + key * key_stride] != 0;
  const std::uint32_t bits = __ballot_sync(~0u, is_marked);
  if (threadIdx.x % 32 == 0) words[static_cast<std::int64_t>(blockIdx.y) * count + word] = bits;
}

}  // namespace polyhead::cuda::sm90
