// Decoding: all query rows that share a kv head, at most 16 of them, are one tile of the tensor cores, and keys and
// values are read once for all of them, 16 bytes at a time. A product may sum its columns in any order, so columns are
// dealt to the lanes as they lie and nothing is transposed. Every warp has its own queue in shared memory, filled row
// by row, which holds more than registers could. Keys are cut into chunks so that a single sequence fills the GPU;
// their results are merged in order.
#pragma once

#include "cuda/device/mma.cuh"
#include "cuda/device/stream_order.cuh"
#include "cuda/portable/arguments.h"

namespace polyhead::cuda::portable {

inline constexpr int kDecodeRows = 16, kDecodeKeys = 16, kDecodeWarps = 4;
inline constexpr int kDecodeAhead = 3;  // steps of 16 keys in the queue of a warp

// What a chunk leaves: the maxima and sums of its rows (in powers of 2), and outputs not yet divided by the sums.
struct DecodePartials {
  float* outputs = nullptr;  // [N][G][chunks][16][D]
  float2* states = nullptr;  // [N][G][chunks][16]
  int* done = nullptr;       // [N][G]: chunks that are done; 0 between calls
  int chunks = 1;
};

struct DecodeOutputs {
  Strided output, lse;
};

// Row r of a tile is query r / group of query head r % group, of those that share the kv head.
struct DecodeTile {
  kernels::Sequence sequence;
  kernels::PositionMask<int> mask;
  int group, kv_head, queries;

  __device__ DecodeTile(const AttentionArguments& a, int n, int g)
      : sequence(a.sequences[n]),
        mask(a.mask, sequence),
        group(a.heads_per_kv),
        kv_head(g),
        queries(static_cast<int>(sequence.queries)) {}
  __device__ int query(int r) const { return r / group; }
  __device__ int head(int r) const { return kv_head * group + r % group; }
  __device__ bool exists(int r) const { return query(r) < queries; }
};

// 16 keys and their values, in pieces of 8 columns. Lane (group, c) reads of keys group and group + 8 the pieces c, c +
// 4 and so on, and of the values of keys 2c, 2c + 1, 2c + 8 and 2c + 9 the pieces group, group + 8 and so on: pieces
// are swizzled so that eight lanes find theirs in different banks.
template <int D>
struct DecodePieces {
  static constexpr int kPieces = D / 8;
  uint4 k[kDecodeKeys][kPieces], v[kDecodeKeys][kPieces];

  __device__ uint4& key(int row, int piece) { return k[row][piece ^ (row % 2 * 4)]; }
  __device__ uint4& value(int row, int piece) { return v[row][piece ^ (row / 2 % 4 * 2)]; }
};

template <class T, int D>
class Decode {
 public:
  __device__ Decode(const AttentionArguments& a, const DecodeTile& tile)
      : a_(a), tile_(tile), group_(static_cast<int>(threadIdx.x) % 32 / 4), c_(static_cast<int>(threadIdx.x) % 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = group_ + 8 * r;
      const bool exists = tile.exists(row);
      const KeySet seen = exists ? tile.mask.keys_of(tile.query(row)) : KeySet{};
      begin_[r] = seen.begin;
      end_[r] = seen.end;
      const T* q = static_cast<const T*>(a.q.data) +
                   a.q.at(tile.sequence.batch, tile.head(row), tile.sequence.query_begin + tile.query(row));
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        const uint4 piece = exists ? *reinterpret_cast<const uint4*>(q + 32 * i + 8 * c_) : uint4{0, 0, 0, 0};
        q_[2 * i][r] = piece.x;
        q_[2 * i][2 + r] = piece.y;
        q_[2 * i + 1][r] = piece.z;
        q_[2 * i + 1][2 + r] = piece.w;
      }
    }
  }

  // Queues copies of keys [first, first + 16) and their values; those below `end` exist.
  __device__ void fetch(DecodePieces<D>& to, int first, int end) const {
    constexpr int kPieces = DecodePieces<D>::kPieces, kRows = 32 / kPieces;  // rows at a time
    const int lane = static_cast<int>(threadIdx.x) % 32, piece = lane % kPieces;
    const std::int64_t batch = tile_.sequence.batch, begin = tile_.sequence.key_begin;
    const T* keys = static_cast<const T*>(a_.k.data) + a_.k.at(batch, tile_.kv_head, begin) + 8 * piece;
    const T* values = static_cast<const T*>(a_.v.data) + a_.v.at(batch, tile_.kv_head, begin) + 8 * piece;
#pragma unroll
    for (int row = lane / kPieces; row < kDecodeKeys; row += kRows) {
      device::copy_later(&to.key(row, piece), keys + min(first + row, end - 1) * a_.k.stride[2], true);
    }
#pragma unroll
    for (int row = lane / kPieces; row < kDecodeKeys; row += kRows) {
      device::copy_later(&to.value(row, piece), values + min(first + row, end - 1) * a_.v.stride[2], true);
    }
  }

  // Attends to those keys, once they have arrived.
  __device__ void visit(DecodePieces<D>& from, int first) {
    float s[2][4] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        const uint4 k = from.key(group_ + 8 * h, 4 * i + c_);
        device::multiply_add<T>(s[h], q_[2 * i], k.x, k.y);
        device::multiply_add<T>(s[h], q_[2 * i + 1], k.z, k.w);
      }
    }
    softmax(s, first);
    const std::uint32_t p[4] = {device::pack<T>(s[0][0], s[0][1]), device::pack<T>(s[0][2], s[0][3]),
                                device::pack<T>(s[1][0], s[1][1]), device::pack<T>(s[1][2], s[1][3])};
#pragma unroll
    for (int set = 0; set < D / 64; ++set) {
      const int piece = 8 * set + group_;
      const uint4 v[4] = {from.value(2 * c_, piece), from.value(2 * c_ + 1, piece), from.value(2 * c_ + 8, piece),
                          from.value(2 * c_ + 9, piece)};
      add_values(p, v, o_[set]);
    }
  }

  // Maximum and sum of row group + 8 r.
  __device__ float2 state(int r) const {
    float sum = sum_[r] + __shfl_xor_sync(~0u, sum_[r], 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    return {max_[r], sum};
  }
  // to [16][D + 1] = this warp's outputs times a factor per row; the padding puts rows that are written at once into
  // different banks.
  __device__ void store(float* to, const float (&factor)[2]) const {
#pragma unroll
    for (int set = 0; set < D / 64; ++set) {
#pragma unroll
      for (int t = 0; t < 8; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // row group + 8 (i / 2), column 2c + i % 2 of the tile
          to[(group_ + i / 2 * 8) * (D + 1) + 64 * set + 8 * (2 * c_ + i % 2) + t] = o_[set][t][i] * factor[i / 2];
        }
      }
    }
  }
  __device__ int row(int r) const { return group_ + 8 * r; }
  __device__ bool leads() const { return c_ == 0; }

 private:
  __device__ void softmax(float (&s)[2][4], int first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = -INFINITY;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = first + 8 * h + 2 * c_ + e;
          float& x = s[h][2 * r + e];
          x = key >= begin_[r] && key < end_[r] ? x * scale() : -INFINITY;
          top = fmaxf(top, x);
        }
      }
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float now = fmaxf(max_[r], top);
      const float factor = device::exp2_of(max_[r] - now);
      if (__any_sync(~0u, now != max_[r])) {
#pragma unroll
        for (int set = 0; set < D / 64; ++set) {
#pragma unroll
          for (int t = 0; t < 8; ++t) {
            o_[set][t][2 * r] *= factor;
            o_[set][t][2 * r + 1] *= factor;
          }
        }
      }
      max_[r] = now;
      sum_[r] *= factor;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[h][2 * r + e];
          x = device::exp2_of(x - now);
          sum_[r] += x;
        }
      }
    }
  }

  // The t-th product takes column t of every lane's eight.
  __device__ static void add_values(const std::uint32_t (&p)[4], const uint4 (&v)[4], float (&o)[8][4]) {
    const std::uint32_t words[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                       {v[1].x, v[1].y, v[1].z, v[1].w},
                                       {v[2].x, v[2].y, v[2].z, v[2].w},
                                       {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const unsigned halves = t % 2 == 0 ? 0x5410 : 0x7632;
      device::multiply_add<T>(o[t], p, __byte_perm(words[0][t / 2], words[1][t / 2], halves),
                              __byte_perm(words[2][t / 2], words[3][t / 2], halves));
    }
  }

  __device__ float scale() const { return a_.scale * 1.44269504f; }

  const AttentionArguments& a_;
  const DecodeTile& tile_;
  const int group_, c_;
  std::uint32_t q_[D / 16][4];
  int begin_[2], end_[2];
  float max_[2] = {-1e30f, -1e30f}, sum_[2] = {0, 0};  // finite, so that a row that sees nothing sums to 0
  float o_[D / 64][8][4] = {};
};

// Keys that some row of the tile sees.
__device__ inline kernels::KeyRange seen_by(const DecodeTile& tile) {
  if (tile.queries == 0) return {0, 0};
  const KeySet seen = tile.mask.keys_of_some(0, tile.queries - 1);
  return {seen.begin, seen.end};
}

// Output and lse of row r from its state (maximum and sum, in powers of 2) and its output before the division by the
// sum, of which lane n of a warp has columns n, n + 32 and so on.
template <class T, int D>
__device__ void finish_row(const AttentionArguments& a, const DecodeTile& tile, int n, int r, float2 state,
                           const float (&values)[D / 32], const DecodeOutputs& to) {
  const int head = tile.head(r), lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t place = tile.sequence.query_begin + tile.query(r);
  const float sink = a.sink_logit.present()
                         ? static_cast<const float*>(a.sink_logit.data)[head * a.sink_logit.stride[0]] * 1.44269504f
                         : -INFINITY;
  const float gate = a.gates.present() ? static_cast<const float*>(a.gates.data)[a.gates.at(n, head, 0)] : 1;
  const float top = fmaxf(state.x, sink), scale = device::exp2_of(state.x - top);
  const float total = state.y * scale + device::exp2_of(sink - top);
  const bool exists = tile.exists(r);
  const float factor = total == 0 ? 0 : scale / total * gate;
  T* output = static_cast<T*>(to.output.data) + to.output.at(tile.sequence.batch, head, place);
#pragma unroll
  for (int i = 0; i < D / 32; ++i) output[lane + 32 * i] = exists && gate != 0 ? T(values[i] * factor) : T(0.f);
  if (to.lse.present() && lane == 0) {
    static_cast<float*>(to.lse.data)[to.lse.at(tile.sequence.batch, head, place)] =
        exists && total > 0 ? (top + log2f(total)) / 1.44269504f : -INFINITY;
  }
}

// A warp merges row r of a sequence and kv head from its chunks, in their order.
template <class T, int D>
__device__ void merge_row(const AttentionArguments& a, const DecodeTile& tile, const DecodePartials& partials, int pair,
                          int n, int r, const DecodeOutputs& outputs) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = static_cast<std::int64_t>(pair) * partials.chunks * kDecodeRows + r;
  float top = -INFINITY, total = 0, sum[D / 32] = {};
  for (int chunk = lane; chunk < partials.chunks; chunk += 32) {
    top = fmaxf(top, __ldcg(&partials.states[first + chunk * kDecodeRows]).x);
  }
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
#pragma unroll 16  // loads take long, so they are issued many at a time
  for (int chunk = 0; chunk < partials.chunks; ++chunk) {
    const std::int64_t place = first + chunk * kDecodeRows;
    const float2 state = __ldcg(&partials.states[place]);
    const float factor = device::exp2_of(state.x - top);
    total += state.y * factor;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) sum[i] += factor * __ldcg(&partials.outputs[place * D + 32 * i + lane]);
  }
  finish_row<T, D>(a, tile, n, r, {top, total}, sum, outputs);
}

// One block: a chunk of the keys of one sequence and kv head. Its warps take 16 keys in turn.
template <class T, int D>
__global__ void __launch_bounds__(32 * kDecodeWarps)
    decode_kernel(AttentionArguments a, DecodePartials partials, DecodeOutputs outputs, int kv_heads) {
  device::let_next_begin();  // it waits, as this one does, but is launched: that takes half as long as a short call
  device::wait_for_earlier();
  using Queue = DecodePieces<D>[kDecodeAhead];
  __shared__ float2 states[kDecodeWarps][kDecodeRows];
  const int chunk = static_cast<int>(blockIdx.x) % partials.chunks,
            pair = static_cast<int>(blockIdx.x) / partials.chunks;
  const int n = pair / kv_heads, g = pair % kv_heads, warp = static_cast<int>(threadIdx.x) / 32;
  const DecodeTile tile(a, n, g);
  const kernels::KeyRange seen = seen_by(tile);
  const int begin = static_cast<int>(seen.begin), end = static_cast<int>(seen.end);
  const int steps = (max(end - begin, 0) + kDecodeKeys - 1) / kDecodeKeys;
  const int share = (steps + partials.chunks - 1) / partials.chunks, last = min((chunk + 1) * share, steps);
  Decode<T, D> decode(a, tile);
  Queue& queue = reinterpret_cast<Queue*>(device::dynamic_shared())[warp];
  const auto fetch = [&](int slot, int step) {
    if (step < last) decode.fetch(queue[slot], begin + step * kDecodeKeys, end);
    device::commit_copies();
  };
  int step = chunk * share + warp;
  for (int slot = 0; slot < kDecodeAhead; ++slot) fetch(slot, step + slot * kDecodeWarps);
  for (int slot = 0; step < last; step += kDecodeWarps, slot = slot + 1 < kDecodeAhead ? slot + 1 : 0) {
    device::wait_for_copies<kDecodeAhead - 1>();
    __syncwarp();  // the other lanes' copies have come, too
    decode.visit(queue[slot], begin + step * kDecodeKeys);
    __syncwarp();
    fetch(slot, step + kDecodeAhead * kDecodeWarps);
  }

  float2 own[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    own[r] = decode.state(r);
    if (decode.leads()) states[warp][decode.row(r)] = own[r];
  }
  device::wait_for_copies<0>();
  __syncthreads();  // the queues are empty

  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = states[0][decode.row(r)].x;
    for (int w = 1; w < kDecodeWarps; ++w) top = fmaxf(top, states[w][decode.row(r)].x);
    factor[r] = device::exp2_of(own[r].x - top);
  }
  using Sums = float[kDecodeRows][D + 1];
  Sums* const sums = reinterpret_cast<Sums*>(device::dynamic_shared());  // of every warp
  static_assert(sizeof(Sums[kDecodeWarps]) <= sizeof(Queue[kDecodeWarps]));
  decode.store(sums[warp][0], factor);
  __syncthreads();

  const int rows = tile.group * static_cast<int>(tile.sequence.rows), lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; r < rows; r += kDecodeWarps) {
    float2 state = {states[0][r].x, 0};
    for (int w = 1; w < kDecodeWarps; ++w) state.x = fmaxf(state.x, states[w][r].x);
    float sum[D / 32] = {};
    for (int w = 0; w < kDecodeWarps; ++w) {
      state.y += states[w][r].y * device::exp2_of(states[w][r].x - state.x);
#pragma unroll
      for (int i = 0; i < D / 32; ++i) sum[i] += sums[w][r][lane + 32 * i];
    }
    if (partials.chunks == 1) {
      finish_row<T, D>(a, tile, n, r, state, sum, outputs);
      continue;
    }
    const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * kDecodeRows + r;
#pragma unroll
    for (int i = 0; i < D / 32; ++i) partials.outputs[place * D + 32 * i + lane] = sum[i];
    if (lane == 0) partials.states[place] = state;
  }
  if (partials.chunks == 1) return;
  // The block that is done last merges all chunks.
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(&partials.done[pair], 1) == partials.chunks - 1;
    if (is_last) partials.done[pair] = 0;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int r = warp; r < rows; r += kDecodeWarps) merge_row<T, D>(a, tile, partials, pair, n, r, outputs);
}

}  // namespace polyhead::cuda::portable
