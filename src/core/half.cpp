// f16 and bf16 in software: for scalars and for vector targets without conversion instructions.
#include <bit>
#include <cmath>

#include "polyhead/tensor.h"

namespace polyhead {

float16::float16(float value) noexcept {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000u;
  const std::uint32_t magnitude = x & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // rounds to 65536 or more: infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal, a multiple of 2^-24: adding 0.5 lets the FPU round to that.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

float16::operator float() const noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t x = 0;
  if (magnitude >= 0x7c00u) {
    x = 0x7f800000u | ((magnitude & 0x3ffu) << 13);  // infinity, NaN
  } else if (magnitude >= 0x400u) {
    x = (magnitude << 13) + 0x38000000u;
  } else {
    x = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | x);
}

bfloat16::bfloat16(float value) noexcept {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) {
    bits = static_cast<std::uint16_t>((x >> 16) | 0x40u);  // NaN stays NaN
  } else {
    bits = static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
}

bfloat16::operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace polyhead
