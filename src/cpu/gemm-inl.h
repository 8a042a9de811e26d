// A block of a product: C [rows, columns] = A B over all of K, both operands packed.
#if defined(POLYHEAD_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_GEMM_INL_H_
#undef POLYHEAD_CPU_GEMM_INL_H_
#else
#define POLYHEAD_CPU_GEMM_INL_H_
#endif

#include <atomic>
#include <memory>
#include <optional>

#include "cpu/blocks-inl.h"
#include "cpu/carver.h"
#include "cpu/products-inl.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// K is contracted in slices: the A of a tile and the B of a strip stay in cache while they are used, and sums of slices
// round less than one long sum. With slices of 512 the logits of real models had 1.5 times torch's error, with 256 they
// have the same; 128 would cost 4 % of the time. The slices, and so the bits of C, depend on K alone.
inline constexpr std::int64_t kSlice = 256;
// Rows of C per block, and the bytes of L2 that its packed A may take: fewer rows where K is long. Where even
// kLeastRows take more, A is packed slice by slice, again for every item.
inline constexpr std::int64_t kBlockRows = 96, kLeastRows = 48, kPackedBytes = 768 * 1024;

// The rows of a packed tile, rounded up to four: its stride from one k to the next.
constexpr std::size_t tile_stride(std::size_t rows) { return (rows + 3) / 4 * 4; }

// Numbers of a B of 16 bits, some of which lie in pairs, as the kernel of U takes them: row k of b [k][kStrip], or of
// [k / 2][kStrip] pairs, of which b is then the row that holds k.
template <class U, class S>
HWY_INLINE Vec<U> load_b(const S* b, std::size_t k) {
  if constexpr (std::is_same_v<U, S> || !std::is_same_v<S, Pair>) {
    return load_wide(b);
  } else {
    const Tag<Pair> d;
    const Vec<Pair> both = hn::LoadU(d, b);
    return hn::BitCast(Tag<U>(), k % 2 == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(d, ~0xffff)));
  }
}

// C [kRows][kVectors vectors] = (fresh ? 0 : C) + sum (+ bias).
template <class T, int kRows, std::size_t kVectors = 2>
HWY_INLINE void store_tile(const Vec<T> (&sum)[kRows][kVectors], bool fresh, const T* HWY_RESTRICT bias,
                           T* HWY_RESTRICT c, std::size_t c_stride) {
  const Tag<T> d;
  for (int r = 0; r < kRows; ++r) {
    for (std::size_t w = 0; w < kVectors; ++w) {
      T* to = c + r * c_stride + w * kLanes<T>;
      Vec<T> all = fresh ? sum[r][w] : hn::Add(hn::LoadU(d, to), sum[r][w]);
      if (bias != nullptr) all = hn::Add(all, hn::LoadU(d, bias + w * kLanes<T>));
      hn::StoreU(all, d, to);
    }
  }
}

// kRows rows x 2 vectors: C = (fresh ? 0 : C) + A B (+ bias), contracting n units. a [n][tile_stride(kRows)], b
// [n][kStrip] in its storage type S, bias [kStrip] or null, c [kRows][c_stride]. Prefetches C, which is needed at the
// end, and its share of the next strip of B: from `ahead` on, `step` bytes per k.
template <class U, int kRows, class S>
HWY_NOINLINE void gemm_tile(const U* HWY_RESTRICT a, const S* HWY_RESTRICT b, std::size_t n, bool fresh,
                            const Sum<U>* HWY_RESTRICT bias, Sum<U>* HWY_RESTRICT c, std::size_t c_stride,
                            const std::byte* ahead, std::size_t step) {
  using T = Sum<U>;
  const Tag<T> d;
  constexpr std::size_t kStride = tile_stride(kRows);
  constexpr bool kTakesPairsApart = std::is_same_v<S, Pair> && !std::is_same_v<U, Pair>;
  Vec<T> sum[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = sum[r][1] = hn::Zero(d);
    for (int w = 0; w < 2; ++w) __builtin_prefetch(c + r * c_stride + w * kLanes<T>);
  }
  for (std::size_t k = 0; k < n; ++k, a += kStride, ahead += step) {
    __builtin_prefetch(ahead);
    const Vec<U> left = load_b<U>(b, k), right = load_b<U>(b + kLanes<T>, k);
    for (int r = 0; r < kRows; ++r) {
      const Vec<U> factor = hn::Set(Tag<U>(), a[r]);
      sum[r][0] = multiply_add<U>(factor, left, sum[r][0]);
      sum[r][1] = multiply_add<U>(factor, right, sum[r][1]);
    }
    b += kTakesPairsApart && k % 2 == 0 ? 0 : kStrip<T>;
  }
  store_tile<T, kRows>(sum, fresh, bias, c, c_stride);
}

// The same for B in blocks, of kStrip rows that begin at `first`, contracting k: a piece is widened at a time, while
// the sums of the one before it wait for each other. Prefetches from `ahead` on as many bytes as it reads.
template <int kRows>
HWY_NOINLINE void gemm_tile_of_blocks(const float* HWY_RESTRICT a, const BlockFormat& format, const std::uint8_t* first,
                                      Range k, bool fresh, const float* HWY_RESTRICT bias, float* HWY_RESTRICT c,
                                      std::size_t c_stride, const std::byte* ahead) {
  const Tag<float> d;
  alignas(64) float wide[kMostInPiece * kStrip<float>];
  Vec<float> sum[kRows][2];
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  const std::int64_t step = piece_of(format.type), bytes = format.bytes * step / format.elements * kStripRows;
  for (std::int64_t begin = k.begin / step * step; begin < k.end; begin += step, ahead += bytes) {
    for (std::int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
    widen_blocks(format, first, {begin, begin + step}, wide);
    const std::int64_t from = std::max(begin, k.begin), to = std::min(begin + step, k.end);
    const float* b = wide + (from - begin) * static_cast<std::int64_t>(kStrip<float>);
    for (std::int64_t n = from; n < to; ++n, a += tile_stride(kRows), b += kStrip<float>) {
      const Vec<float> left = hn::Load(d, b), right = hn::Load(d, b + kLanes<float>);
      for (int r = 0; r < kRows; ++r) {
        const Vec<float> factor = hn::Set(d, a[r]);
        sum[r][0] = hn::MulAdd(factor, left, sum[r][0]);
        sum[r][1] = hn::MulAdd(factor, right, sum[r][1]);
      }
    }
  }
  store_tile<float, kRows>(sum, fresh, bias, c, c_stride);
}

// One row times one or two strips of blocks of one format, which are not written anywhere: their numbers are multiplied
// as they are made. The sums of one strip alone would wait for each other.
template <std::size_t kVectors>
struct AddMultiplied {
  const float* a;  // [k][stride]
  std::size_t stride;
  Vec<float> (&sum)[1][kVectors];

  HWY_INLINE void operator()(std::int64_t n, const Numbers<kVectors>& numbers) const {
    const Vec<float> factor = hn::Set(Tag<float>(), a[n * static_cast<std::int64_t>(stride)]);
    for (std::size_t v = 0; v < kVectors; ++v) sum[0][v] = hn::MulAdd(factor, numbers.of[v], sum[0][v]);
  }
};

template <BlockType kType, std::size_t kVectors>
HWY_NOINLINE void gemv_tile_of_blocks(const float* HWY_RESTRICT a, const BlockFormat& format,
                                      const std::uint8_t* (&first)[2], Range k, bool fresh,
                                      const float* HWY_RESTRICT bias, float* HWY_RESTRICT c, std::ptrdiff_t ahead) {
  constexpr std::int64_t kStep = piece_of(kType);
  constexpr auto kStride = static_cast<std::int64_t>(tile_stride(1));
  Vec<float> sum[1][kVectors];
  for (Vec<float>& each : sum[0]) each = hn::Zero(Tag<float>());
  const std::int64_t bytes = format.bytes * kStep / format.elements * kStripRows;
  for (std::int64_t begin = k.begin / kStep * kStep; begin < k.end; begin += kStep) {
    const std::uint8_t* blocks[2];
    for (std::size_t s = 0; s < 2; ++s) blocks[s] = first[s] + begin / format.elements * format.bytes * kStripRows;
    for (std::int64_t line = 0; line < bytes; line += 64) {
      for (std::size_t s = 0; s < kVectors / 2; ++s) __builtin_prefetch(blocks[s] + ahead + line);
    }
    const AddMultiplied<kVectors> add{a + (begin - k.begin) * kStride, tile_stride(1), sum};
    if (begin >= k.begin && begin + kStep <= k.end) {
      put_piece<kType>(RowsOfBlocks<kVectors>(blocks[0], blocks[1]), begin % format.elements / kStep, add);
      continue;
    }
    alignas(64) float wide[2][kStep * static_cast<std::int64_t>(kStrip<float>)];  // a slice may end within a piece
    for (std::size_t s = 0; s < kVectors / 2; ++s) {
      widen_rows<kType>(format, first[s], {begin, begin + kStep}, wide[s]);
    }
    for (std::int64_t n = std::max(begin, k.begin) - begin; n < std::min(kStep, k.end - begin); ++n) {
      add(n, for_vectors<kVectors>([&](std::size_t v) {
            return hn::Load(Tag<float>(),
                            wide[v / 2] + n * static_cast<std::int64_t>(kStrip<float>) + v % 2 * kLanes<float>);
          }));
    }
  }
  store_tile<float, 1, kVectors>(sum, fresh, bias, c, 0);
}

inline DType b_type_of(const kernels::GemmProblem& problem) {
  return problem.packed == nullptr ? problem.b.dtype() : problem.packed->strips.dtype();
}

// How a problem is cut into blocks of rows and parts of strips, so many that all members have work. An item is one part
// of one block. K counts units.
template <class U>
struct GemmPlan {
  using T = Sum<U>;

  GemmPlan(const kernels::GemmProblem& given, int members)
      : problem(given),
        M(given.c.shape(0)),
        N(given.c.shape(1)),
        K(divide_up(given.a.shape(1), kDepth<U>)),
        pairs_b(kMultipliesPairs && b_type_of(given) == DType::bf16),
        strips(divide_up(N, kStrip<T>)),
        slices(std::max<std::int64_t>(1, divide_up(K, kSlice))),
        slice_step(pairs_b ? 2 / kDepth<U> : 1),
        in_place(given.c.dtype() == dtype_of<T>) {
    constexpr auto kPacked = kPackedBytes / static_cast<std::int64_t>(sizeof(U));
    keeps_a = K <= kPacked / kLeastRows;
    blocks = divide_up(M, keeps_a ? std::min(kBlockRows, kPacked / std::max<std::int64_t>(K, 1)) : kBlockRows);
    if (blocks == 0 || strips == 0) return;
    // Members that share a block each pack its A: few strips are not worth that.
    blocks = std::max(blocks, std::min(divide_up(M, kTileRows), kStripsPerPacking * members / strips));
    // Unless blocks are few, every member gets the same number: otherwise some would repack what others have packed.
    if (2 * blocks > members) blocks = std::min(divide_up(M, kTileRows), divide_up(blocks, members) * members);
    const std::int64_t wanted = members == 1 ? 1 : divide_up(kItemsPerMember * members, blocks);
    parts = std::clamp(wanted, in_place ? 1 : divide_up(strips, kSummedStrips),
                       pairs_strips() ? divide_up(strips, 2) : strips);
    block_rows = divide_up(M, blocks);
    part_strips = divide_up(strips, parts);
  }

  std::int64_t items() const { return blocks * parts; }
  Range slice_of(std::int64_t slice) const {
    const Range steps = part_of(divide_up(K, slice_step), slice, slices);
    return {steps.begin * slice_step, std::min(K, steps.end * slice_step)};
  }
  // The most that a slice contracts, if there are as many as this.
  std::int64_t longest_slice() const { return divide_up(divide_up(K, slice_step), slices) * slice_step; }
  // B [K,N] is a matrix [N,K] of blocks, whose strips are read as they lie.
  bool b_has_blocks() const { return problem.b.present() && problem.b.dtype() == DType::blocks; }
  // One row is multiplied by two strips of blocks at a time.
  bool pairs_strips() const { return b_has_blocks() && M == 1; }
  // A B of 16 bits or blocks is widened as few rows are multiplied by it; for more, each slice of a strip is widened
  // once.
  bool widens_b() const {
    if (b_has_blocks()) return block_rows > kFewRows;
    return problem.packed != nullptr && b_type_of(problem) != dtype_of<T> && !std::is_same_v<U, Pair> &&
           block_rows > kFewRows;
  }

  // Enough that a delayed thread does not delay the others.
  static constexpr std::int64_t kItemsPerMember = 32;
  // Strips that make packing A worth its while: packing a number costs as much as some twenty multiplications.
  static constexpr std::int64_t kStripsPerPacking = 6;
  static constexpr std::int64_t kFewRows = 4;
  // Strips of C that may stay in L2 until they are narrowed.
  static constexpr std::int64_t kSummedStrips = 16;

  const kernels::GemmProblem& problem;
  std::int64_t M, N, K;
  // B is, or would be, packed in pairs, even if the kernel multiplies f32: slices then are of whole pairs.
  bool pairs_b;
  std::int64_t strips, slices, slice_step;
  bool in_place;         // sums are formed in C itself
  bool keeps_a = false;  // all slices of A stay packed
  std::int64_t blocks = 0, parts = 0, block_rows = 0, part_strips = 0;
};

// How many parts of every block the members have claimed.
class GemmClaims {
 public:
  template <class U>
  explicit GemmClaims(const GemmPlan<U>& plan)
      : blocks_(plan.blocks),
        parts_(plan.parts),
        claimed_(std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(plan.blocks))) {}

  // Claims a part of this block, or of the next that has one left. Never returns if called more often than items().
  std::int64_t next(std::int64_t& block) const {
    for (;; block = block + 1 < blocks_ ? block + 1 : 0) {
      std::atomic<std::int64_t>& claimed = claimed_[static_cast<std::size_t>(block)];
      if (claimed.load(std::memory_order_relaxed) >= parts_) continue;
      if (const std::int64_t part = claimed.fetch_add(1, std::memory_order_relaxed); part < parts_) return part;
    }
  }

 private:
  std::int64_t blocks_, parts_;
  std::unique_ptr<std::atomic<std::int64_t>[]> claimed_;
};

// The memory of one member.
template <class U>
struct GemmWorkspace {
  using T = Sum<U>;

  GemmWorkspace(Carver& carver, const GemmPlan<U>& plan)
      : a(carver.take<U>(static_cast<std::size_t>(divide_up(plan.block_rows, kTileRows) *
                                                  (plan.keeps_a ? plan.K : plan.longest_slice())) *
                         tile_stride(kTileRows))),
        widened(carver.take<U>(std::max<std::size_t>(kStrip<T>, kTileRows) * kWidened)),
        bias(carver.take<T>(static_cast<std::size_t>(plan.part_strips) * kStrip<T>)),
        sums(carver.take<T>(static_cast<std::size_t>((plan.in_place ? 1 : plan.part_strips) * plan.block_rows) *
                            kStrip<T>)),
        b(carver.take<T>(plan.widens_b() ? kMostWidened * kStrip<T> : 0)) {}

  U* a;        // [slice][tile][k][tile_stride]
  U* widened;  // [lines][kWidened]
  T* bias;     // [strip][kStrip]
  T* sums;     // [strip][rows][kStrip]: strips that are not summed up in C
  T* b;        // [k][kStrip]: a slice of a strip of 16-bit numbers, or the blocks that it lies in, widened

 private:
  static constexpr std::int64_t kMostWidened = kSlice + 2 * kMostInPiece;
};

// What one member does. It begins at a block of its own and stays with it while parts are left, for its A stays packed.
// With one order of items for all, 16 members packed the same rows 16 times.
template <class U>
class GemmWork {
  using T = Sum<U>;

 public:
  GemmWork(const GemmPlan<U>& plan, const GemmClaims& claims, const void* b, DType b_type,
           const GemmWorkspace<U>& workspace, std::int64_t first_block)
      : plan_(plan),
        problem_(plan.problem),
        claims_(claims),
        b_(static_cast<const std::byte*>(b)),
        b_type_(b_type),
        blocks_(plan.b_has_blocks() ? std::optional(BlockMatrix(problem_.b.transpose(0, 1))) : std::nullopt),
        w_(workspace),
        block_(first_block) {}

  void operator()(std::int64_t) {
    strips_ = part_of(plan_.strips, claims_.next(block_), plan_.parts);
    rows_ = part_of(plan_.M, block_, plan_.blocks);
    const bool packed = plan_.keeps_a && block_ == packed_block_;
    packed_block_ = block_;
    if (problem_.bias.present()) copy_bias();
    for (std::int64_t slice = 0; slice < plan_.slices; ++slice) {
      if (!packed) pack_a(slice_of(slice));
      for (std::int64_t strip = strips_.begin; strip < strips_.end; strip += multiply(slice, strip)) {
      }
    }
    for (std::int64_t strip = strips_.begin; strip < strips_.end; ++strip) {
      if (!summed_in_place(strip)) store(strip);
    }
  }

 private:
  std::size_t tiles() const { return static_cast<std::size_t>(divide_up(rows_.end - rows_.begin, kTileRows)); }
  Range slice_of(std::int64_t slice) const { return plan_.slice_of(slice); }
  std::int64_t columns_of(std::int64_t strip) const {
    return std::min<std::int64_t>(kStrip<T>, plan_.N - strip * static_cast<std::int64_t>(kStrip<T>));
  }
  bool summed_in_place(std::int64_t strip) const { return plan_.in_place && columns_of(strip) == kStrip<T>; }

  // The packed A of a tile: [k][tile_stride].
  U* a_of(Range k, std::size_t tile) const {
    const std::size_t before = plan_.keeps_a ? static_cast<std::size_t>(k.begin) * tiles() : 0;
    return w_.a + (before + tile * k.size()) * tile_stride(kTileRows);
  }
  T* c_of(std::int64_t row, std::int64_t strip) const {
    return static_cast<T*>(problem_.c.data()) + row * problem_.c.stride(0) + strip * kStrip<T>;
  }
  T* sums_of(std::int64_t strip) const {
    return w_.sums + (plan_.in_place ? 0 : strip - strips_.begin) * plan_.block_rows * kStrip<T>;
  }

  // If A is stored column by column, packs a few k of all tiles at a time, so that it reads memory in order.
  void pack_a(Range k) {
    const std::int64_t step = problem_.a.stride(1) == 1 ? std::max<std::int64_t>(k.end - k.begin, 1) : 16;
    for (std::int64_t begin = k.begin; begin < k.end; begin += step) {
      const Range some{begin, std::min(begin + step, k.end)};
      std::size_t tile = 0;
      for_register_tiles(rows_.size(), [&](std::size_t first, auto height) {
        const std::int64_t row = rows_.begin + static_cast<std::int64_t>(first);
        U* to = a_of(k, tile++) + (begin - k.begin) * static_cast<std::int64_t>(tile_stride(height));
        pack_lines<U>(problem_.a, {row, row + height}, some, w_.widened, to, tile_stride(height));
      });
    }
  }

  // The last strip is filled up with 0.
  void copy_bias() {
    const std::int64_t begin = strips_.begin * static_cast<std::int64_t>(kStrip<T>);
    const std::int64_t end = std::min(strips_.end * static_cast<std::int64_t>(kStrip<T>), plan_.N);
    const ConstTensorView bias = problem_.bias.slice(0, begin, end);
    widen(bias.data(), bias.dtype(), static_cast<std::size_t>(end - begin), w_.bias);
    std::fill(w_.bias + (end - begin), w_.bias + (strips_.end - strips_.begin) * kStrip<T>, T{0});
  }

  // Strips of blocks are as wide as several of the kernel's, or as one.
  const BlockFormat& format_of(std::int64_t strip) const {
    return blocks_->format_of_strip(strip * static_cast<std::int64_t>(kStrip<T>) / kStripRows);
  }
  const std::uint8_t* first_of(std::int64_t strip) const {
    const std::int64_t row = strip * static_cast<std::int64_t>(kStrip<T>);
    return blocks_->strip(row / kStripRows) + row % kStripRows;
  }

  const std::byte* b_of(std::int64_t slice, std::int64_t strip) const {
    if (blocks_) {
      const BlockFormat& format = format_of(strip);
      return reinterpret_cast<const std::byte*>(first_of(strip) +
                                                slice_of(slice).begin / format.elements * format.bytes * kStripRows);
    }
    const std::int64_t K = b_type_ == DType::bf16 ? divide_up(plan_.K, plan_.slice_step) * plan_.slice_step : plan_.K;
    const std::int64_t at = (strip * K + slice_of(slice).begin) * static_cast<std::int64_t>(kStrip<T>);
    return b_ + at * static_cast<std::int64_t>(size_of(b_type_));
  }
  std::size_t bytes_per_k(std::int64_t strip) const {
    if (!blocks_) return kStrip<T> * size_of(b_type_);
    const BlockFormat& format = format_of(strip);
    return static_cast<std::size_t>(format.bytes * kStripRows / format.elements);
  }
  // The part of B that is read next: the next strip, the first strip of the next slice, or the strip after the item's
  // last, which is the likeliest to be claimed next.
  const std::byte* after(std::int64_t slice, std::int64_t strip) const {
    if (strip + 1 < strips_.end) return b_of(slice, strip + 1);
    if (slice + 1 < plan_.slices) return b_of(slice + 1, strips_.begin);
    return b_of(0, strip + 1 < plan_.strips ? strip + 1 : 0);
  }

  // Multiplies all rows of the block by one slice of one strip, or of as many as it says.
  std::int64_t multiply(std::int64_t slice, std::int64_t strip) {
    if constexpr (std::is_same_v<U, float>) {
      if (plan_.pairs_strips()) return multiply_row_by_blocks(slice, strip);
    }
    multiply_one(slice, strip);
    return 1;
  }
  void multiply_one(std::int64_t slice, std::int64_t strip) {
    const Range k = slice_of(slice);
    const std::byte *b = b_of(slice, strip), *ahead = after(slice, strip);
    if (b_type_ == dtype_of<U>) return multiply_by(slice, strip, reinterpret_cast<const U*>(b), ahead);
    if constexpr (std::is_same_v<U, float>) {
      using Half = std::conditional_t<kMultipliesPairs, Pair, bfloat16>;
      if (blocks_) return multiply_by_blocks(slice, strip, ahead);
      if (plan_.widens_b()) {
        widen_b(b, k.size());
        return multiply_by(slice, strip, w_.b, ahead);
      }
      if (b_type_ == DType::bf16) return multiply_by(slice, strip, reinterpret_cast<const Half*>(b), ahead);
      multiply_by(slice, strip, reinterpret_cast<const float16*>(b), ahead);
    }
  }

  // w_.b [n][kStrip] = 16-bit numbers.
  void widen_b(const std::byte* b, std::size_t n) {
    if (!plan_.pairs_b) return widen(b, b_type_, n * kStrip<T>, w_.b);
    const auto* pairs = reinterpret_cast<const Pair*>(b);
    for (std::size_t k = 0; k < n; k += 2, pairs += kStrip<T>) unzip(pairs, kStrip<T>, w_.b + k * kStrip<T>);
  }

  void multiply_by_blocks(std::int64_t slice, std::int64_t strip, const std::byte* ahead) {
    const Range k = slice_of(slice);
    const BlockFormat& format = format_of(strip);
    if (!plan_.widens_b()) {
      const Target to = target_of(slice, strip);
      return with_height<GemmPlan<U>::kFewRows>(static_cast<int>(rows_.size()), 0, [&](std::size_t, auto height) {
        gemm_tile_of_blocks<decltype(height)::value>(a_of(k, 0), format, first_of(strip), k, slice == 0, to.bias, to.c,
                                                     to.c_stride, ahead);
      });
    }
    const std::int64_t step = piece_of(format.type);
    const Range whole{k.begin / step * step, divide_up(k.end, step) * step};
    widen_blocks(format, first_of(strip), whole, w_.b);
    multiply_by(slice, strip, w_.b + (k.begin - whole.begin) * static_cast<std::int64_t>(kStrip<T>), ahead);
  }

  std::int64_t multiply_row_by_blocks(std::int64_t slice, std::int64_t strip) {
    const Range k = slice_of(slice);
    const BlockFormat& format = format_of(strip);
    const bool two = strip + 1 < strips_.end && &format_of(strip + 1) == &format &&
                     summed_in_place(strip) == summed_in_place(strip + 1);
    const std::uint8_t* first[2] = {first_of(strip), first_of(two ? strip + 1 : strip)};
    const Target to = target_of(slice, strip);
    const std::int64_t next = strip + (two ? 2 : 1);
    const std::ptrdiff_t ahead = next < plan_.strips && &format_of(next) == &format ? first_of(next) - first[0] : 0;
    with_type(format.type, [&](auto type) {
      constexpr BlockType kType = decltype(type)::value;
      two ? gemv_tile_of_blocks<kType, 4>(a_of(k, 0), format, first, k, slice == 0, to.bias, to.c, ahead)
          : gemv_tile_of_blocks<kType, 2>(a_of(k, 0), format, first, k, slice == 0, to.bias, to.c, ahead);
    });
    return next - strip;
  }

  // Where sums of a slice of a strip go, and the bias, which is added with the last slice.
  struct Target {
    const T* bias;
    T* c;
    std::size_t c_stride;
  };
  Target target_of(std::int64_t slice, std::int64_t strip) const {
    const bool biased = problem_.bias.present() && slice + 1 == plan_.slices;
    const T* bias = biased ? w_.bias + (strip - strips_.begin) * kStrip<T> : nullptr;
    if (!summed_in_place(strip)) return {bias, sums_of(strip), kStrip<T>};
    return {bias, c_of(rows_.begin, strip), static_cast<std::size_t>(problem_.c.stride(0))};
  }

  // The same with b [k][kStrip] of type S.
  template <class S>
  void multiply_by(std::int64_t slice, std::int64_t strip, const S* b, const std::byte* ahead) {
    const Range k = slice_of(slice);
    const Target to = target_of(slice, strip);
    const bool fresh = slice == 0;
    const std::size_t step = bytes_per_k(strip) / tiles();
    std::size_t tile = 0;
    const auto run = [&](std::size_t first, auto height) {
      gemm_tile<U, decltype(height)::value>(a_of(k, tile++), b, k.size(), fresh, to.bias, to.c + first * to.c_stride,
                                            to.c_stride, ahead, step);
      ahead += step * k.size();
    };
    if constexpr (std::is_same_v<S, U>) {
      for_register_tiles(rows_.size(), run);
    } else {
      with_height<GemmPlan<U>::kFewRows>(static_cast<int>(rows_.size()), 0, run);
    }
  }

  // Copies sums that were not formed in C to C.
  void store(std::int64_t strip) {
    const T* sums = sums_of(strip);
    const auto columns = static_cast<std::size_t>(columns_of(strip));
    for (std::int64_t row = rows_.begin; row < rows_.end; ++row, sums += kStrip<T>) {
      const std::int64_t at = row * problem_.c.stride(0) + strip * static_cast<std::int64_t>(kStrip<T>);
      const auto size = static_cast<std::int64_t>(size_of(problem_.c.dtype()));
      narrow(sums, columns, static_cast<std::byte*>(problem_.c.data()) + at * size, problem_.c.dtype());
    }
  }

  const GemmPlan<U>& plan_;
  const kernels::GemmProblem& problem_;
  const GemmClaims& claims_;
  const std::byte* b_;  // [strip][K][kStrip], unless it has blocks
  DType b_type_;
  std::optional<BlockMatrix> blocks_;
  GemmWorkspace<U> w_;
  Range rows_{}, strips_{};
  std::int64_t block_, packed_block_ = -1;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
