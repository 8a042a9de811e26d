// Quantised blocks to f32, a vector of rows at a time: bytes lie side by side in a strip (core/blocks.h), so what is
// done to a block there is done here to the blocks of all rows. Scales times integers fit into f32 whole, so fused
// multiply-adds give the bits of the sums and products that core/blocks.cpp rounds one by one.
#if defined(POLYHEAD_CPU_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_BLOCKS_INL_H_
#undef POLYHEAD_CPU_BLOCKS_INL_H_
#else
#define POLYHEAD_CPU_BLOCKS_INL_H_
#endif

#include "core/blocks.h"
#include "cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

static_assert(kStripRows % kStrip<float> == 0, "a strip of the kernels lies within one of blocks");

using Integers = Vec<std::int32_t>;

// Of one block of as many rows as a vector has lanes: what it holds, and where its elements go.
class RowsOfBlocks {
 public:
  RowsOfBlocks(const std::uint8_t* block, float* to) : block_(block), to_(to) {}

  HWY_INLINE Integers bytes(std::int64_t at) const {
    return hn::PromoteTo(Tag<std::int32_t>(), hn::LoadU(hn::Rebind<std::uint8_t, Tag<float>>(), row(at)));
  }
  HWY_INLINE Vec<float> signed_bytes(std::int64_t at) const {
    const hn::Rebind<std::int8_t, Tag<float>> d8;
    return number(hn::PromoteTo(Tag<std::int32_t>(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(row(at)))));
  }
  // Finite numbers in f16, by arithmetic: their two bytes do not lie side by side.
  HWY_INLINE Vec<float> halves(std::int64_t at) const {
    const Tag<float> d;
    const Tag<std::int32_t> di;
    const Integers bits = hn::Or(bytes(at), hn::ShiftLeft<8>(bytes(at + 1)));
    const Integers magnitude = hn::And(bits, hn::Set(di, 0x7fff)), sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    const Integers normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, 0x38000000));
    const Integers small = hn::BitCast(di, hn::Mul(number(magnitude), hn::Set(d, 0x1p-24f)));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), small, normal)));
  }
  HWY_INLINE void put(std::int64_t element, Vec<float> value) const {
    hn::StoreU(value, Tag<float>(), to_ + element * static_cast<std::int64_t>(kStrip<float>));
  }
  static HWY_INLINE Vec<float> number(Integers integers) { return hn::ConvertTo(Tag<float>(), integers); }

 private:
  const std::uint8_t* row(std::int64_t at) const { return block_ + at * kStripRows; }

  const std::uint8_t* block_;
  float* to_;
};

HWY_INLINE Integers low_bits(Integers x, std::int32_t mask) { return hn::And(x, hn::Set(Tag<std::int32_t>(), mask)); }

// 32 elements in 16 bytes from `at` on, the low nibbles first: put(n, q).
template <class Put>
HWY_INLINE void for_nibbles(const RowsOfBlocks& of, std::int64_t at, const Put& put) {
  for (std::int64_t n = 0; n < 16; ++n) {
    const Integers both = of.bytes(at + n);
    put(n, low_bits(both, 15));
    put(n + 16, hn::ShiftRight<4>(both));
  }
}

// The same with a fifth bit, which lie in 4 bytes from `fifths` on.
template <class Put>
HWY_INLINE void for_five_bits(const RowsOfBlocks& of, std::int64_t fifths, std::int64_t at, const Put& put) {
  Integers low = hn::Or(of.bytes(fifths), hn::ShiftLeft<8>(of.bytes(fifths + 1)));
  Integers high = hn::Or(of.bytes(fifths + 2), hn::ShiftLeft<8>(of.bytes(fifths + 3)));
  low = hn::ShiftLeft<4>(low), high = hn::ShiftLeft<4>(high);
  for (std::int64_t n = 0; n < 16; ++n, low = hn::ShiftRight<1>(low), high = hn::ShiftRight<1>(high)) {
    const Integers both = of.bytes(at + n);
    put(n, hn::Or(low_bits(both, 15), low_bits(low, 16)));
    put(n + 16, hn::Or(hn::ShiftRight<4>(both), low_bits(high, 16)));
  }
}

// put(n, d q + m) for a q that for_nibbles or for_five_bits give.
HWY_INLINE auto scaled(const RowsOfBlocks& of, Vec<float> d, Vec<float> m) {
  return [&of, d, m](std::int64_t n, Integers q) { of.put(n, hn::MulAdd(d, of.number(q), m)); };
}
// The m of d (q - zero).
HWY_INLINE Vec<float> minus(Vec<float> d, float zero) { return hn::Mul(d, hn::Set(Tag<float>(), -zero)); }

inline void widen_q4_0(const RowsOfBlocks& of, std::int64_t) {
  const Vec<float> d = of.halves(0);
  for_nibbles(of, 2, scaled(of, d, minus(d, 8)));
}
inline void widen_q4_1(const RowsOfBlocks& of, std::int64_t) {
  for_nibbles(of, 4, scaled(of, of.halves(0), of.halves(2)));
}
inline void widen_q5_0(const RowsOfBlocks& of, std::int64_t) {
  const Vec<float> d = of.halves(0);
  for_five_bits(of, 2, 6, scaled(of, d, minus(d, 16)));
}
inline void widen_q5_1(const RowsOfBlocks& of, std::int64_t) {
  for_five_bits(of, 4, 8, scaled(of, of.halves(0), of.halves(2)));
}
inline void widen_q8_0(const RowsOfBlocks& of, std::int64_t) {
  const Vec<float> d = of.halves(0);
  for (std::int64_t n = 0; n < 32; ++n) of.put(n, hn::Mul(of.signed_bytes(2 + n), d));
}

// The scale and the minimum of an eighth of a block of 256.
struct ScaleOfEighth {
  Vec<float> scale, minimum;

  HWY_INLINE ScaleOfEighth(const RowsOfBlocks& of, Vec<float> d, Vec<float> dmin, std::int64_t e) {
    Integers low = of.bytes(4 + e % 4), high = of.bytes(8 + e % 4);
    if (e < 4) {
      low = low_bits(low, 63), high = low_bits(high, 63);
    } else {
      const Integers rest = of.bytes(8 + e);
      low = hn::Or(low_bits(rest, 15), low_bits(hn::ShiftRight<2>(low), 48));
      high = hn::Or(hn::ShiftRight<4>(rest), low_bits(hn::ShiftRight<2>(high), 48));
    }
    scale = hn::Mul(d, of.number(low));
    minimum = hn::Mul(dmin, of.number(high));
  }
  HWY_INLINE Vec<float> of_number(Integers q) const { return hn::MulSub(scale, RowsOfBlocks::number(q), minimum); }
};

// A quarter of the block: two eighths, which share 32 bytes of nibbles. kFifths: before those of all, byte n of 32 has
// the fifth bits of element n of all eighths.
template <bool kFifths>
void widen_eighths(const RowsOfBlocks& of, std::int64_t quarter) {
  const Vec<float> d = of.halves(0), dmin = of.halves(2);
  const std::int64_t e = 2 * quarter, at = (kFifths ? 48 : 16) + 32 * quarter;
  const ScaleOfEighth first(of, d, dmin, e), second(of, d, dmin, e + 1);
  for (std::int64_t n = 0; n < 32; ++n) {
    const Integers both = of.bytes(at + n);
    Integers low = low_bits(both, 15), high = hn::ShiftRight<4>(both);
    if constexpr (kFifths) {
      const Integers fifths = hn::ShiftRightSame(hn::ShiftLeft<4>(of.bytes(16 + n)), static_cast<int>(e));
      low = hn::Or(low, low_bits(fifths, 16));
      high = hn::Or(high, low_bits(hn::ShiftRight<1>(fifths), 16));
    }
    of.put(n, first.of_number(low));
    of.put(32 + n, second.of_number(high));
  }
}

// A half of the block, whose quarters t and t + 2 share bytes of nibbles.
inline void widen_q6_k(const RowsOfBlocks& of, std::int64_t half) {
  const Vec<float> d = of.halves(208);
  for (std::int64_t element = 0; element < 64; element += 16) {  // of the lower nibbles; the upper ones are 64 later
    const std::int64_t t = element / 32, place = element % 32, scales = 192 + half * 8 + element / 16;
    const Vec<float> first = hn::Mul(d, of.signed_bytes(scales)), second = hn::Mul(d, of.signed_bytes(scales + 4));
    const auto put_first = scaled(of, first, minus(first, 32)), put_second = scaled(of, second, minus(second, 32));
    for (std::int64_t i = 0; i < 16; ++i) {
      const Integers both = of.bytes(half * 64 + element + i);
      const Integers pairs =
          hn::ShiftRightSame(hn::ShiftLeft<4>(of.bytes(128 + half * 32 + place + i)), static_cast<int>(2 * t));
      put_first(element + i, hn::Or(low_bits(both, 15), low_bits(pairs, 48)));
      put_second(element + 64 + i, hn::Or(hn::ShiftRight<4>(both), low_bits(hn::ShiftRight<4>(pairs), 48)));
    }
  }
}

// Elements that are widened together: a block, or a part of a large one.
constexpr std::int64_t piece_of(BlockType type) {
  switch (type) {
    case BlockType::q4_k:
    case BlockType::q5_k: return 64;
    case BlockType::q6_k: return 128;
    default: return 32;
  }
}
inline constexpr std::int64_t kMostInPiece = 128;

// to [k][kStrip]: elements k of the blocks of kStrip rows, of which `first` is the byte of the first row that all
// others follow. k are whole pieces.
template <auto widen>
void widen_rows(const BlockFormat& format, const std::uint8_t* first, Range k, float* to) {
  const std::int64_t step = piece_of(format.type);
  for (std::int64_t n = k.begin; n < k.end; n += step, to += step * static_cast<std::int64_t>(kStrip<float>)) {
    const std::uint8_t* block = first + n / format.elements * format.bytes * kStripRows;
    for (std::size_t lane = 0; lane < kStrip<float>; lane += kLanes<float>) {
      widen(RowsOfBlocks(block + lane, to + lane), n % format.elements / step);
    }
  }
}

inline void widen_blocks(const BlockFormat& format, const std::uint8_t* first, Range k, float* to) {
  switch (format.type) {
    case BlockType::q4_0: return widen_rows<widen_q4_0>(format, first, k, to);
    case BlockType::q4_1: return widen_rows<widen_q4_1>(format, first, k, to);
    case BlockType::q5_0: return widen_rows<widen_q5_0>(format, first, k, to);
    case BlockType::q5_1: return widen_rows<widen_q5_1>(format, first, k, to);
    case BlockType::q8_0: return widen_rows<widen_q8_0>(format, first, k, to);
    case BlockType::q4_k: return widen_rows<widen_eighths<false>>(format, first, k, to);
    case BlockType::q5_k: return widen_rows<widen_eighths<true>>(format, first, k, to);
    case BlockType::q6_k: return widen_rows<widen_q6_k>(format, first, k, to);
  }
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
