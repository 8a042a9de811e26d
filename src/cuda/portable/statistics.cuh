// Head statistics: a first walk over the keys finds every row's softmax and its peak, a second one adds up what the
// weights say. Rows of a tile are summed in their order, tiles by a kernel of their own: the same bits every time.
#pragma once

#include "cuda/portable/softmax.cuh"

namespace polyhead::cuda::portable {

struct StatisticsOutputs {
  Strided row_statistics;            // [B,H,T,F], absent if only sums are wanted
  float* tile_sums = nullptr;        // [N,H,tiles,F]
  Strided marked_keys, target_keys;  // [B,S], [B,T,4]
  int fields = 0;                    // F
};

struct RowFields {
  float of[kTile][kFullStatistics];

  __device__ float& at(int row, Statistic statistic, int slot = 0) {
    return of[row][static_cast<int>(statistic) + slot];
  }
  __device__ void count(int row, Statistic rows, Statistic weight, float p, int slot = 0) {
    at(row, rows, slot) = 1;
    at(row, weight, slot) = p;
  }
};

// What a thread knows of one row after the first walk.
struct Peak {
  float s = kNegativeInfinity;
  int j = INT_MAX, first = INT_MAX, visible = 0;

  __device__ void add(float logit, int at) {
    if (logit == kNegativeInfinity) return;
    ++visible;
    first = min(first, at);
    if (logit > s || j == INT_MAX) {
      s = logit;
      j = at;
    }
  }
  // Joins the peaks of all threads of the row; of equal logits the lowest j counts.
  __device__ void join() {
    for (int offset = 8; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, s, offset);
      const int at = __shfl_xor_sync(0xffffffffu, j, offset);
      if (other > s || (other == s && at < j)) {
        s = other;
        j = at;
      }
      first = min(first, __shfl_xor_sync(0xffffffffu, first, offset));
      visible += __shfl_xor_sync(0xffffffffu, visible, offset);
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    statistics_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ StatisticsOutputs out,
                      int tiles) {
  __shared__ Shared sm;
  __shared__ RowFields fields;
  const BlockPlace place(1, tiles, a.heads);
  const Head head(a, place.n, place.h);
  const kernels::Sequence& sequence = head.sequence;
  const int first = place.tile * kTile;
  if (first >= sequence.rows) return;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  head.set_rows(sm, first);
  for (int n = threadIdx.x; n < kTile * kFullStatistics; n += kThreads) {
    fields.of[n / kFullStatistics][n % kFullStatistics] =
        n % kFullStatistics == static_cast<int>(Statistic::max_logit) ? kNegativeInfinity : 0.0f;
  }

  RunningSoftmax softmax(head);
  Peak peak[4];
  float p[4][4], slopes[4][4], alpha[4];
  for_key_tiles(head, first, [&](int j0) {
    head.logits(sm, j0, p, slopes);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) peak[r].add(p[r][c], j0 + 4 * tx + c);
    }
    softmax.add(p, alpha);
  });
  softmax.finish();
  __syncthreads();
  float entropy[4] = {}, distance[4] = {}, marked[4] = {}, log_l[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    peak[r].join();
    log_l[r] = logf(softmax.l[r]);
  }

  for_key_tiles(head, first, [&](int j0) {
    head.logits(sm, j0, p, slopes);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int line = 4 * ty + r;
      const TileRow row = sm.rows[line];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (p[r][c] == kNegativeInfinity) continue;
        const int j = j0 + 4 * tx + c;
        const float below = p[r][c] - softmax.m[r], weight = expf(below) / softmax.l[r];
        if (weight > 0) entropy[r] = fmaf(weight, log_l[r] - below, entropy[r]);
        distance[r] = fmaf(weight, fabsf(static_cast<float>(row.p - j)), distance[r]);
        if (j == peak[r].first) fields.at(line, Statistic::first_weight) = weight;
        if (j == row.p) fields.count(line, Statistic::self_rows, Statistic::self_weight, weight);
        if (j == row.p - 1) fields.count(line, Statistic::previous_rows, Statistic::previous_weight, weight);
        if (j == row.p + 1) fields.count(line, Statistic::next_rows, Statistic::next_weight, weight);
        const std::int64_t key = sequence.key_begin + j;
        if (out.marked_keys.present()) {
          const std::int64_t at = sequence.batch * out.marked_keys.stride[0] + key * out.marked_keys.stride[1];
          if (static_cast<const std::uint8_t*>(out.marked_keys.data)[at] != 0) marked[r] += weight;
        }
        if (!out.target_keys.present()) continue;
        for (int slot = 0; slot < 4; ++slot) {
          const std::int64_t at = out.target_keys.at(sequence.batch, sequence.query_begin + row.i, slot);
          const std::int64_t target = out.target_keys.dtype == DType::i64
                                          ? static_cast<const std::int64_t*>(out.target_keys.data)[at]
                                          : static_cast<const std::int32_t*>(out.target_keys.data)[at];
          if (target == key) fields.count(line, Statistic::target_rows, Statistic::target_weight, weight, slot);
        }
      }
    }
  });
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float spread = row_sum(entropy[r]);
    const float away = row_sum(distance[r]), on_marked = row_sum(marked[r]);
    if (tx != 0 || peak[r].visible == 0) continue;
    const int line = 4 * ty + r;
    if (head.has_sink()) {
      const float below = head.sink - softmax.m[r], weight = expf(below) / softmax.l[r];
      if (weight > 0) spread = fmaf(weight, log_l[r] - below, spread);
      fields.at(line, Statistic::sink_weight) = weight;
    }
    const int outcomes = peak[r].visible + (head.has_sink() ? 1 : 0);
    fields.at(line, Statistic::rows) = 1;
    fields.at(line, Statistic::entropy) = spread;
    if (outcomes >= 2) {
      fields.count(line, Statistic::normalised_rows, Statistic::normalised_entropy,
                   spread / logf(static_cast<float>(outcomes)));
    }
    fields.at(line, Statistic::max_weight) = expf(peak[r].s - softmax.m[r]) / softmax.l[r];
    fields.at(line, Statistic::max_offset) = static_cast<float>(peak[r].j - sm.rows[line].p);
    fields.at(line, Statistic::max_logit) = peak[r].s;
    fields.at(line, Statistic::distance) = away;
    fields.at(line, Statistic::marked_weight) = on_marked;
  }
  __syncthreads();

  if (out.row_statistics.present()) {
    for (int n = threadIdx.x; n < kTile * out.fields; n += kThreads) {
      const std::int64_t i = first + n / out.fields;
      if (i >= sequence.rows) break;
      const std::int64_t at = out.row_statistics.at(sequence.batch, place.h, sequence.query_begin + i, n % out.fields);
      static_cast<float*>(out.row_statistics.data)[at] = fields.of[n / out.fields][n % out.fields];
    }
  }
  const int f = static_cast<int>(threadIdx.x);
  if (f >= out.fields) return;
  float sum = fields.of[0][f];
  for (int row = 1; row < kTile; ++row) {
    const float more = fields.of[row][f];
    sum = f == static_cast<int>(Statistic::max_logit) ? fmaxf(sum, more) : sum + more;
  }
  out.tile_sums[((place.n * a.heads + place.h) * tiles + place.tile) * out.fields + f] = sum;
}

// statistics [N,H,F] = the sums over the tiles of a sequence. A block per head of a sequence; each lane of a warp has
// one field, and the block's warps take turns at the tiles.
__global__ void __launch_bounds__(kThreads)
    sum_statistics_kernel(const __grid_constant__ kernels::Sequences sequences, const float* tile_sums, int heads,
                          int tiles, int fields, const __grid_constant__ Strided statistics) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float parts[kWarps][32];
  const int warp = threadIdx.x / 32, f = threadIdx.x % 32, h = blockIdx.x % heads;
  const std::int64_t n = blockIdx.x / heads, rows = sequences[n].rows;
  const bool peak = f == static_cast<int>(Statistic::max_logit);
  float sum = peak ? kNegativeInfinity : 0.0f;
  for (std::int64_t tile = warp; tile * kTile < rows && f < fields; tile += kWarps) {
    const float more = tile_sums[((n * heads + h) * tiles + tile) * fields + f];
    sum = peak ? fmaxf(sum, more) : sum + more;
  }
  parts[warp][f] = sum;
  __syncthreads();
  if (warp != 0 || f >= fields) return;
  for (int w = 1; w < kWarps; ++w) sum = peak ? fmaxf(sum, parts[w][f]) : sum + parts[w][f];
  static_cast<float*>(statistics.data)[n * statistics.stride[0] + h * statistics.stride[1] + f * statistics.stride[2]] =
      sum;
}

}  // namespace polyhead::cuda::portable
