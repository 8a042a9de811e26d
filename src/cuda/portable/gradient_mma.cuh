// Attention backward on the tensor cores, of 16-bit numbers or of f32 (T, see fragments.cuh). One kernel, two roles: a
// block owns 64 queries and makes their dq, or 64 keys and makes their dk and dv, and walks over the keys or queries on
// the other side:
//   s = own_qk other_qk^T     dp = own_vdo other_vdo^T     ds = p (gate dp - delta)
//   queries own q and dO, the others are k and v:    dq += ds k
//   keys own k and v, the others are q and dO:       dk += ds q     dv += gate p dO      (p, ds transposed)
// So qk is the q of queries or the k of keys, vdo the dO of queries or the v of keys, and dqk is dq or dk.
// Products that dq and dk, dv have in common are computed twice: so no sums cross blocks, and the bits are the same
// every time.
#pragma once

#include <numbers>

#include "cuda/portable/balance.cuh"
#include "cuda/portable/fragments.cuh"
#include "cuda/portable/gradient_arguments.cuh"

namespace polyhead::cuda::portable {

// Of every row, [B,H,T]: lse in powers of 2 (+inf for a row that sees nothing); delta - dlse, which the kernel of
// queries makes better (balance.cuh); and what f32 weights 2^(s - lse) are to be multiplied by, which that kernel
// finds.
struct MmaRows {
  float *lse = nullptr, *delta = nullptr, *factor = nullptr;
};

// delta_i = dO_i . output_i, with the output as it was stored; a warp per row.
template <class T>
__global__ void __launch_bounds__(256)
    rows_mma_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                    const __grid_constant__ Strided output, const __grid_constant__ Strided lse,
                    const __grid_constant__ MmaRows rows, int groups) {
  const int lane = threadIdx.x % 32;
  const std::int64_t n = blockIdx.x / groups / a.heads;
  const int h = static_cast<int>(blockIdx.x / groups % a.heads);
  const kernels::Sequence sequence = a.sequences[n];
  const std::int64_t i = blockIdx.x % groups * 8 + threadIdx.x / 32;
  if (i >= sequence.queries) return;
  const std::int64_t b = sequence.batch, query = sequence.query_begin + i, at = (b * a.heads + h) * d.rows + query;
  const auto* x = static_cast<const Element<T>*>(d.doutput.data) + d.doutput.at(b, h, query);
  const auto* y = static_cast<const Element<T>*>(output.data) + output.at(b, h, query);
  float delta = 0;
  for (int e = lane; e < a.value_dim; e += 32) delta = fmaf(to_float(x[e]), to_float(y[e]), delta);
  for (int offset = 16; offset > 0; offset /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, offset);
  if (lane != 0) return;
  const float sum = static_cast<const float*>(lse.data)[lse.at(b, h, query)];
  const float dlse = d.dlse.present() ? static_cast<const float*>(d.dlse.data)[d.dlse.at(b, h, query)] : 0.0f;
  rows.lse[at] = sum == kNegativeInfinity ? INFINITY : sum * std::numbers::log2e_v<float>;
  rows.delta[at] = delta - dlse;
  rows.factor[at] = 1;
  d.m[at] = sum;
  d.l[at] = 1;
  d.delta[at] = delta;
}

template <class T, int kWidth, bool kOfKeys>
struct MmaGradient {
  // A warp has registers for two sums of 128 columns: dk and dv of wider heads take twice the warps, which compute S
  // and dP twice.
  static constexpr int kColumns = kOfKeys && kWidth > 128 ? 128 : kWidth, kParts = kWidth / kColumns;
  // Of 96 KiB of shared memory there is room for two blocks.
  static constexpr int kThreads = 128 * kParts, kOwn = 64,
                       kOther = sizeof(Element<T>) == 4 ? (kWidth > 64 ? 16 : 32) : (kWidth > 128 ? 32 : 64);
  using OwnTile = TileOf<T, kOwn, kWidth>;
  using OtherTile = TileOf<T, kOther, kWidth>;
  static constexpr std::size_t kStageBytes =
      2 * OtherTile::kBytes + (kOfKeys ? kOther * (3 * sizeof(float) + sizeof(KeySet)) : 0);
  static constexpr bool kFactors = sizeof(Element<T>) == 4;
  static constexpr std::size_t kSharedBytes =
      2 * OwnTile::kBytes + 2 * kStageBytes + (kOfKeys ? 0 : kOwn * (sizeof(KeySet) + sizeof(HeaviestKey)));

  // One tile of the other side, as it lies in shared memory.
  struct Stage {
    OtherTile qk, vdo;
    KeySet* seen;  // by each query
    float *lse, *delta, *factor;

    __device__ explicit Stage(int which) {
      std::byte* data = device::dynamic_shared() + 2 * OwnTile::kBytes + which * kStageBytes;
      qk.data = data;
      vdo.data = data + OtherTile::kBytes;
      seen = reinterpret_cast<KeySet*>(data + 2 * OtherTile::kBytes);
      lse = reinterpret_cast<float*>(seen + kOther);
      delta = lse + kOther;
      factor = delta + kOther;
    }
  };
  // Where the walk stands: a tile of the other side, beginning at row or key `at`, for head h.
  struct Step {
    int h, at;
  };

  const AttentionArguments& a;
  const GradientArguments& d;
  const MmaRows& rows;
  const Head& head;  // of keys: the first of the heads that share them
  const int own;     // the first query, or the first key (negative before the sequence)
  const OwnTile own_qk{device::dynamic_shared()}, own_vdo{device::dynamic_shared() + OwnTile::kBytes};
  // What each query sees, if the block owns queries.
  KeySet* const own_seen = reinterpret_cast<KeySet*>(device::dynamic_shared() + 2 * OwnTile::kBytes + 2 * kStageBytes);
  const int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 % 4 * 16;
  const int part = threadIdx.x / 128;  // of the columns

  Sums<kColumns> sums_dqk[1], sums_dv[1];
  RowBalance balance{reinterpret_cast<HeaviestKey*>(own_seen + kOwn) + row0};  // of own queries

  __device__ float gate_of(int h) const {
    if (!a.gates.present()) return 1;
    return static_cast<const float*>(a.gates.data)[head.n * a.gates.stride[0] + h * a.gates.stride[1]];
  }
  // The last query of a step, whose first one exists: to check for that took 8 registers, and with them the third block
  // of a multiprocessor.
  __device__ int last_query(const Step& step) const { return head.last_of(step.at, kOther); }
  __device__ bool meets(const Step& step) const {
    if (!kOfKeys) return head.keys_of_some(own, kOwn).has_any({step.at, step.at + kOther});
    return head.mask.keys_of_some(step.at, last_query(step)).has_any({own, own + kOwn});
  }
  // The first step from this one on where there is something to do; h is the number of heads if there is none.
  __device__ Step next(Step step) const {
    const int end_head = kOfKeys ? head.h + a.heads_per_kv : head.h + 1;
    const int end = static_cast<int>(kOfKeys ? head.sequence.queries : head.sequence.keys);
    for (; step.h < end_head; ++step.h, step.at = 0) {
      if (gate_of(step.h) == 0 && !d.dlse.present()) continue;
      for (; step.at < end; step.at += kOther) {
        if (meets(step)) return step;
      }
    }
    return {a.heads, 0};
  }

  __device__ const Element<T>* at(const Strided& tensor, int h, std::int64_t place) const {
    return static_cast<const Element<T>*>(tensor.data) + tensor.at(head.sequence.batch, h, place);
  }
  template <class Tile, class There>
  __device__ void load(const Tile& tile, const Strided& from, int h, std::int64_t place, int width,
                       const There& there) const {
    tile.template load_later<kThreads>(at(from, h, place), from.stride[2], width, there);
  }
  __device__ void load_own() const {
    if constexpr (kOfKeys) {
      const auto there = [=, this](int n) { return own + n >= 0 && own + n < head.sequence.keys; };
      load(own_qk, a.k, head.g, head.sequence.key_begin + own, a.head_dim, there);
      load(own_vdo, a.v, head.g, head.sequence.key_begin + own, a.value_dim, there);
    } else {
      const auto there = [=, this](int n) { return own + n < head.sequence.queries; };
      load(own_qk, a.q, head.h, head.sequence.query_begin + own, a.head_dim, there);
      load(own_vdo, d.doutput, head.h, head.sequence.query_begin + own, a.value_dim, there);
    }
  }
  // Queries that do not exist are loaded as zeros, in every tensor that is summed over them; so are keys that no query
  // sees.
  __device__ void load_other(const Stage& stage, const Step& step) const {
    if constexpr (kOfKeys) {
      const std::int64_t query = head.sequence.query_begin + step.at;
      const auto there = [=, this](int n) { return step.at + n < head.sequence.queries; };
      load(stage.qk, a.q, step.h, query, a.head_dim, there);
      load(stage.vdo, d.doutput, step.h, query, a.value_dim, there);
      if (threadIdx.x < kOther) {
        const int n = threadIdx.x;
        const std::int64_t row = (head.sequence.batch * a.heads + step.h) * d.rows + query + n;
        const bool here = there(n);
        stage.seen[n] = head.keys_of(step.at + n);
        device::copy_number_later(stage.lse + n, rows.lse + (here ? row : 0), here);
        device::copy_number_later(stage.delta + n, rows.delta + (here ? row : 0), here);
        if (kFactors) device::copy_number_later(stage.factor + n, rows.factor + (here ? row : 0), here);
      }
    } else {
      const KeySet seen = head.keys_of_some(own, kOwn);
      const auto there = [=](int n) { return seen.has(step.at + n); };
      load(stage.qk, a.k, head.g, head.sequence.key_begin + step.at, a.head_dim, there);
      load(stage.vdo, a.v, head.g, head.sequence.key_begin + step.at, a.value_dim, there);
    }
  }

  // Does every query of the tile see every key of it?
  __device__ bool sees_all(const Step& step) const {
    if (!kOfKeys) return head.keys_of_all(own, kOwn).has_all({step.at, step.at + kOther});
    return head.mask.keys_of_all(step.at, last_query(step)).has_all({own, own + kOwn});
  }

  __device__ void add_tile(const Stage& stage, const Step& step, const float (&own_lse)[2],
                           const float (&own_delta)[2]) {
    const float scale = a.scale * std::numbers::log2e_v<float>, gate = gate_of(step.h);
    const bool masked = !sees_all(step);
    Sums<kOther> p[1], ds[1];
    p[0].clear();
    ds[0].clear();
    multiply_rows<T, 1, kOther, kWidth, kOfKeys>(p, own_qk, row0, stage.qk);
    multiply_rows<T, 1, kOther, kWidth, kOfKeys>(ds, own_vdo, row0, stage.vdo);
#pragma unroll
    for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int column = 8 * n + 2 * (lane % 4) + k % 2, half = k / 2;
        const float lse = kOfKeys ? stage.lse[column] : own_lse[half];
        const float delta = kOfKeys ? stage.delta[column] : own_delta[half];
        float weight = device::exp2_of(fmaf(p[0].of[n][k], scale, -lse));
        if (kFactors && kOfKeys) weight *= stage.factor[column];
        const float dp = gate == 0 ? 0.0f : __fmul_rn(gate, ds[0].of[n][k]);  // as delta has it where a key is alone
        p[0].of[n][k] = weight;
        ds[0].of[n][k] = weight * (dp - delta);
      }
    }
    if (masked) mask(p[0], ds[0], kOfKeys ? stage.seen : own_seen, step);
    if constexpr (!kOfKeys) {
      balance.seek(p[0].of, step.at + 2 * (lane % 4));
      if constexpr (kFactors) balance.add_weights(p[0].of);
      balance.add(
          ds[0].of, [](int, int) { return 1.0f; }, rounded_as<T>);
    }
    PackedWeights<T, kOther> packed[1];
    if constexpr (kOfKeys) {
      if (gate != 1) {
#pragma unroll
        for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
          for (int k = 0; k < 4; ++k) p[0].of[n][k] *= gate;
        }
      }
      pack_weights<T, kOther>(packed[0], p[0]);
      multiply_weights<T, 1, kOther, kColumns>(sums_dv, packed, stage.vdo, part * kColumns);
    }
    pack_weights<T, kOther>(packed[0], ds[0]);
    multiply_weights<T, 1, kOther, kColumns>(sums_dqk, packed, stage.qk, part * kColumns);
  }

  __device__ void mask(Sums<kOther>& p, Sums<kOther>& ds, const KeySet* seen_by, const Step& step) const {
#pragma unroll
    for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int line = row0 + k / 2 * 8 + lane / 4, column = 8 * n + 2 * (lane % 4) + k % 2;
        const bool seen = kOfKeys ? seen_by[column].has(own + line) : seen_by[line].has(step.at + column);
        p.of[n][k] = seen ? p.of[n][k] : 0.0f;
        ds.of[n][k] = seen ? ds.of[n][k] : 0.0f;
      }
    }
  }

  __device__ void run() {
    sums_dqk[0].clear();
    sums_dv[0].clear();
    Step step = next({head.h, 0});
    if (step.h == a.heads) return;
    float own_lse[2] = {}, own_delta[2] = {};
    if constexpr (!kOfKeys) {
      if (threadIdx.x < kOwn) own_seen[threadIdx.x] = head.keys_of(own + threadIdx.x);
      balance.begin();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = own + row0 + 8 * half + lane / 4;
        if (i >= head.sequence.queries) continue;
        own_lse[half] = rows.lse[d.row(head, i)];
        own_delta[half] = rows.delta[d.row(head, i)];
      }
    }
    load_own();
    load_other(Stage(0), step);
    device::commit_copies();
    for (int stage = 0; step.h < a.heads; stage ^= 1) {
      device::wait_for_copies<0>();
      __syncthreads();  // this tile is there, and the one before is no longer read
      const Step after = next({step.h, step.at + kOther});
      if (after.h < a.heads) load_other(Stage(stage ^ 1), after);
      device::commit_copies();
      add_tile(Stage(stage), step, own_lse, own_delta);
      step = after;
    }
    if constexpr (!kOfKeys) repair_rows(own_lse, own_delta);
  }

  // Puts dq right where delta was not, and delta for the kernels that follow.
  __device__ void repair_rows(const float (&own_lse)[2], const float (&own_delta)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int line = row0 + 8 * half + lane / 4, i = own + line;
      const bool sees = i < head.sequence.queries && own_lse[half] != INFINITY;
      const float of_sink = sees && head.has_sink()
                                ? device::exp2_of(fmaf(head.sink, std::numbers::log2e_v<float>, -own_lse[half]))
                                : 0.0f;
      const float all = kFactors ? device::quad_sum(balance.weights[half]) + of_sink : 1.0f;  // 1, as it should be
      const float factor = sees ? 1 / all : 1.0f, dlse = sees ? d.dlse_of(head, i) : 0.0f;
      const DeltaRepair repair = balance.finish(half, own_delta[half], dlse, factor * of_sink, factor);
      if (!sees) continue;
      if (lane % 4 == 0) {
        const std::int64_t row = d.row(head, i);
        rows.delta[row] = own_delta[half] + repair.error;
        rows.factor[row] = factor;
        d.delta[row] += repair.error;
        if (head.has_sink()) {  // the state of the same softmax, for the sink's gradient
          d.m[row] = head.sink;
          d.l[row] = all / of_sink;
        }
      }
      if constexpr (kFactors) {
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
          for (int k = 2 * half; k < 2 * half + 2; ++k) sums_dqk[0].of[n][k] *= factor;
        }
      }
      if (repair.heaviest < 0) continue;
      const bool alone = !head.has_sink() && own_seen[line].count() == 1;  // then ds is dlse
      const Element<T>* key = at(a.k, head.g, head.sequence.key_begin + repair.heaviest);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const int column = 8 * n + 2 * (lane % 4);
        if (column >= a.head_dim) continue;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float& sum = sums_dqk[0].of[n][2 * half + k];
          const float x = to_float(key[column + k]);
          sum = alone ? dlse * x : fmaf(-repair.excess, x, sum);
        }
      }
    }
  }

  // Writes factor * sums to the block's rows: zeros outside [exists_from, exists_to), nothing from `end` on.
  __device__ void store_rows(const Strided& to, int h, std::int64_t first, const Sums<kColumns>& sums, float factor,
                             int width, std::int64_t exists_from, std::int64_t exists_to, std::int64_t end) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t place = first + row0 + 8 * half + lane / 4;
      if (place >= end) continue;
      const bool exists = place >= exists_from && place < exists_to;
      auto* row = const_cast<Element<T>*>(at(to, h, place));
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const int column = part * kColumns + 8 * n + 2 * (lane % 4);
        if (column >= width) continue;
        store_pair(row + column, exists ? factor * sums.of[n][2 * half] : 0.0f,
                   exists ? factor * sums.of[n][2 * half + 1] : 0.0f);
      }
    }
  }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(MmaGradient<T, kWidth, false>::kThreads)
    dq_mma_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                  const __grid_constant__ MmaRows rows, const __grid_constant__ Strided dq, int tiles) {
  using Gradient = MmaGradient<T, kWidth, false>;
  const BlockPlace place(1, tiles, a.heads);
  const Head& head = *share_head(a, place.n, place.h);
  const int first = place.tile * Gradient::kOwn;
  if (first >= head.sequence.rows) return;
  Gradient gradient{a, d, rows, head, first};
  if (d.reaches(head)) {
    gradient.run();
  } else {
    gradient.sums_dqk[0].clear();
  }
  const kernels::Sequence& s = head.sequence;
  gradient.store_rows(dq, head.h, s.query_begin + first, gradient.sums_dqk[0], a.scale, a.head_dim, s.query_begin,
                      s.query_begin + s.queries, s.query_begin + s.rows);
}

template <class T, int kWidth>
__global__ void __launch_bounds__(MmaGradient<T, kWidth, true>::kThreads)
    dkv_mma_kernel(const __grid_constant__ AttentionArguments a, const __grid_constant__ GradientArguments d,
                   const __grid_constant__ MmaRows rows, const __grid_constant__ Strided dk,
                   const __grid_constant__ Strided dv, int tiles) {
  using Gradient = MmaGradient<T, kWidth, true>;
  const BlockPlace place(1, tiles, a.heads / a.heads_per_kv);
  const Head& head = *share_head(a, place.n, place.h * a.heads_per_kv);
  const kernels::Sequence& s = head.sequence;
  const bool packed = a.sequences.packed;
  // Under a causal mask most queries see the first keys, so these come first.
  const std::int64_t begin =
      (packed ? s.key_begin : 0) + static_cast<std::int64_t>(tiles - 1 - place.tile) * Gradient::kOwn;
  const std::int64_t end = packed ? s.key_begin + s.keys : a.sequences.keys;
  if (begin >= end) return;
  Gradient gradient{a, d, rows, head, static_cast<int>(begin - s.key_begin)};
  gradient.run();
  gradient.store_rows(dk, head.g, begin, gradient.sums_dqk[0], a.scale, a.head_dim, s.key_begin, s.key_begin + s.keys,
                      end);
  gradient.store_rows(dv, head.g, begin, gradient.sums_dv[0], 1.0f, a.value_dim, s.key_begin, s.key_begin + s.keys,
                      end);
}

}  // namespace polyhead::cuda::portable
