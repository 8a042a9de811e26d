// The arguments of the Hopper kernels. Passed by value as a kernel's parameter.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/philox.h"
#include "cuda/sm90/tiles.cuh"
#include "kernels/mask.h"
#include "kernels/sequences.h"

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

// kernels::MaskOptions in 32 bits: a query at p sees keys from p - left to p + right, and those below `first` as far as
// p + first_right. Tensors are shorter than kLongest, and |p| < 2 kLongest, so nothing overflows.
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

// [N,H] by its strides in elements.
struct PerHead {
  const float* data = nullptr;
  std::int64_t sequence = 0, head = 0;

  __device__ float at(int n, int h, float if_absent) const {
    return data == nullptr ? if_absent : data[n * sequence + h * head];
  }
};

// Options that calls seldom have. A kernel is compiled for one of them, or for any combination.
enum class ScoreModifier : std::uint8_t { several, softcap, alibi, bias, keep, dropout };

// [B,H,T,S] by its strides in elements, a number for every score; absent if data is null.
struct ScoreTensor {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 0, head = 0, row = 0, key = 0;

  __device__ std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    return b * batch + h * head + t * row + s * key;
  }
};

// Options that only the general instance has.
struct Options {
  ScoreTensor keep, bias;
  const std::uint32_t* keep_bits = nullptr;  // keep, a bit per key, by its strides in words
  std::int64_t keep_batch = 0, keep_head = 0, keep_row = 0;
  float softcap = 0;  // 0: none
  // A score of |s| <= cap_limit becomes s (cap_terms[0] + cap_terms[1] s^2 + ...), in powers of 2.
  float cap_terms[4] = {}, cap_limit = 0;
  PerHead alibi;
  Philox::Keys keys;                   // of dropout; as parameters of the kernel they take no instructions
  std::uint32_t threshold = 0;         // a weight is kept if its 16 random bits reach it; 0: no dropout
  float kept_factor = 1;               // what dropout multiplies kept weights by
  const std::uint8_t* seen = nullptr;  // [B,H or 1,S]: does some query see the key, despite keep and bias?
  std::int64_t seen_batch = 0, seen_head = 0;

  // `key` is counted in the tensor, not in the sequence.
  __device__ bool is_seen(int batch, int head, int key) const {
    return seen == nullptr || seen[batch * seen_batch + head * seen_head + key] != 0;
  }
};

struct ForwardArguments {
  CUtensorMap q, k, v;  // boxes of 64 columns
  kernels::Sequences sequences;
  kernels::MaskOptions mask;
  Reach reach;
  TileOrder order;
  int heads_per_kv = 1;
  float scale = 1;  // includes log2(e): softmax is computed in powers of 2

  Strided<void> output;
  Strided<float> lse;
  PerHead gates;
  const float* sink_logit = nullptr;  // [H]
  std::int64_t sink_head = 0;
  const int* open_heads = nullptr;  // see Workspace
  bool describe_closed = false;     // lse or statistics are wanted, so a head with gate 0 is computed all the same

  RowOutcome* outcomes = nullptr;        // [B,H,T], if statistics are wanted
  RowMoments* moments = nullptr;         // [B,H,T], if the full set is wanted
  const std::uint32_t* marks = nullptr;  // [B][mark_words]: a bit per key of the tensor, if some are marked
  int mark_words = 0;

  Options options;
  CUtensorMap bias{};  // boxes of 64 keys, for calls whose only score modifier is a bias that the copy engine can take
  int bias_heads = 0, bias_batches = 0;  // 1 if it has more than one of them, otherwise 0
  float bias_factor = 0;                 // what it is multiplied by to be added to q . k

  int* next_tile = nullptr;  // 0 between calls
  int tiles_ahead = 1;       // how many tiles a block of threads claims ahead: 1 or 2
};

}  // namespace polyhead::cuda::sm90
