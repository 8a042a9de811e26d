// What the Hopper kernels are given. Passed by value as a kernel's parameter.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backend/sequences.h"
#include "backend/visibility.h"
#include "cuda/sm90/tiles.cuh"

namespace polyhead::cuda::sm90 {

inline constexpr float kLog2E = 1.44269504f;

// [B,H,T,..] by its strides in elements; absent if data is null.
template <class T>
struct Strided {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;

  __host__ __device__ std::int64_t offset(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return b * batch + h * head + t * row;
  }
};

// backend::Visibility in 32 bits, for the masks: a query at p sees keys from p - left to p + right, and those below
// `first` as far as p + first_right. Tensors are shorter than kLongest, and |p| < 2 kLongest, so nothing overflows.
struct Reach {
  static constexpr int kLongest = 1 << 28, kUnlimited = 1 << 29;
  int left = kUnlimited, right = kUnlimited, first = 0, first_right = kUnlimited;
};

// What a row at p sees among `keys` keys: [0, head) and [begin, end).
struct RowSight {
  int begin, end, head;

  __device__ RowSight(const Reach& reach, int p, int keys)
      : begin(max(min(p - reach.left, keys), 0)),
        end(max(min(p + reach.right + 1, keys), 0)),
        head(max(min(min(reach.first, p + reach.first_right + 1), keys), 0)) {}

  __device__ bool sees(int key) const { return key >= 0 && (key < head || (key >= begin && key < end)); }
  __device__ int count() const { return head + max(end - max(begin, head), 0); }
  __device__ int first() const { return head > 0 ? 0 : begin; }
};

// What the forward pass leaves of a row for its statistics. Scores are q . k, before the scale.
struct alignas(16) RowOutcome {
  float lse;      // in powers of 2
  float entropy;  // in nats
  float best;     // the largest score
  int best_key;
  float watched[4];  // scores of the first visible key, of the previous one, self and the next; unset if not seen
};

// What the full set needs of a row beyond that.
struct RowMoments {
  float distance, marked;  // sum_j p_j |p - j|, and the weight on marked keys
  float target[4];         // scores of the target keys; unset if not seen
};

struct ForwardArguments {
  CUtensorMap q, k, v;  // boxes of 64 columns
  backend::Sequences sequences;
  backend::Visibility sight;  // its `keys` are set per sequence
  Reach reach;
  TileOrder order;
  int heads_per_kv = 1;
  float scale = 1;  // log2(e) is in it: softmax is computed in powers of 2

  Strided<void> output;
  Strided<float> lse;
  const float* gates = nullptr;  // [N,H]
  std::int64_t gate_sequence = 0, gate_head = 0;
  const float* sink_logit = nullptr;  // [H]
  std::int64_t sink_head = 0;
  bool describe_closed = false;  // lse or statistics are wanted, so a head with gate 0 is computed all the same

  RowOutcome* outcomes = nullptr;        // [B,H,T], where statistics are wanted
  RowMoments* moments = nullptr;         // [B,H,T], where the full set is
  const std::uint32_t* marks = nullptr;  // [B][mark_words]: a bit per key of the tensor, if some are marked
  int mark_words = 0;

  int* next_tile = nullptr;  // 0 before and after
  int tiles_ahead = 1;       // how many tiles a block of threads claims ahead: 1 or 2
};

}  // namespace polyhead::cuda::sm90
