// The score modifiers on a thread's scores of one block of keys, one after the other: softcap, alibi, bias and keep
// before the softmax, dropout after it. An option that a call does not have costs one branch for the whole block.
#pragma once

#include "core/philox.h"
#include "cuda/device/mma.cuh"
#include "cuda/device/quad.cuh"
#include "cuda/sm90/arguments.h"
#include "cuda/sm90/softmax.cuh"

namespace polyhead::cuda::sm90 {

// Where a thread's scores lie: its rows are `row` and row + 8 of the sequence, its columns key `first_key` and the
// next, and so on every 8 keys. lane: of the four that share the row.
struct ScoreBlock {
  int row, first_key, lane;

  __device__ int row_of(int r) const { return row + 8 * r; }
};

// s += factor * bias for 16 rows of a warp from first_row on and all columns of its tiles; -inf where the bias is,
// whatever the key holds. Tiles are as the copy engine leaves them: [kRows][64], 16 bytes c of a row at c ^ row % 8.
template <int kRows, class T, int kTiles>
__device__ inline void add_bias_tiles(float (&s)[32 * kTiles], const T (&tiles)[kTiles][kRows * 64], int first_row,
                                      float factor) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = first_row + lane % 16;
  const auto* from = reinterpret_cast<const unsigned char*>(tiles[0]) + row * 128;
  const int place = (lane / 16 ^ row % 8) * 16;
  const auto for_words = [&](const auto& act) {  // act(i, word): numbers 2 i and 2 i + 1 of s
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      std::uint32_t words[4];  // 16 columns
      device::load_matrices(words, from + i / 4 * sizeof tiles[0] + (place ^ i % 4 * 32));
#pragma unroll
      for (int j = 0; j < 4; ++j) act(4 * i + j, words[j]);
    }
  };
  // As unsigned integers nothing is above -inf but NaN. Looking for it costs less than a comparison of every number.
  constexpr std::uint32_t kHidden = std::is_same_v<T, __nv_bfloat16> ? 0xff80ff80u : 0xfc00fc00u;
  std::uint32_t most = 0, other = 0;
  for_words([&](int i, std::uint32_t word) {
    if (i % 2 == 0) {
      other = word;
    } else {
      most = __vimax3_u16x2(most, other, word);
    }
  });
  if (!__any_sync(~0u, __vcmpgeu2(most, kHidden) != 0)) {
    for_words([&](int i, std::uint32_t word) {
      const float2 bias = widen<T>(word);
      s[2 * i] = fmaf(bias.x, factor, s[2 * i]);
      s[2 * i + 1] = fmaf(bias.y, factor, s[2 * i + 1]);
    });
  } else {
    const auto add = [&](float& x, float bias) { x = bias == -INFINITY ? -INFINITY : fmaf(bias, factor, x); };
    for_words([&](int i, std::uint32_t word) {
      const float2 bias = widen<T>(word);
      add(s[2 * i], bias.x);
      add(s[2 * i + 1], bias.y);
    });
  }
}

// kOnly: the one option that a call has; if `several`, the call says which there are.
template <class T, int kKeys, ScoreModifier kOnly>
struct GeneralOptions {
  static constexpr int kCount = kKeys / 2;  // of a thread's scores
  using Scores = float[kCount];

  const Options& o;
  const Tile& tile;
  const float scale;  // includes log2(e)

  // What is read for a block before its scores are known.
  struct Early {
    std::uint32_t bias[kCount / 4];     // pairs of the first half of the columns, if paired
    bool paired = false;                // the bias is of type T, the block whole, its pairs aligned
    std::uint32_t keep[2][kKeys / 32];  // of row r: bits 8 n and 8 n + 1 of word i are columns 32 i + 8 n and the next
  };
  __device__ Early early(const ScoreBlock& block) const {
    Early early;
    if (has_bias(o)) fetch_bias(early, block);
    if (has_keep(o)) fetch_keep(early, block);
    return early;
  }

  __device__ static bool has(ScoreModifier option, bool given) {
    return kOnly == ScoreModifier::several ? given : kOnly == option;
  }
  __device__ static bool has_softcap(const Options& o) { return has(ScoreModifier::softcap, o.softcap > 0); }
  __device__ static bool has_alibi(const Options& o) { return has(ScoreModifier::alibi, o.alibi.data != nullptr); }
  __device__ static bool has_bias(const Options& o) { return has(ScoreModifier::bias, o.bias.data != nullptr); }
  __device__ static bool has_keep(const Options& o) { return has(ScoreModifier::keep, o.keep_bits != nullptr); }
  __device__ static bool has_dropout(const Options& o) { return has(ScoreModifier::dropout, o.threshold != 0); }

  // What turns finished scores into exponents of 2.
  __device__ static float scale_of(const Options& o, float scale) {
    if (kOnly == ScoreModifier::bias) return scale;
    return has_softcap(o) || has_alibi(o) || has_bias(o) || (kOnly == ScoreModifier::several && !(scale > 0)) ? 1.f
                                                                                                              : scale;
  }

  // s: q . k, becomes the logits; times scale_of they are in powers of 2.
  __device__ void finish(Scores& s, const ScoreBlock& block, const Early& early) const {
    float factor = scale_of(o, scale) == 1.f ? scale : 1.f;
    if (has_softcap(o)) {
      cap(s);
      factor = 1;
    }
    if (has_alibi(o)) {
      add_alibi(s, block, factor);
      factor = 1;
    }
    if (has_bias(o)) {
      add_bias(s, block, early, factor);
    } else if (factor != 1) {
      for_scores(s, [&](int, int, float& x) { x *= factor; });
    }
    if (has_keep(o)) {
      for_scores(
          s, [&](int r, int i, float& x) { x = early.keep[r][i / 8] >> (i % 8 / 2 * 8 + i % 2) & 1 ? x : -INFINITY; });
    }
  }

  // s: weights; those that are dropped become 0. The others are scaled up when the row is complete. Four lanes have
  // eight neighbouring keys of a row, which one draw of Philox decides: of four such groups each lane draws for one,
  // and they exchange words.
  __device__ void drop(Scores& s, const ScoreBlock& block) const {
    if (!has_dropout(o)) return;
    const int group = (block.first_key - 2 * block.lane) / 8;
    const std::uint32_t threshold = o.threshold << 16;  // of 16 bits that are moved to the top of a word
#pragma unroll
    for (int g = 0; g < kKeys / 8; g += 4) {
      Philox::Words words[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        words[r] = Philox::words(
            o.keys, {static_cast<std::uint32_t>(group + g + block.lane), static_cast<std::uint32_t>(block.row_of(r)),
                     static_cast<std::uint32_t>(tile.head), static_cast<std::uint32_t>(tile.sequence)});
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        device::transpose_quad(words[r]);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          float* const two = &s[4 * (g + k) + 2 * r];
          two[0] = words[r][k] << 16 >= threshold ? two[0] : 0.f;
          two[1] = words[r][k] >= threshold ? two[1] : 0.f;
        }
      }
    }
  }

  // Whether some query of the sequence sees the key.
  __device__ bool is_seen(int key) const {
    return key >= tile.keys || o.is_seen(tile.batch, tile.head, tile.key_begin + key);
  }

 private:
  __device__ void cap(Scores& s) const {
    float most[4] = {};
    for_scores(s, [&](int, int i, float& x) { most[i % 4] = fmaxf(most[i % 4], fabsf(x)); });
    if (__all_sync(~0u, fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3])) <= o.cap_limit)) {
      // While all scores are well below the cap, a polynomial: the special function unit has the softmax to do.
      for_scores(s, [&](int, int, float& x) {
        const float square = x * x;
        float factor = o.cap_terms[3];
#pragma unroll
        for (int t = 2; t >= 0; --t) factor = fmaf(factor, square, o.cap_terms[t]);
        x *= factor;
      });
      return;
    }
    // cap tanh z = cap - 2 cap / (1 + e^2z), in powers of 2.
    const float inner = 2 * scale / o.softcap, outer = o.softcap * kLog2E;
    for_scores(s, [&](int, int, float& x) {
      const float inverse = device::reciprocal_of(1 + exp2_of(inner * x));
      x = fmaf(-2 * outer, inverse, outer);
    });
  }

  // act(r, i, x) for number i of row r; its column is 8 (i / 2) + i % 2.
  template <class Act>
  __device__ static void for_scores(Scores& s, const Act& act) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) act(r, i, s[i / 2 * 4 + 2 * r + i % 2]);
    }
  }

  // s <- factor s - slope |p - j|.
  __device__ void add_alibi(Scores& s, const ScoreBlock& block, float factor) const {
    const float slope = tile.slope, p = static_cast<float>(block.row + tile.offset - block.first_key);
    const float away[2] = {p, p + 8};
    const auto column = [](int i) { return static_cast<float>(i / 2 * 8 + i % 2); };
    const bool before = p >= kKeys, behind = p + 8 <= 0;  // all columns of both rows
    if (__all_sync(~0u, before || behind)) {
      const float towards = before ? slope : -slope, base[2] = {-towards * away[0], -towards * away[1]};
      for_scores(s, [&](int r, int i, float& x) { x = fmaf(x, factor, fmaf(towards, column(i), base[r])); });
    } else {
      for_scores(s, [&](int r, int i, float& x) { x = fmaf(-slope, fabsf(away[r] - column(i)), x * factor); });
    }
  }

  template <class X>
  __device__ const X* row_of(const ScoreTensor& tensor, const ScoreBlock& block, int r) const {
    const int row = min(block.row_of(r), tile.queries - 1);
    return static_cast<const X*>(tensor.data) +
           tensor.at(tile.batch, tile.head, tile.query_begin + row, tile.key_begin + block.first_key);
  }

  // s <- factor s + bias; -inf if the bias is, whatever the key holds.
  __device__ void add_bias(Scores& s, const ScoreBlock& block, const Early& early, float factor) const {
    const auto add = [&](float& x, float bias) { x = bias == -INFINITY ? -INFINITY : fmaf(x, factor, bias * kLog2E); };
    if (early.paired) {
      std::uint32_t rest[kCount / 4];
      load_pairs(rest, block, kKeys / 2);
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float2 two = widen<T>(i < kCount / 4 ? early.bias[i] : rest[i - kCount / 4]);
        add(s[2 * i], two.x);
        add(s[2 * i + 1], two.y);
      }
    } else {
      for_scores(s, [&](int r, int i, float& x) {
        const int column = i / 2 * 8 + i % 2;
        if (block.first_key + column >= tile.keys) return;
        const std::int64_t at = column * o.bias.key;
        add(x, o.bias.dtype == DType::f32 ? row_of<float>(o.bias, block, r)[at]
                                          : static_cast<float>(row_of<T>(o.bias, block, r)[at]));
      });
    }
  }
  __device__ void fetch_bias(Early& early, const ScoreBlock& block) const {
    const bool whole = block.first_key - 2 * block.lane + kKeys <= tile.keys;
    const auto places = reinterpret_cast<std::uintptr_t>(row_of<T>(o.bias, block, 0)) |
                        reinterpret_cast<std::uintptr_t>(row_of<T>(o.bias, block, 1));
    early.paired = o.bias.dtype != DType::f32 && o.bias.key == 1 && whole && places % 4 == 0;
    if (early.paired) load_pairs(early.bias, block, 0);
  }
  // The bias of half a block, from column `from` on, in pairs.
  __device__ void load_pairs(std::uint32_t (&pairs)[kCount / 4], const ScoreBlock& block, int from) const {
    const T* const rows[2] = {row_of<T>(o.bias, block, 0) + from, row_of<T>(o.bias, block, 1) + from};
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      pairs[i] = *reinterpret_cast<const std::uint32_t*>(rows[i % 2] + i / 2 * 8);
    }
  }

  __device__ void fetch_keep(Early& early, const ScoreBlock& block) const {
    const int key = tile.key_begin + block.first_key;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = min(block.row_of(r), tile.queries - 1);
      const std::uint32_t* words = o.keep_bits + tile.batch * o.keep_batch + tile.head * o.keep_head +
                                   (tile.query_begin + row) * o.keep_row + key / 32;
#pragma unroll
      for (int i = 0; i < kKeys / 32; ++i) early.keep[r][i] = __funnelshift_r(words[i], words[i + 1], key % 32);
    }
  }
};

}  // namespace polyhead::cuda::sm90
