// Attention backward in f32, every option, in O(T) memory and without atomics: the same bits every time.
//   dp_ij = gate kept_ij dO_i.v_j + dweights_ij     delta_i = sum_j p_ij dp_ij
//   ds_ij = p_ij (dp_ij - delta_i + dlse_i)         dq_i = scale sum_j ds_ij k_j     dk_j = scale sum_i ds_ij q_i
// rows_kernel finds the softmax and delta of every row; blocks of queries make dq, blocks of keys dk and dv, and blocks
// of the bias dbias, each from logits that are computed again.
#pragma once

#include "cuda/portable/gradient_arguments.cuh"
#include "cuda/portable/softmax.cuh"

namespace polyhead::cuda::portable {

// dp [kTile][kTile], 0 where s says hidden; kept [..], what dropout multiplies a weight by; dot [..] = kept dO.v,
// without the gate. Rounds the same way wherever it is inlined.
__device__ inline void upstream_of_weights(const Head& head, const GradientArguments& d, Shared& sm, int j0,
                                           const float (&s)[4][4], float (&dp)[4][4], float (&kept)[4][4],
                                           float (&dot)[4][4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const AttentionArguments& a = head.a;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int c = 0; c < 4; ++c) dot[r][c] = 0;
  }
  if (head.gate != 0 || d.wants_dgates) {
    add_dots(
        sm, d.doutput.data, d.doutput.dtype,
        [&](int r) { return sm.rows[r].i < 0 ? kAbsent : d.doutput_row(head, sm.rows[r].i); }, a.v.data, a.v.dtype,
        [&](int c) { return head.value_row(sm, j0, c); }, a.value_dim, dot);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = sm.rows[4 * ty + r].i;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int j = j0 + 4 * tx + c;
      dp[r][c] = 0;
      kept[r][c] = 1;
      if (s[r][c] == kNegativeInfinity) {
        dot[r][c] = 0;
        continue;
      }
      if (a.drops.any) kept[r][c] = is_kept(a.drops, head.n, head.h, i, j) ? a.drops.factor : 0.0f;
      dot[r][c] = __fmul_rn(kept[r][c], dot[r][c]);
      if (head.gate != 0) dp[r][c] = __fmul_rn(head.gate, dot[r][c]);
      if (!d.dweights.present()) continue;
      const kernels::Sequence& sequence = head.sequence;
      const std::int64_t at =
          d.dweights.at(sequence.batch, head.h, sequence.query_begin + i, sequence.weights_column + j);
      dp[r][c] = __fadd_rn(dp[r][c], load(d.dweights.data, d.dweights.dtype, at));
    }
  }
}

// p [kTile][kTile] and ds [..], the gradient of the logits, from what rows_kernel left.
struct TileGradient {
  float p[4][4], ds[4][4], kept[4][4], slopes[4][4];

  __device__ void compute(const Head& head, const GradientArguments& d, Shared& sm, int j0) {
    const int ty = threadIdx.x / 16;
    float dot[4][4];
    head.logits(sm, j0, p, slopes);
    upstream_of_weights(head, d, sm, j0, p, ds, kept, dot);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = sm.rows[4 * ty + r].i;
      float m = 0, inverse = 0, delta = 0, dlse = 0;
      if (i >= 0) {
        m = d.m[d.row(head, i)];
        inverse = 1.0f / d.l[d.row(head, i)];
        delta = d.delta[d.row(head, i)];
        dlse = d.dlse_of(head, i);
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (p[r][c] == kNegativeInfinity) {
          p[r][c] = ds[r][c] = 0;
          continue;
        }
        p[r][c] = expf(p[r][c] - m) * inverse;
        ds[r][c] = p[r][c] * ((ds[r][c] - delta) + dlse);
      }
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    rows_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d, int tiles) {
  __shared__ Shared sm;
  const BlockPlace place(1, tiles, a.heads);
  const Head head(a, place.n, place.h);
  const int first = place.tile * kTile;
  if (first >= head.sequence.rows) return;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  head.set_rows(sm, first);

  RunningSoftmax softmax(head);
  float weighted[4] = {}, gated[4] = {};  // sums of e^(s - m) dp and e^(s - m) dot
  if (d.reaches(head) || d.wants_dgates) {
    for_key_tiles(head, first, [&](int j0) {
      float e[4][4], slopes[4][4], dp[4][4], kept[4][4], dot[4][4], alpha[4];
      head.logits(sm, j0, e, slopes);
      upstream_of_weights(head, d, sm, j0, e, dp, kept, dot);
      softmax.add(e, alpha);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        weighted[r] *= alpha[r];
        gated[r] *= alpha[r];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          weighted[r] = fmaf(e[r][c], dp[r][c], weighted[r]);
          gated[r] = fmaf(e[r][c], dot[r][c], gated[r]);
        }
      }
    });
  }
  softmax.finish();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    weighted[r] = row_sum(weighted[r]);
    gated[r] = row_sum(gated[r]);
    const std::int64_t i = first + 4 * ty + r;
    if (tx != 0 || i >= head.sequence.rows) continue;
    const bool exists = i < head.sequence.queries, any = softmax.l[r] != 0;
    const std::int64_t at = d.row(head, i);
    d.m[at] = softmax.m[r];
    d.l[at] = softmax.l[r];
    d.delta[at] = exists && any ? weighted[r] / softmax.l[r] : 0.0f;
    d.dgate[at] = exists && any ? gated[r] / softmax.l[r] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    dq_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
              const __grid_constant__ Strided dq, int tiles, int parts) {
  __shared__ Shared sm;
  const BlockPlace place(parts, tiles, a.heads);
  const Head head(a, place.n, place.h);
  const int first = place.tile * kTile;
  if (first >= head.sequence.rows) return;
  const int ty = threadIdx.x / 16, c0 = place.part * kColumns;
  head.set_rows(sm, first);
  float sums[4][8] = {};
  if (d.reaches(head)) {
    for_key_tiles(head, first, [&](int j0) {
      TileGradient tile;
      tile.compute(head, d, sm, j0);
      set_weights(sm, [&](int r, int c) { return a.scale * tile.ds[r][c] * tile.slopes[r][c]; });
      add_weighted(
          sm, a.k.data, a.k.dtype, [&](int c) { return head.key_row(sm, j0, c); }, c0, a.head_dim, sums);
    });
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::int64_t i = first + 4 * ty + r;
    if (i >= head.sequence.rows) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int column = c0 + own_column(k);
      if (column >= a.head_dim) continue;
      store(dq.data, dq.dtype, dq.at(head.sequence.batch, place.h, head.sequence.query_begin + i, column), sums[r][k]);
    }
  }
}

// A block has kTile places of the keys' axis and one kv head, and sums over the query heads that share it and their
// rows, in order. Places outside the sequence get 0.
__global__ void __launch_bounds__(kThreads, 2)
    dkv_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
               const __grid_constant__ Strided dk, const __grid_constant__ Strided dv, int tiles, int parts) {
  __shared__ Shared sm;
  const BlockPlace place(parts, tiles, a.heads / a.heads_per_kv);
  const int g = place.h, ty = threadIdx.x / 16, c0 = place.part * kColumns;
  const kernels::Sequence sequence = a.sequences[place.n];
  const bool packed = a.sequences.packed;
  const std::int64_t begin = (packed ? sequence.key_begin : 0) + static_cast<std::int64_t>(place.tile) * kTile;
  const std::int64_t end = packed ? sequence.key_begin + sequence.keys : a.sequences.keys;
  if (begin >= end) return;
  const int j0 = static_cast<int>(begin - sequence.key_begin);
  float key_sums[4][8] = {}, value_sums[4][8] = {};
  for (int h = g * a.heads_per_kv; h < (g + 1) * a.heads_per_kv; ++h) {
    const Head head(a, place.n, h);
    if (!d.reaches(head)) continue;
    for (int first = 0; first < sequence.queries; first += kTile) {
      if (!head.keys_of_some(first, kTile).has_any({j0, j0 + kTile})) continue;
      __syncthreads();  // sm.rows is no longer read
      head.set_rows(sm, first);
      TileGradient tile;
      tile.compute(head, d, sm, j0);
      if (head.gate != 0) {
        set_weights_transposed(sm, [&](int r, int c) { return head.gate * tile.kept[r][c] * tile.p[r][c]; });
        add_weighted(
            sm, d.doutput.data, d.doutput.dtype,
            [&](int r) { return sm.rows[r].i < 0 ? kAbsent : d.doutput_row(head, sm.rows[r].i); }, c0, a.value_dim,
            value_sums);
        __syncthreads();  // sm.p is no longer read
      }
      set_weights_transposed(sm, [&](int r, int c) { return a.scale * tile.ds[r][c] * tile.slopes[r][c]; });
      add_weighted(
          sm, a.q.data, a.q.dtype, [&](int r) { return sm.rows[r].i < 0 ? kAbsent : head.q_row(sm.rows[r].i); }, c0,
          a.head_dim, key_sums);
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::int64_t key = begin + 4 * ty + r;
    if (key >= end) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int column = c0 + own_column(k);
      if (column < a.head_dim) store(dk.data, dk.dtype, dk.at(sequence.batch, g, key, column), key_sums[r][k]);
      if (column < a.value_dim) store(dv.data, dv.dtype, dv.at(sequence.batch, g, key, column), value_sums[r][k]);
    }
  }
}

// Which part of [B,H,T,S] is summed into one element of dbias: an axis that it is broadcast along has one block.
struct BiasExtent {
  int tiles_t = 1, tiles_s = 1, heads = 1;  // blocks along T, S and H
  bool all_batches = false, all_heads = false, all_rows = false, all_keys = false;
};

__global__ void __launch_bounds__(kThreads)
    dbias_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                 const __grid_constant__ Strided dbias, const __grid_constant__ BiasExtent extent) {
  __shared__ Shared sm;
  int id = static_cast<int>(blockIdx.x);
  const int tile_s = id % extent.tiles_s;
  id /= extent.tiles_s;
  const int tile_t = id % extent.tiles_t;
  id /= extent.tiles_t;
  const int own_h = id % extent.heads, own_b = id / extent.heads;
  const std::int64_t T = a.sequences.queries, S = a.sequences.keys, B = a.sequences.count;
  float sums[4][4] = {};
  for (std::int64_t b = extent.all_batches ? 0 : own_b; b < (extent.all_batches ? B : own_b + 1); ++b) {
    for (int h = extent.all_heads ? 0 : own_h; h < (extent.all_heads ? a.heads : own_h + 1); ++h) {
      const Head head(a, b, h);
      if (!d.reaches(head)) continue;
      for (std::int64_t t = extent.all_rows ? 0 : tile_t * kTile; t < (extent.all_rows ? T : tile_t * kTile + 1);
           t += kTile) {
        for (std::int64_t s = extent.all_keys ? 0 : tile_s * kTile; s < (extent.all_keys ? S : tile_s * kTile + 1);
             s += kTile) {
          const int j0 = static_cast<int>(s - head.sequence.key_begin);
          if (!head.keys_of_some(static_cast<int>(t), kTile).has_any({j0, j0 + kTile})) continue;
          __syncthreads();  // sm.rows is no longer read
          head.set_rows(sm, t);
          TileGradient tile;
          tile.compute(head, d, sm, j0);
#pragma unroll
          for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int c = 0; c < 4; ++c) sums[r][c] += tile.ds[r][c];
          }
        }
      }
    }
  }
  __syncthreads();
  set_weights(sm, [&](int r, int c) { return sums[r][c]; });
  __syncthreads();
  // Sums over a broadcast axis go to row 0 or column 0.
  if (extent.all_rows && threadIdx.x < kTile) {
    float sum = 0;
    for (int r = 0; r < kTile; ++r) sum += sm.p[threadIdx.x][r];
    sm.p[threadIdx.x][0] = sum;
  }
  __syncthreads();
  if (extent.all_keys && threadIdx.x < kTile) {
    float sum = 0;
    for (int c = 0; c < kTile; ++c) sum += sm.p[c][threadIdx.x];
    sm.p[0][threadIdx.x] = sum;
  }
  __syncthreads();
  for (int n = threadIdx.x; n < kTile * kTile; n += kThreads) {
    const int r = n / kTile, c = n % kTile;
    const std::int64_t t = tile_t * kTile + r, s = tile_s * kTile + c;
    if (extent.all_rows ? r > 0 : t >= T) continue;
    if (extent.all_keys ? c > 0 : s >= S) continue;
    store(dbias.data, dbias.dtype, dbias.at(own_b, own_h, t, s), sm.p[c][r]);
  }
}

// The sum of a block's threads, in a fixed order; thread 0 has it.
__device__ inline float block_sum(float x) {
  __shared__ float parts[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += parts[warp];
  return sum;
}

// dgates [N,H] = the sum of a head's rows.
__global__ void __launch_bounds__(kThreads)
    dgates_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                  const __grid_constant__ Strided dgates) {
  const Head head(a, blockIdx.x / a.heads, static_cast<int>(blockIdx.x % a.heads));
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < head.sequence.queries; i += kThreads) sum += d.dgate[d.row(head, i)];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    static_cast<float*>(dgates.data)[head.n * dgates.stride[0] + head.h * dgates.stride[1]] = sum;
  }
}

// dsink_logit [H] = sum_i p_sink,i (dlse_i - delta_i), over all sequences.
__global__ void __launch_bounds__(kThreads)
    dsink_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                 const __grid_constant__ Strided dsink) {
  float sum = 0;
  const int h = static_cast<int>(blockIdx.x);
  for (std::int64_t n = 0; n < a.sequences.count; ++n) {
    const Head head(a, n, h);
    if (!head.has_sink() || !d.reaches(head)) continue;
    for (std::int64_t i = threadIdx.x; i < head.sequence.queries; i += kThreads) {
      const std::int64_t at = d.row(head, i);
      sum = fmaf(expf(head.sink - d.m[at]) / d.l[at], d.dlse_of(head, static_cast<int>(i)) - d.delta[at], sum);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) static_cast<float*>(dsink.data)[h * dsink.stride[0]] = sum;
}

}  // namespace polyhead::cuda::portable
