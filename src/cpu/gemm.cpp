// Products of matrices on the CPU: packing, the list of work items, and one compilation per vector instruction set.
#include "cpu/gemm.h"

#include "cpu/kernels.h"
#include "cpu/split.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// to [k][kStrip] = some columns of B, both of the 16-bit type `dtype`; by way of T, which loses nothing.
template <class T>
void pack_halves(const ConstTensorView& columns, Range lines, Range k, T* widened, DType dtype, std::byte* to) {
  alignas(64) T strip[kStrip<T> * kWidened] = {};
  for (Range some{k.begin, k.begin}; some.begin < k.end; some.begin = some.end) {
    some.end = std::min<std::int64_t>(k.end, some.begin + kWidened);
    pack_lines<T>(columns, lines, some, widened, strip, kStrip<T>);
    const std::size_t count = some.size() * kStrip<T>;
    narrow(strip, count, to, dtype);
    to += count * size_of(dtype);
  }
}

// to [strips][K][kStrip] = B [K,N] in T, K then counting units, or in 16 bits as B is; the last strip is filled up with
// 0.
template <class T>
void pack_b(Team& team, const ConstTensorView& b, DType dtype, void* to) {
  const std::int64_t K = divide_up(b.shape(0), kDepth<T>), N = b.shape(1), strips = divide_up(N, kStrip<T>);
  if (b.count() == 0) return;
  const ConstTensorView columns = b.transpose(0, 1);
  const int members = members_for(team, static_cast<double>(b.count()) / kMovedPerThread);
  // Narrow matrices are cut along K, too, so that every member has work.
  const std::int64_t parts = std::clamp<std::int64_t>(divide_up(2 * members, strips), 1, divide_up(K, kWidened));
  team.for_each(strips * parts, 1, members, [&](int) {
    return [&, K, N, dtype, to](std::int64_t item) {
      alignas(64) T widened[kStrip<T> * kWidened];
      const std::int64_t begin = item / parts * static_cast<std::int64_t>(kStrip<T>);
      const Range lines{begin, std::min<std::int64_t>(N, begin + kStrip<T>)}, k = part_of(K, item % parts, parts);
      const std::int64_t at = begin * K + k.begin * static_cast<std::int64_t>(kStrip<T>);
      if constexpr (!std::is_same_v<T, Pair>) {
        std::byte* half = static_cast<std::byte*>(to) + at * static_cast<std::int64_t>(size_of(dtype));
        if (dtype != dtype_of<T>) return pack_halves<T>(columns, lines, k, widened, dtype, half);
      }
      T* out = static_cast<T*>(to) + at;
      if (lines.size() < kStrip<T>) std::fill_n(out, k.size() * kStrip<T>, T{0});
      pack_lines<T>(columns, lines, k, widened, out, kStrip<T>);
    };
  });
}

// A product whose B was packed beforehand or is small enough to be packed as a whole.
template <class U>
void gemm_at_once(Team& team, const kernels::GemmProblem& problem) {
  const double work = static_cast<double>(problem.c.count()) * static_cast<double>(problem.a.shape(1));
  const int members = members_for(team, work / kWorkPerThread);
  const GemmPlan<U> plan(problem, members);
  // Takes all memory before any result is written, so that a failure leaves C untouched. B lies behind the workspace of
  // member 0.
  Carver measure(nullptr);
  GemmWorkspace<U>(measure, plan);
  const std::size_t workspace = measure.used();
  const bool packs = problem.packed == nullptr && !plan.b_has_blocks();
  if (packs) measure.take<U>(static_cast<std::size_t>(plan.strips * plan.K) * kStrip<U>);
  std::byte* own = team.scratch(0).reserve(measure.used());
  for (int member = 1; member < members; ++member) team.scratch(member).reserve(workspace);
  U* b_memory = reinterpret_cast<U*>(own + workspace);
  if (packs) pack_b<U>(team, problem.b, dtype_of<U>, b_memory);
  const void* b = problem.packed == nullptr ? b_memory : problem.packed->strips.view().data();
  const DType b_type = packs || std::is_same_v<U, Pair> ? dtype_of<U> : b_type_of(problem);
  const GemmClaims claims(plan);
  team.for_each(plan.items(), 1, members, [&](int member) {
    return GemmWork<U>(plan, claims, b, b_type, carve<GemmWorkspace<U>>(team.scratch(member), plan),
                       member * plan.blocks / members);
  });
}

// If packing all of B would take more memory than this, the size of a cache that threads share, the product is made
// some columns at a time. The first part is the widest, so that no later one can fail for lack of memory.
inline constexpr std::int64_t kPackedBytesOfB = 32 << 20;

template <class U>
std::int64_t columns_at_once(std::int64_t K) {
  const std::int64_t units = std::max<std::int64_t>(divide_up(K, kDepth<U>), 1);
  const std::int64_t strip_bytes = units * static_cast<std::int64_t>(kStrip<U> * sizeof(U));
  return std::max<std::int64_t>(1, kPackedBytesOfB / strip_bytes) * static_cast<std::int64_t>(kStrip<U>);
}

template <class U>
void gemm_as(Team& team, const kernels::GemmProblem& problem) {
  const std::int64_t N = problem.c.shape(1), columns = columns_at_once<U>(problem.a.shape(1));
  if (problem.packed != nullptr || N <= columns) return gemm_at_once<U>(team, problem);
  for (std::int64_t begin = 0; begin < N; begin += columns) {
    const std::int64_t end = std::min(N, begin + columns);
    kernels::GemmProblem part = problem;
    part.b = problem.b.slice(1, begin, end);
    part.c = problem.c.slice(1, begin, end);
    if (problem.bias.present()) part.bias = problem.bias.slice(0, begin, end);
    gemm_at_once<U>(team, part);
  }
}

// to [strips][K][kStrip] = these columns of a B [K,N] of blocks, whose rows lie along N, as in a gradient of inputs.
// columns.begin is a multiple of the largest block.
void pack_columns_of_blocks(Team& team, const ConstTensorView& b, Range columns, float* to) {
  const BlockMatrix matrix(b);
  constexpr auto width = static_cast<std::int64_t>(kStrip<float>);
  const std::int64_t K = b.shape(0), groups = divide_up(K, width),
                     pieces = divide_up(columns.end - columns.begin, kMostInBlock);
  const int members = members_for(team, static_cast<double>(K * (columns.end - columns.begin)) / kMovedPerThread);
  team.for_each(pieces * groups, 1, members, [&](int) {
    return [&, K, columns, groups, to](std::int64_t item) {
      alignas(64) float wide[kMostInBlock * width];
      const std::int64_t row = item % groups * width, begin = columns.begin + item / groups * kMostInBlock;
      const Range piece{begin, std::min(columns.end, begin + kMostInBlock)};
      const std::uint8_t* first = matrix.strip(row / kStripRows) + row % kStripRows;
      widen_blocks(matrix.format_of_row(row), first, piece, wide);
      for (std::int64_t column = piece.begin; column < piece.end; column += width) {
        transpose(wide + (column - piece.begin) * width, width, width,
                  static_cast<std::size_t>(std::min(width, K - row)), 1.0f,
                  to + (column - columns.begin) * K + row * width, width);
      }
    };
  });
}

// C = A B for such a B, some columns at a time.
void gemm_by_rows_of_blocks(Team& team, const kernels::GemmProblem& problem) {
  const std::int64_t N = problem.c.shape(1), K = problem.a.shape(1);
  const std::int64_t columns = std::max<std::int64_t>(1, columns_at_once<float>(K) / kMostInBlock) * kMostInBlock;
  for (std::int64_t begin = 0; begin < N; begin += columns) {
    const std::int64_t end = std::min(N, begin + columns), width = kStrip<float>;
    kernels::PackedMatrix packed{.strips = Tensor::empty({divide_up(end - begin, width), K, width}, DType::f32),
                                 .target = HWY_TARGET};
    pack_columns_of_blocks(team, problem.b, {begin, end}, packed.strips.as<float>());
    kernels::GemmProblem part = problem;
    part.b = {};
    part.packed = &packed;
    part.c = problem.c.slice(1, begin, end);
    if (problem.bias.present()) part.bias = problem.bias.slice(0, begin, end);
    gemm_at_once<float>(team, part);
  }
}

#if HWY_TARGET == HWY_AVX3_DL
// Are both operands bf16, or rounded to it?
bool takes_pairs(const kernels::GemmProblem& problem, kernels::Products products) {
  const bool packed = problem.packed != nullptr;
  const bool rounds = products == kernels::Products::coarse || (packed && problem.packed->rounds);
  const auto fits = [&](DType dtype) { return dtype == DType::bf16 || (rounds && dtype == DType::f32); };
  return fits(problem.a.dtype()) && (packed ? b_type_of(problem) == DType::bf16 : fits(b_type_of(problem)));
}
#endif

void gemm(Team& team, const kernels::GemmProblem& problem, [[maybe_unused]] kernels::Products products) {
  if (problem.b.present() && problem.b.dtype() == DType::blocks) {
    return problem.b.stride(0) == 1 ? gemm_at_once<float>(team, problem) : gemm_by_rows_of_blocks(team, problem);
  }
  if (problem.packed != nullptr && problem.packed->target != HWY_TARGET) {
    throw Error(ErrorCode::layout, "gemm", "B was packed for another vector target than the one in use");
  }
#if HWY_TARGET == HWY_AVX3_DL
  if (takes_pairs(problem, products)) return gemm_as<Pair>(team, problem);
#endif
  problem.a.dtype() == DType::f64 ? gemm_as<double>(team, problem) : gemm_as<float>(team, problem);
}

template <class T>
kernels::PackedMatrix pack_as(Team& team, const ConstTensorView& b) {
  const std::int64_t width = kStrip<T>;
  kernels::PackedMatrix packed{.strips = Tensor::empty({divide_up(b.shape(1), width), b.shape(0), width}, b.dtype()),
                               .target = HWY_TARGET};
  pack_b<T>(team, b, b.dtype(), packed.strips.view().data());
  return packed;
}

#if HWY_TARGET == HWY_AVX3_DL
// [strips][pairs of K][kStrip][2]
kernels::PackedMatrix pack_pairs(Team& team, const ConstTensorView& b) {
  const std::int64_t width = kStrip<Pair>, strips = divide_up(b.shape(1), width);
  kernels::PackedMatrix packed{.strips = Tensor::empty({strips, divide_up(b.shape(0), 2), 2 * width}, DType::bf16),
                               .target = HWY_TARGET,
                               .rounds = b.dtype() == DType::f32};
  pack_b<Pair>(team, b, dtype_of<Pair>, packed.strips.view().data());
  return packed;
}
#endif

kernels::PackedMatrix pack(Team& team, const ConstTensorView& b, kernels::Products products) {
  const bool rounds = b.dtype() == DType::f32 && products == kernels::Products::coarse;
#if HWY_TARGET == HWY_AVX3_DL
  if (rounds || b.dtype() == DType::bf16) return pack_pairs(team, b);
#endif
  if (rounds) {
    Tensor rounded = Tensor::empty(b.transpose(0, 1).shape(), DType::bf16);
    copy(team, b.transpose(0, 1), rounded);
    return pack_as<float>(team, rounded.view().transpose(0, 1));
  }
  return b.dtype() == DType::f64 ? pack_as<double>(team, b) : pack_as<float>(team, b);
}

// sums [kVectors vectors] += the sum of `rows` rows of x, which is formed in registers first.
template <class T, std::size_t kVectors>
HWY_INLINE void add_rows(const T* x, std::ptrdiff_t stride, std::int64_t rows, T* sums) {
  const Tag<T> d;
  Vec<T> block[kVectors];
  for (auto& sum : block) sum = hn::Zero(d);
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
    for (std::size_t i = 0; i < kVectors; ++i) block[i] = hn::Add(block[i], hn::LoadU(d, x + i * kLanes<T>));
  }
  for (std::size_t i = 0; i < kVectors; ++i) {
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i * kLanes<T>), block[i]), d, sums + i * kLanes<T>);
  }
}

inline constexpr std::int64_t kSummedFirst = 64;  // rows that are summed before they join the total, which rounds less

// sums [columns] = the sum of the rows of x, of type T, four vectors of columns at a time.
template <class T>
void sum_columns(const ConstTensorView& x, Range columns, T* sums) {
  constexpr std::size_t kWide = 4;
  std::fill_n(sums, columns.size(), T{0});
  for (std::int64_t first = 0; first < x.shape(0); first += kSummedFirst) {
    const std::int64_t rows = std::min(kSummedFirst, x.shape(0) - first), stride = x.stride(0);
    const T* from = reinterpret_cast<const T*>(element(x, first, columns.begin));
    std::size_t c = 0;
    for (; c + kWide * kLanes<T> <= columns.size(); c += kWide * kLanes<T>) {
      add_rows<T, kWide>(from + c, stride, rows, sums + c);
    }
    for (; c + kLanes<T> <= columns.size(); c += kLanes<T>) add_rows<T, 1>(from + c, stride, rows, sums + c);
    for (; c < columns.size(); ++c) {
      T block = 0;
      for (std::int64_t r = 0; r < rows; ++r) block += from[r * stride + static_cast<std::int64_t>(c)];
      sums[c] += block;
    }
  }
}

// The same of 16-bit numbers.
template <class T>
void sum_widened_columns(const ConstTensorView& x, Range columns, T* sums) {
  constexpr std::size_t kColumns = 8 * kLanes<T>;
  alignas(64) T block[kColumns], row[kColumns];
  std::fill_n(sums, columns.size(), T{0});
  for (std::int64_t first = 0; first < x.shape(0); first += kSummedFirst) {
    std::fill_n(block, columns.size(), T{0});
    for (std::int64_t r = first; r < std::min(first + kSummedFirst, x.shape(0)); ++r) {
      widen(element(x, r, columns.begin), x.dtype(), columns.size(), row);
      for (std::size_t e = 0; e < columns.size(); ++e) block[e] += row[e];
    }
    for (std::size_t e = 0; e < columns.size(); ++e) sums[e] += block[e];
  }
}

template <class T>
void column_sums_as(Team& team, const ConstTensorView& x, const TensorView& sums) {
  const std::int64_t N = x.shape(1), lanes = kLanes<T>, widest = 8 * kLanes<T>;
  const int members = members_for(team, static_cast<double>(x.count()) / kMovedPerThread);
  const std::int64_t width = std::clamp(divide_up(N, members * lanes) * lanes, lanes, widest);
  team.for_shares(divide_up(N, width), 1, members, [&](int) {
    return [&](std::int64_t item) {
      const Range columns{item * width, std::min(N, (item + 1) * width)};
      alignas(64) T found[8 * kLanes<T>];
      x.dtype() == dtype_of<T> ? sum_columns(x, columns, found) : sum_widened_columns(x, columns, found);
      narrow(found, columns.size(), sums.slice(0, columns.begin, columns.end).data(), sums.dtype());
    };
  });
}

void column_sums(Team& team, const ConstTensorView& x, const TensorView& sums) {
  x.dtype() == DType::f64 ? column_sums_as<double>(team, x, sums) : column_sums_as<float>(team, x, sums);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

HWY_EXPORT(gemm);
HWY_EXPORT(pack);
HWY_EXPORT(column_sums);

void gemm(Team& team, const kernels::GemmProblem& given, kernels::Products products) {
  kernels::GemmProblem problem = given;
  if (given.before_gelu.present()) problem.c = given.before_gelu;
  choose_target();
  HWY_DYNAMIC_DISPATCH(gemm)(team, problem, products);
  if (given.plus.present()) elementwise(team, {kernels::Elementwise::add, given.plus, problem.c, problem.c});
  if (given.before_gelu.present()) elementwise(team, {kernels::Elementwise::gelu, problem.c, {}, given.c});
}

void gemm(Team& team, const kernels::GemmProblem& problem) { gemm(team, problem, kernels::Products::exact); }

kernels::PackedMatrix pack(Team& team, const ConstTensorView& b, kernels::Products products) {
  choose_target();
  return HWY_DYNAMIC_DISPATCH(pack)(team, b, products);
}

void column_sums(Team& team, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(column_sums)(team, x, sums);
  if (rounded.present()) copy(team, x, rounded);
}

}  // namespace polyhead::cpu
#endif
