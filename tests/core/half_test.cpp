// f16 and bf16: every bit pattern, and every place where rounding has to decide.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "polyhead/tensor.h"

namespace polyhead {
namespace {

constexpr std::uint32_t kPatterns = 65536;

template <class Half>
Half from_bits(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

template <class Half>
bool survives_round_trip(std::uint32_t bits) {
  const float value = static_cast<float>(from_bits<Half>(bits));
  const Half back(value);
  return std::isnan(value) ? std::isnan(static_cast<float>(back)) : back.bits == bits;
}

TEST(Half, EveryPatternSurvivesTheWayThroughF32) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    ASSERT_TRUE(survives_round_trip<float16>(bits)) << "f16 " << std::hex << bits;
    ASSERT_TRUE(survives_round_trip<bfloat16>(bits)) << "bf16 " << std::hex << bits;
  }
}

TEST(Half, KnownF16) {
  const auto bits = [](float value) { return float16(value).bits; };
  EXPECT_EQ(bits(0.0f), 0x0000);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(1.0f), 0x3c00);
  EXPECT_EQ(bits(-2.0f), 0xc000);
  EXPECT_EQ(bits(65504.0f), 0x7bff);
  EXPECT_EQ(bits(65519.0f), 0x7bff);
  EXPECT_EQ(bits(65520.0f), 0x7c00);  // a tie, to even: infinity
  EXPECT_EQ(bits(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(bits(0x1p-14f), 0x0400);
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);  // a tie, to even: zero
  EXPECT_EQ(bits(0x1.000002p-25f), 0x0001);
}

#ifdef __FLT16_MAX__
#ifdef __aarch64__
using Native = __fp16;  // GCC 12 has _Float16 there in C alone
#else
using Native = _Float16;
#endif
std::uint16_t native_bits(float value) { return std::bit_cast<std::uint16_t>(static_cast<Native>(value)); }

TEST(Half, F16ReadsAsTheCompilersOwn) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const auto native = static_cast<float>(std::bit_cast<Native>(static_cast<std::uint16_t>(bits)));
    const auto ours = static_cast<float>(from_bits<float16>(bits));
    if (std::isnan(native)) {
      ASSERT_TRUE(std::isnan(ours)) << std::hex << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(native)) << std::hex << bits;
    }
  }
}

TEST(Half, F16RoundsAsTheCompilersOwn) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto below = static_cast<float>(from_bits<float16>(bits));
    const float above = bits == 0x7bff ? 65536.0f : static_cast<float>(from_bits<float16>(bits + 1));
    const float tie = (below + above) / 2;  // exact in f32
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, infinity)}) {
      ASSERT_EQ(float16(value).bits, native_bits(value)) << value;
      ASSERT_EQ(float16(-value).bits, native_bits(-value)) << -value;
    }
  }
}

TEST(Half, F16OfArbitraryF32IsAsTheCompilersOwn) {
  constexpr std::uint64_t kStride = 4099;  // prime: a million patterns spread over all of f32
  for (std::uint64_t pattern = 0; pattern <= 0xffffffffu; pattern += kStride) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(float16(value)))) << std::hex << pattern;
    } else {
      ASSERT_EQ(float16(value).bits, native_bits(value)) << std::hex << pattern;
    }
  }
}
#endif

TEST(Half, Bf16ReadsAsTheUpperHalfOfF32) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(from_bits<bfloat16>(bits))), bits << 16);
  }
}

// The nearer neighbour wins, the even one of two equally near. Infinity stands for 2^128 here.
TEST(Half, Bf16RoundsToNearestEven) {
  for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) {
    const auto value_of = [](std::uint32_t bits) {
      return bits == 0x7f80 ? 0x1p128 : static_cast<double>(static_cast<float>(from_bits<bfloat16>(bits)));
    };
    for (const std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto value = std::bit_cast<float>((upper << 16) | lower);
      const double down = static_cast<double>(value) - value_of(upper);
      const double up = value_of(upper + 1) - static_cast<double>(value);
      const bool rounds_up = up < down || (up == down && upper % 2 == 1);
      ASSERT_EQ(bfloat16(value).bits, upper + rounds_up) << value;
      ASSERT_EQ(bfloat16(-value).bits, (upper + rounds_up) | 0x8000u) << -value;
    }
  }
}

TEST(Half, NanStaysNanWhereverItsBitsAre) {
  for (const std::uint32_t pattern : {0x7f800001u, 0x7f80ffffu, 0x7fc00000u, 0xff800001u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(pattern);
    EXPECT_TRUE(std::isnan(static_cast<float>(float16(nan)))) << std::hex << pattern;
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(nan)))) << std::hex << pattern;
  }
}

}  // namespace
}  // namespace polyhead
