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

// A number of each of kVectors vectors of rows.
template <std::size_t kVectors>
struct Numbers {
  HWY_INLINE Numbers() {}  // the compiler's own would not be of this target, as the vectors' own are on ARM
  Vec<float> of[kVectors];
};
// make(v) for each vector.
template <std::size_t kVectors, class Make>
HWY_INLINE Numbers<kVectors> for_vectors(const Make& make) {
  Numbers<kVectors> all;
  for (std::size_t v = 0; v < kVectors; ++v) all.of[v] = make(v);
  return all;
}

// One block of each of several rows: kStrip that lie side by side, and as many elsewhere if there are more.
template <std::size_t kVectors>
class RowsOfBlocks {
 public:
  static_assert(kVectors == 2 || kVectors == 4);

  RowsOfBlocks(const std::uint8_t* first, const std::uint8_t* second) : block_{first, second} {}

  HWY_INLINE Integers bytes(std::size_t v, std::int64_t at) const {
    return hn::PromoteTo(Tag<std::int32_t>(), hn::LoadU(hn::Rebind<std::uint8_t, Tag<float>>(), row(v, at)));
  }
  HWY_INLINE Vec<float> signed_bytes(std::size_t v, std::int64_t at) const {
    const hn::Rebind<std::int8_t, Tag<float>> d8;
    return number(hn::PromoteTo(Tag<std::int32_t>(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(row(v, at)))));
  }
  // Finite numbers in f16, whose two bytes do not lie side by side.
  HWY_INLINE Numbers<kVectors> halves(std::int64_t at) const {
    return for_vectors<kVectors>([&](std::size_t v) { return half(v, at); });
  }
  static HWY_INLINE Vec<float> number(Integers integers) { return hn::ConvertTo(Tag<float>(), integers); }

 private:
  const std::uint8_t* row(std::size_t v, std::int64_t at) const {
    return block_[v / 2] + v % 2 * kLanes<float> + at * kStripRows;
  }
#if HWY_TARGET != HWY_SSSE3 && HWY_TARGET != HWY_SSE4
  HWY_INLINE Vec<float> half(std::size_t v, std::int64_t at) const {
    const hn::Rebind<std::uint8_t, Tag<float>> d8;
    const hn::Rebind<std::uint16_t, Tag<float>> d16;
    const auto wide = [&](std::int64_t n) { return hn::PromoteTo(d16, hn::LoadU(d8, row(v, n))); };
    const auto bits = hn::Or(wide(at), hn::ShiftLeft<8>(wide(at + 1)));
    return hn::PromoteTo(Tag<float>(), hn::BitCast(hn::Rebind<hwy::float16_t, Tag<float>>(), bits));
  }
#else
  HWY_INLINE Vec<float> half(std::size_t v, std::int64_t at) const {
    const Tag<float> d;
    const Tag<std::int32_t> di;
    const Integers bits = hn::Or(bytes(v, at), hn::ShiftLeft<8>(bytes(v, at + 1)));
    const Integers magnitude = hn::And(bits, hn::Set(di, 0x7fff)), sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    const Integers normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(di, 0x38000000));
    const Integers small = hn::BitCast(di, hn::Mul(number(magnitude), hn::Set(d, 0x1p-24f)));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), small, normal)));
  }
#endif

  const std::uint8_t* block_[2];
};

// The functions below call put(n, numbers) for elements n of the blocks, one after the other.

HWY_INLINE Integers low_bits(Integers x, std::int32_t mask) { return hn::And(x, hn::Set(Tag<std::int32_t>(), mask)); }
// Element n of 32 that lie in 16 bytes, the low nibbles first.
template <bool kHigh>
HWY_INLINE Integers nibble(Integers both) {
  if constexpr (kHigh) return hn::ShiftRight<4>(both);
  return low_bits(both, 15);
}

// d q + m of a half of a block, whose nibbles lie in 16 bytes from `at` on.
template <bool kHigh, std::size_t kVectors, class Put>
HWY_INLINE void put_nibbles(const RowsOfBlocks<kVectors>& of, std::int64_t at, const Numbers<kVectors>& d,
                            const Numbers<kVectors>& m, const Put& put) {
  for (std::int64_t n = 0; n < 16; ++n) {
    put((kHigh ? 16 : 0) + n, for_vectors<kVectors>([&](std::size_t v) {
          return hn::MulAdd(d.of[v], of.number(nibble<kHigh>(of.bytes(v, at + n))), m.of[v]);
        }));
  }
}
template <std::size_t kVectors, class Put>
HWY_INLINE void put_four_bits(const RowsOfBlocks<kVectors>& of, std::int64_t at, const Numbers<kVectors>& d,
                              const Numbers<kVectors>& m, const Put& put) {
  put_nibbles<false>(of, at, d, m, put);
  put_nibbles<true>(of, at, d, m, put);
}

// The same with a fifth bit, which lie in 4 bytes from `fifths` on.
template <bool kHigh, std::size_t kVectors, class Put>
HWY_INLINE void put_five_of(const RowsOfBlocks<kVectors>& of, std::int64_t fifths, std::int64_t at,
                            const Numbers<kVectors>& d, const Numbers<kVectors>& m, const Put& put) {
  Integers bits[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    bits[v] = hn::ShiftLeft<4>(hn::Or(of.bytes(v, fifths), hn::ShiftLeft<8>(of.bytes(v, fifths + 1))));
  }
  for (std::int64_t n = 0; n < 16; ++n) {
    put((kHigh ? 16 : 0) + n, for_vectors<kVectors>([&](std::size_t v) {
          const Integers q = hn::Or(nibble<kHigh>(of.bytes(v, at + n)), low_bits(bits[v], 16));
          bits[v] = hn::ShiftRight<1>(bits[v]);
          return hn::MulAdd(d.of[v], of.number(q), m.of[v]);
        }));
  }
}
template <std::size_t kVectors, class Put>
HWY_INLINE void put_five_bits(const RowsOfBlocks<kVectors>& of, std::int64_t fifths, std::int64_t at,
                              const Numbers<kVectors>& d, const Numbers<kVectors>& m, const Put& put) {
  put_five_of<false>(of, fifths, at, d, m, put);
  put_five_of<true>(of, fifths + 2, at, d, m, put);
}

// The m of d (q - zero).
template <std::size_t kVectors>
HWY_INLINE Numbers<kVectors> minus(const Numbers<kVectors>& d, float zero) {
  return for_vectors<kVectors>([&](std::size_t v) { return hn::Mul(d.of[v], hn::Set(Tag<float>(), -zero)); });
}

template <std::size_t kVectors, class Put>
HWY_INLINE void put_q8_0(const RowsOfBlocks<kVectors>& of, const Put& put) {
  const Numbers<kVectors> d = of.halves(0);
  for (std::int64_t n = 0; n < 32; ++n) {
    put(n, for_vectors<kVectors>([&](std::size_t v) { return hn::Mul(of.signed_bytes(v, 2 + n), d.of[v]); }));
  }
}

// The scale and the minimum of an eighth of a block of 256.
template <std::size_t kVectors>
struct ScaleOfEighth {
  Numbers<kVectors> scale, minimum;

  HWY_INLINE ScaleOfEighth(const RowsOfBlocks<kVectors>& of, std::int64_t e) {
    const Numbers<kVectors> d = of.halves(0), dmin = of.halves(2);
    for (std::size_t v = 0; v < kVectors; ++v) {
      Integers low = of.bytes(v, 4 + e % 4), high = of.bytes(v, 8 + e % 4);
      if (e < 4) {
        low = low_bits(low, 63), high = low_bits(high, 63);
      } else {
        const Integers rest = of.bytes(v, 8 + e);
        low = hn::Or(low_bits(rest, 15), low_bits(hn::ShiftRight<2>(low), 48));
        high = hn::Or(hn::ShiftRight<4>(rest), low_bits(hn::ShiftRight<2>(high), 48));
      }
      scale.of[v] = hn::Mul(d.of[v], of.number(low));
      minimum.of[v] = hn::Mul(dmin.of[v], of.number(high));
    }
  }
};

// An eighth: the lower or the upper nibbles of 32 bytes that two eighths share. kFifths: before those of all, byte n of
// 32 has the fifth bits of element n of all eighths.
template <bool kFifths, bool kHigh, std::size_t kVectors, class Put>
HWY_INLINE void put_eighth(const RowsOfBlocks<kVectors>& of, std::int64_t quarter, const Put& put) {
  const std::int64_t e = 2 * quarter + (kHigh ? 1 : 0), at = (kFifths ? 48 : 16) + 32 * quarter;
  const ScaleOfEighth<kVectors> with(of, e);
  for (std::int64_t n = 0; n < 32; ++n) {
    put((kHigh ? 32 : 0) + n, for_vectors<kVectors>([&](std::size_t v) {
          Integers q = nibble<kHigh>(of.bytes(v, at + n));
          if constexpr (kFifths) {
            const Integers fifths = hn::ShiftRightSame(hn::ShiftLeft<4>(of.bytes(v, 16 + n)), static_cast<int>(e));
            q = hn::Or(q, low_bits(fifths, 16));
          }
          return hn::MulSub(with.scale.of[v], of.number(q), with.minimum.of[v]);
        }));
  }
}
template <bool kFifths, std::size_t kVectors, class Put>
HWY_INLINE void put_quarter(const RowsOfBlocks<kVectors>& of, std::int64_t quarter, const Put& put) {
  put_eighth<kFifths, false>(of, quarter, put);
  put_eighth<kFifths, true>(of, quarter, put);
}

// A half of the block in quarters of 32: t and t + 2 share bytes of nibbles, and all share bytes of upper bit pairs.
template <bool kHigh, std::size_t kVectors, class Put>
HWY_INLINE void put_quarters_of_q6_k(const RowsOfBlocks<kVectors>& of, std::int64_t half, const Put& put) {
  const Numbers<kVectors> d = of.halves(208);
  for (std::int64_t element = 0; element < 64; element += 16) {  // of those that have the same nibbles
    const std::int64_t t = element / 32 + (kHigh ? 2 : 0), place = element % 32,
                       scale_at = 192 + half * 8 + element / 16 + (kHigh ? 4 : 0);
    const Numbers<kVectors> scale =
        for_vectors<kVectors>([&](std::size_t v) { return hn::Mul(d.of[v], of.signed_bytes(v, scale_at)); });
    const Numbers<kVectors> m = minus(scale, 32);
    for (std::int64_t i = 0; i < 16; ++i) {
      put((kHigh ? 64 : 0) + element + i, for_vectors<kVectors>([&](std::size_t v) {
            const Integers pairs =
                hn::ShiftRightSame(hn::ShiftLeft<4>(of.bytes(v, 128 + half * 32 + place + i)), static_cast<int>(2 * t));
            const Integers q = hn::Or(nibble<kHigh>(of.bytes(v, half * 64 + element + i)), low_bits(pairs, 48));
            return hn::MulAdd(scale.of[v], of.number(q), m.of[v]);
          }));
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

// put(n, numbers) for the elements of a piece of the blocks, by number; one after the other, so that sums may be formed
// of them.
template <BlockType kType, std::size_t kVectors, class Put>
HWY_INLINE void put_piece(const RowsOfBlocks<kVectors>& of, std::int64_t piece, const Put& put) {
  if constexpr (kType == BlockType::q4_0) {
    const Numbers<kVectors> d = of.halves(0);
    put_four_bits(of, 2, d, minus(d, 8), put);
  }
  if constexpr (kType == BlockType::q4_1) put_four_bits(of, 4, of.halves(0), of.halves(2), put);
  if constexpr (kType == BlockType::q5_0) {
    const Numbers<kVectors> d = of.halves(0);
    put_five_bits(of, 2, 6, d, minus(d, 16), put);
  }
  if constexpr (kType == BlockType::q5_1) put_five_bits(of, 4, 8, of.halves(0), of.halves(2), put);
  if constexpr (kType == BlockType::q8_0) put_q8_0(of, put);
  if constexpr (kType == BlockType::q4_k) put_quarter<false>(of, piece, put);
  if constexpr (kType == BlockType::q5_k) put_quarter<true>(of, piece, put);
  if constexpr (kType == BlockType::q6_k) {
    put_quarters_of_q6_k<false>(of, piece, put);
    put_quarters_of_q6_k<true>(of, piece, put);
  }
}

// work(the type as a constant).
template <class Work>
HWY_INLINE void with_type(BlockType type, const Work& work) {
  switch (type) {
    case BlockType::q4_0: return work(std::integral_constant<BlockType, BlockType::q4_0>());
    case BlockType::q4_1: return work(std::integral_constant<BlockType, BlockType::q4_1>());
    case BlockType::q5_0: return work(std::integral_constant<BlockType, BlockType::q5_0>());
    case BlockType::q5_1: return work(std::integral_constant<BlockType, BlockType::q5_1>());
    case BlockType::q8_0: return work(std::integral_constant<BlockType, BlockType::q8_0>());
    case BlockType::q4_k: return work(std::integral_constant<BlockType, BlockType::q4_k>());
    case BlockType::q5_k: return work(std::integral_constant<BlockType, BlockType::q5_k>());
    case BlockType::q6_k: return work(std::integral_constant<BlockType, BlockType::q6_k>());
  }
}

struct PutWidened {
  float* to;  // [k][kStrip]

  HWY_INLINE void operator()(std::int64_t n, const Numbers<2>& numbers) const {
    for (std::size_t v = 0; v < 2; ++v) {
      hn::StoreU(numbers.of[v], Tag<float>(), to + n * static_cast<std::int64_t>(kStrip<float>) + v * kLanes<float>);
    }
  }
};

template <BlockType kType>
HWY_NOINLINE void widen_rows(const BlockFormat& format, const std::uint8_t* first, Range k, float* to) {
  constexpr std::int64_t kStep = piece_of(kType);
  for (std::int64_t n = k.begin; n < k.end; n += kStep, to += kStep * static_cast<std::int64_t>(kStrip<float>)) {
    const std::uint8_t* block = first + n / format.elements * format.bytes * kStripRows;
    put_piece<kType>(RowsOfBlocks<2>(block, nullptr), n % format.elements / kStep, PutWidened{to});
  }
}

// to [k][kStrip]: elements k of the blocks of kStrip rows, of which `first` is the byte of the first row that all
// others follow. k are whole pieces.
inline void widen_blocks(const BlockFormat& format, const std::uint8_t* first, Range k, float* to) {
  with_type(format.type, [&](auto type) { widen_rows<decltype(type)::value>(format, first, k, to); });
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
