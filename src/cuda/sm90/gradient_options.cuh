// The score modifiers in the backward pass, on a thread's scores of one block: softcap, alibi, bias, keep and dropout.
// Number i of the scores, as wgmma has them, belongs to own line i / 2 % 2 of the thread's two (8 apart) and to column
// 8 (i / 4) + i % 2.
#pragma once

#include <cuda_fp16.h>

#include "core/philox.h"
#include "cuda/sm90/gradient_walk.cuh"

namespace polyhead::cuda::sm90 {

// 2^x of a score that has its lse taken off. Scores that go through a softcap or a bias differ from the forward pass's
// by rounding; a key that is alone must have all of the weight, so that nothing goes back to it.
__device__ inline float weight_of(float x) { return fabsf(x) < 0x1p-16f ? 1.f : exp2_of(x); }

template <class T, bool kOfKeys, int kOther>
struct GradientOptions {
  static constexpr int kCount = kOther / 2;
  static_assert(kCount == 32, "a bit of a word for every score");
  using Scores = float[kCount];
  using Slopes = std::uint32_t[kCount / 8][4];  // pairs of f16

  const GradientArguments& a;
  const GradientTile& tile;
  const int head;
  const int own, other;  // the thread's first line and column, counted in the sequence

  __device__ static constexpr int column(int i) { return 8 * (i / 4) + i % 2; }
  __device__ int query(int i) const { return kOfKeys ? other + column(i) : own + 8 * (i / 2 % 2); }
  __device__ int key(int i) const { return kOfKeys ? own + 8 * (i / 2 % 2) : other + column(i); }

  // s: q . k, becomes the logits in powers of 2, -inf where the key is hidden; slopes: of the softcap, if there is one.
  // Each option has its own loop: a single loop had too many instructions for the caches.
  __device__ void finish(Scores& s, Slopes& slopes, bool open) const {
    const Options& o = a.options;
    if (o.softcap > 0) {
      cap(s, slopes);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) s[i] *= a.scale_log2;
    }
    if (o.alibi.data != nullptr) add_alibi(s);
    if (o.bias.data != nullptr) o.bias.dtype == DType::f32 ? add_bias<float>(s) : add_bias<T>(s);
    if (o.keep.data != nullptr) {
      for_elements_of<std::uint8_t>(o.keep, [&](int i, std::uint8_t keep) { s[i] = keep == 0 ? -INFINITY : s[i]; });
    }
    const int columns = tile.other_lines - other;  // that exist, from this thread's first on
    if (open && columns > column(kCount - 1)) return;
    const LineSight sight[2] = {tile.sight_of<kOfKeys>(a.reach, own, other),
                                tile.sight_of<kOfKeys>(a.reach, own + 8, other)};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool seen = column(i) < columns && sight[i / 2 % 2].template sees<kOfKeys>(column(i));
      s[i] = seen ? s[i] : -INFINITY;
    }
  }

  __device__ float2 slopes_of(const Slopes& slopes, int pair) const {
    if (!(a.options.softcap > 0)) return {1, 1};
    return __half22float2(*reinterpret_cast<const __half2*>(&slopes[pair / 4][pair % 4]));
  }

  __device__ static bool is_kept(std::uint32_t kept, int i) { return (kept >> i & 1) != 0; }
  // Bit i: does dropout keep score i?
  __device__ std::uint32_t kept() const {
    if (a.options.threshold == 0) return ~0u;
    if constexpr (!kOfKeys) return kept_of_queries();
    return tile.line % 8 == 0 ? kept_of_keys() : kept_one_by_one();
  }

 private:
  // tanh z = (1 - e) / (1 + e) and its slope 4 e / (1 + e)^2 with e = e^-2|z|, which does not cancel.
  __device__ void cap(Scores& s, Slopes& slopes) const {
    const float inner = a.scale / a.options.softcap, outer = a.options.softcap * kLog2E;
#pragma unroll
    for (int pair = 0; pair < kCount / 2; ++pair) {
      float slope[2];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float& x = s[2 * pair + n];
        const float z = inner * x, e = exp2_of(-2 * kLog2E * fabsf(z)), inverse = device::reciprocal_of(1 + e);
        x = copysignf(outer * (1 - e) * inverse, z);
        slope[n] = 4 * e * inverse * inverse;
      }
      slopes[pair / 4][pair % 4] = pack_operand<__half>(slope[0], slope[1]);
    }
  }

  __device__ void add_alibi(Scores& s) const {
    const float slope = -kLog2E * a.options.alibi.at(tile.sequence, head, 0);
    const auto away = static_cast<float>(query(0) + tile.offset - key(0));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float line = 8 * (i / 2 % 2), other_line = column(i);
      s[i] = fmaf(slope, fabsf(away + (kOfKeys ? other_line - line : line - other_line)), s[i]);
    }
  }

  template <class X>
  __device__ void add_bias(Scores& s) const {
    for_elements_of<X>(a.options.bias, [&](int i, X number) {
      const auto bias = static_cast<float>(number);
      s[i] = bias == -INFINITY ? -INFINITY : fmaf(bias, kLog2E, s[i]);
    });
  }

  // act(i, the tensor's number) for the scores whose query and key exist.
  template <class X, class Act>
  __device__ void for_elements_of(const ScoreTensor& tensor, const Act& act) const {
    const std::int64_t own_step = kOfKeys ? tensor.key : tensor.row, other_step = kOfKeys ? tensor.row : tensor.key;
    const X* first = static_cast<const X*>(tensor.data) + tile.batch * tensor.batch + head * tensor.head +
                     (tile.own_begin + own) * own_step + (tile.other_begin + other) * other_step;
    const bool line_exists[2] = {own >= 0 && own < tile.lines, own + 8 >= 0 && own + 8 < tile.lines};
    const int columns = tile.other_lines - other;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = i / 2 % 2;
      if (line_exists[r] && column(i) < columns) act(i, first[8 * r * own_step + column(i) * other_step]);
    }
  }

  // Bit n: is key 8 group + n kept for the query? One draw decides eight neighbouring keys.
  __device__ std::uint32_t draw(int group, int query) const {
    const Philox::Words words =
        Philox::words(a.options.keys, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(query),
                                       static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(tile.sequence)});
    std::uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t random = n % 2 == 0 ? words[n / 2] & 0xffffu : words[n / 2] >> 16;
      bits |= static_cast<std::uint32_t>(random >= a.options.threshold) << n;
    }
    return bits;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // Columns are keys: the four lanes that share two rows draw for two groups of columns each.
  __device__ std::uint32_t kept_of_queries() const {
    const int quad = lane() % 4, group = (other - 2 * quad) / 8;
    std::uint32_t drawn[2], bits = 0;  // of row r: byte n is group 4 n + quad
#pragma unroll
    for (int r = 0; r < 2; ++r) drawn[r] = draw(group + quad, own + 8 * r) | draw(group + 4 + quad, own + 8 * r) << 8;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int from = 0; from < 4; ++from) {
        const std::uint32_t got = __shfl_sync(~0u, drawn[r], from, 4) >> 2 * quad;
        bits |= (got & 3) << (4 * from + 2 * r) | (got >> 8 & 3) << (4 * (from + 4) + 2 * r);
      }
    }
    return bits;
  }

  // Columns are queries: lines 0 to 7 of a warp, and 8 to 15, are a group of keys each. Lane l draws for group l % 2
  // and query l / 2 % 8 of columns 8 (2 k + l / 16) on; byte k is what it drew.
  __device__ std::uint32_t kept_of_keys() const {
    const int line = lane() / 4, quad = lane() % 4, first = other - 2 * quad;
    std::uint32_t drawn = 0, bits = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int query = first + 8 * (2 * k + lane() / 16) + lane() / 2 % 8;
      drawn |= draw((own - line) / 8 + lane() % 2, query) << 8 * k;
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // r = i / 2, and the second number of the pair
        const std::uint32_t got = __shfl_sync(~0u, drawn, 16 * n + 2 * (2 * quad + i % 2) + i / 2) >> line;
#pragma unroll
        for (int k = 0; k < 4; ++k) bits |= (got >> 8 * k & 1) << (4 * (2 * k + n) + i);
      }
    }
    return bits;
  }
  __device__ std::uint32_t kept_one_by_one() const {
    std::uint32_t bits = 0;
#pragma unroll 1
    for (int i = 0; i < kCount; ++i) {
      const int j = max(key(i), 0);
      bits |= (draw(j / 8, query(i)) >> j % 8 & 1) << i;
    }
    return bits;
  }
};

}  // namespace polyhead::cuda::sm90
