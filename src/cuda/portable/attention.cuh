// Attention forward in f32, every option: output and lse. A block has kTile queries of one head and walks over the
// keys that they see.
#pragma once

#include "cuda/portable/softmax.cuh"

namespace polyhead::cuda::portable {

struct AttendOutputs {
  Strided output, lse;  // [B,H,T,E], [B,H,T]
};

__global__ void __launch_bounds__(kThreads, 2)
    attend_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ AttendOutputs out, int tiles,
                  int parts) {
  __shared__ Shared sm;
  const BlockPlace place(parts, tiles, a.heads);
  const Head head(a, place.n, place.h);
  const int first = place.tile * kTile;
  if (first >= head.sequence.rows) return;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, c0 = place.part * kColumns;
  const bool open = head.gate != 0, wants_lse = out.lse.present() && place.part == 0;
  head.set_rows(sm, first);

  RunningSoftmax softmax(head);
  float o[4][8] = {};
  const auto walk = [&](int j0) {
    float p[4][4], slopes[4][4], alpha[4];
    head.logits(sm, j0, p, slopes);
    softmax.add(p, alpha);
    if (!open) return;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = sm.rows[4 * ty + r].i;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (a.drops.any) {
          p[r][c] = is_kept(a.drops, head.n, head.h, i, j0 + 4 * tx + c) ? a.drops.factor * p[r][c] : 0.0f;
        }
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) o[r][k] *= alpha[r];
    }
    set_weights(sm, [&](int r, int c) { return p[r][c]; });
    add_weighted(
        sm, a.v.data, a.v.dtype, [&](int c) { return head.value_row(sm, j0, c); }, c0, a.value_dim, o);
  };
  if (open || wants_lse) for_key_tiles(head, first, walk);
  softmax.finish();
  __syncthreads();  // makes sm.rows visible if there was no tile of keys

#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::int64_t i = first + 4 * ty + r;
    if (i >= head.sequence.rows) continue;
    const std::int64_t b = head.sequence.batch, query = head.sequence.query_begin + i;
    const float factor = !open || softmax.l[r] == 0 ? 0.0f : head.gate / softmax.l[r];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int e = c0 + own_column(k);
      if (e < a.value_dim)
        store(out.output.data, out.output.dtype, out.output.at(b, place.h, query, e), factor * o[r][k]);
    }
    if (wants_lse && tx == 0) {
      static_cast<float*>(out.lse.data)[out.lse.at(b, place.h, query)] =
          sm.rows[4 * ty + r].i < 0 ? kNegativeInfinity : softmax.lse(r);
    }
  }
}

}  // namespace polyhead::cuda::portable
