#include "io/gguf_blocks.h"

#include <cstring>

namespace polyhead::io {
namespace {

// All sums and products below are rounded one by one: io is compiled without contraction to fused multiply-adds.

float half_at(const std::uint8_t* at) {
  float16 half;
  std::memcpy(&half.bits, at, sizeof half.bits);
  return static_cast<float>(half);
}

float signed_at(const std::uint8_t* at) { return static_cast<float>(static_cast<std::int8_t>(*at)); }

int bit(const std::uint8_t* bits, int n) { return bits[n / 8] >> n % 8 & 1; }

// Element n of 32 packed into 16 bytes, the low nibbles first.
int nibble(const std::uint8_t* bytes, int n) { return n < 16 ? bytes[n] & 15 : bytes[n - 16] >> 4; }

// 32 elements: scale d, then 4 bits each; d (q - 8).
void widen_q4_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 2, n) - 8);
}

// d, m, 4 bits each; d q + m.
void widen_q4_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 4, n)) + m;
}

// d, the fifth bits, 4 bits each; d (q - 16).
void widen_q5_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) {
    to[n] = d * static_cast<float>((nibble(block + 6, n) | bit(block + 2, n) << 4) - 16);
  }
}

// d, m, the fifth bits, 4 bits each; d q + m.
void widen_q5_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 8, n) | bit(block + 4, n) << 4) + m;
}

// d, then a signed byte each; d q.
void widen_q8_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) to[n] = signed_at(block + 2 + n) * d;
}

// The scale and the minimum of each eighth of a block of 256: 6 bits each in 12 bytes. The upper two bits of the last
// four of each kind lie in the first eight bytes.
struct Scales {
  float scale[8], minimum[8];

  explicit Scales(const std::uint8_t* block) {
    const float d = half_at(block), dmin = half_at(block + 2);
    const std::uint8_t* packed = block + 4;
    for (int n = 0; n < 4; ++n) {
      const int low = packed[n], high = packed[4 + n], rest = packed[8 + n];
      scale[n] = d * static_cast<float>(low & 63);
      minimum[n] = dmin * static_cast<float>(high & 63);
      scale[4 + n] = d * static_cast<float>((rest & 15) | (low >> 2 & 48));
      minimum[4 + n] = dmin * static_cast<float>(rest >> 4 | (high >> 2 & 48));
    }
  }
};

// 256 elements in eighths of 32. d, dmin, 12 bytes of scales, 4 bits each: two eighths share 32 bytes.
void widen_q4_k(const std::uint8_t* block, float* to) {
  const Scales scales(block);
  for (int e = 0; e < 8; ++e) {
    const std::uint8_t* low = block + 16 + e / 2 * 32;
    for (int n = 0; n < 32; ++n) {
      to[e * 32 + n] = scales.scale[e] * static_cast<float>(low[n] >> e % 2 * 4 & 15) - scales.minimum[e];
    }
  }
}

// As above, with 32 bytes of fifth bits before the nibbles: byte n holds those of element n of all eighths.
void widen_q5_k(const std::uint8_t* block, float* to) {
  const Scales scales(block);
  for (int e = 0; e < 8; ++e) {
    const std::uint8_t *fifth = block + 16, *low = block + 48 + e / 2 * 32;
    for (int n = 0; n < 32; ++n) {
      const int q = (low[n] >> e % 2 * 4 & 15) | (fifth[n] >> e & 1) << 4;
      to[e * 32 + n] = scales.scale[e] * static_cast<float>(q) - scales.minimum[e];
    }
  }
}

// 256 elements: 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d; d scale (q - 32).
// In each half of a block, 64 bytes hold the nibbles of elements 0..63 and 64..127, and 32 bytes the pairs of its four
// quarters.
void widen_q6_k(const std::uint8_t* block, float* to) {
  const float d = half_at(block + 208);
  for (int n = 0; n < 256; ++n) {
    const int half = n / 128, in_half = n % 128;
    const int low = block[half * 64 + in_half % 64] >> in_half / 64 * 4 & 15;
    const int high = block[128 + half * 32 + in_half % 32] >> in_half / 32 * 2 & 3;
    to[n] = d * signed_at(block + 192 + n / 16) * static_cast<float>((low | high << 4) - 32);
  }
}

constexpr BlockFormat kFormats[] = {
    {0, "F32", 1, 4, DType::f32},
    {1, "F16", 1, 2, DType::f16},
    {30, "BF16", 1, 2, DType::bf16},
    {2, "Q4_0", 32, 18, DType::f32, widen_q4_0},
    {3, "Q4_1", 32, 20, DType::f32, widen_q4_1},
    {6, "Q5_0", 32, 22, DType::f32, widen_q5_0},
    {7, "Q5_1", 32, 24, DType::f32, widen_q5_1},
    {8, "Q8_0", 32, 34, DType::f32, widen_q8_0},
    {12, "Q4_K", 256, 144, DType::f32, widen_q4_k},
    {13, "Q5_K", 256, 176, DType::f32, widen_q5_k},
    {14, "Q6_K", 256, 210, DType::f32, widen_q6_k},
};

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

}  // namespace polyhead::io
