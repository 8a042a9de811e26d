// Products of up to four rows: a warp has two or four columns of y, that is rows of the weights, which it reads 16
// bytes a lane at a time, several pieces ahead. What they are multiplied with is read from the cache, and normalised or
// gated on the way. Where all blocks run at once, weights are asked for before the kernel waits for the one before it:
// they come from far, and asking early takes nothing from anybody.
#include "cuda/kernels.h"
#include "cuda/portable/activations.cuh"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;
using Input = kernels::GemvProblem::Input;

constexpr int kMostRows = 4, kWarps = 4, kThreads = 32 * kWarps;

struct GemvArguments {
  const void *x, *weights;  // [M,K] or [M,2K], [N,K]
  std::int64_t x_stride, weight_stride;
  const float* gamma;  // [K]
  float epsilon;
  bool silu;  // else GELU
  bool asks_early;
  int M, N, K;
  const void *bias, *plus;  // [N], [M,N] in y's type, or null
  void* y;
  DType y_type;
  std::int64_t y_stride;
};

// kCount numbers, which lie at a multiple of 16 bytes and fill one.
template <class T, int kCount>
struct alignas(16) Piece {
  std::uint32_t words[kCount * sizeof(T) / 4];

  __device__ static Piece of(const T* from) { return *reinterpret_cast<const Piece*>(from); }
  __device__ void get(float (&x)[kCount]) const {
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = __uint_as_float(words[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) get_pair(words[i / 2], x[i], x[i + 1], T{});
    }
  }

 private:
  // bf16 is the upper half of f32: an instruction each, where the conversion of a number in memory takes two.
  __device__ static void get_pair(std::uint32_t word, float& low, float& high, __nv_bfloat16) {
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
  }
  __device__ static void get_pair(std::uint32_t word, float& low, float& high, __half) {
    __half both[2];
    std::memcpy(both, &word, sizeof word);
    low = __half2float(both[0]);
    high = __half2float(both[1]);
  }
};

// A row of what the weights are multiplied with: get() gives some of its columns.
template <class X>
struct PlainRow {
  static constexpr bool kHasSquares = false;
  const X* x = nullptr;
  PlainRow() = default;
  __device__ PlainRow(const GemvArguments& g, int m) : x(static_cast<const X*>(g.x) + m * g.x_stride) {}
  template <int kCount>
  __device__ void get(int k, float (&out)[kCount]) {
    Piece<X, kCount>::of(x + k).get(out);
  }
};

template <class X>
struct NormRow : PlainRow<X> {  // except for the factor that all columns share, which follows from the squares
  static constexpr bool kHasSquares = true;
  const float* gamma = nullptr;
  float square = 0;  // of the columns that were given
  NormRow() = default;
  __device__ NormRow(const GemvArguments& g, int m) : PlainRow<X>(g, m), gamma(g.gamma) {}
  template <int kCount>
  __device__ void get(int k, float (&out)[kCount]) {
    PlainRow<X>::get(k, out);
    float factors[kCount];
    Piece<float, kCount>::of(gamma + k).get(factors);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      square = fmaf(out[i], out[i], square);
      out[i] *= factors[i];
    }
  }
};

template <class X>
struct GatedRow : PlainRow<X> {
  int columns = 0;
  bool silu = false;
  GatedRow() = default;
  __device__ GatedRow(const GemvArguments& g, int m) : PlainRow<X>(g, m), columns(g.K), silu(g.silu) {}
  template <int kCount>
  __device__ void get(int k, float (&out)[kCount]) {
    float other[kCount];
    PlainRow<X>::get(k, out);
    PlainRow<X>::get(columns + k, other);
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] *= sigmoid(silu ? out[i] : gelu_argument(out[i])) * other[i];
  }
};

// What the threads of a block have of kSums sums, added: thread n gets the n-th.
template <int kSums>
__device__ float block_sum(const float (&sums)[kSums]) {
  __shared__ float of_warp[kWarps][kSums];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int n = 0; n < kSums; ++n) {
    const float sum = warp_sum(sums[n]);
    if (lane == n) of_warp[warp][n] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= kSums) return 0;
  float sum = of_warp[0][threadIdx.x];
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += of_warp[other][threadIdx.x];
  return sum;
}

// A thread's share of the products of kRows rows with kLines rows of weights, of which it reads every kStep-th piece.
// kRows: M or more; rows beyond M repeat the last one, and are not stored.
template <class Row, class W, int kRows, int kLines>
__device__ void multiply(const GemvArguments& g, const W* const (&weights)[kLines], Row (&rows)[kRows],
                         float (&sums)[kRows * kLines]) {
  constexpr int kCount = 16 / sizeof(W), kStep = kThreads * kCount, kAhead = 2;
  int k = static_cast<int>(threadIdx.x) * kCount;
  Piece<W, kCount> pieces[kAhead][kLines];
  const auto fetch = [&](int slot, int from) {
    if (from >= g.K) return;
#pragma unroll
    for (int line = 0; line < kLines; ++line) pieces[slot][line] = Piece<W, kCount>::of(weights[line] + from);
  };
#pragma unroll
  for (int slot = 0; slot < kAhead; ++slot) fetch(slot, k + slot * kStep);
  while (k < g.K) {
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot, k += kStep) {
      if (k >= g.K) return;
      float x[kRows][kCount];
#pragma unroll
      for (int m = 0; m < kRows; ++m) rows[m].get(k, x[m]);
#pragma unroll
      for (int line = 0; line < kLines; ++line) {
        float w[kCount];
        pieces[slot][line].get(w);
#pragma unroll
        for (int m = 0; m < kRows; ++m) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) sums[m * kLines + line] = fmaf(x[m][i], w[i], sums[m * kLines + line]);
        }
      }
      fetch(slot, k + kAhead * kStep);
    }
  }
}

// 1 / sqrt(mean square + epsilon) of row m, of whose squares every thread has some.
template <class Row, int kRows>
__device__ float norm_factor(const GemvArguments& g, const Row (&rows)[kRows], int m) {
  __shared__ float of_row[kRows];
  float squares[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) squares[row] = rows[row].square;
  const float square = block_sum(squares);
  if (threadIdx.x < kRows) of_row[threadIdx.x] = 1.0f / sqrtf(square / static_cast<float>(g.K) + g.epsilon);
  __syncthreads();
  return of_row[m];
}

template <class Row, class W, int kRows, int kLines>
__global__ void __launch_bounds__(kThreads) gemv_kernel(const __grid_constant__ GemvArguments g) {
  const int first = static_cast<int>(blockIdx.x) * kLines;
  const W* weights[kLines];
#pragma unroll
  for (int line = 0; line < kLines; ++line) {
    weights[line] = static_cast<const W*>(g.weights) + min(first + line, g.N - 1) * g.weight_stride;
  }
  if (g.asks_early) {
    constexpr int kBytes = 128 / sizeof(W);
    for (int k = static_cast<int>(threadIdx.x) * kBytes; k < g.K; k += kThreads * kBytes) {
#pragma unroll
      for (int line = 0; line < kLines; ++line) device::fetch_to_l2(weights[line] + k);
    }
  }
  begin_in_stream_order();
  Row rows[kRows];
#pragma unroll
  for (int m = 0; m < kRows; ++m) rows[m] = Row(g, min(m, g.M - 1));
  float sums[kRows * kLines] = {};
  multiply(g, weights, rows, sums);
  const float sum = block_sum(sums);
  const int m = static_cast<int>(threadIdx.x) / kLines, n = first + static_cast<int>(threadIdx.x) % kLines;
  float factor = 1;
  if constexpr (Row::kHasSquares) factor = norm_factor(g, rows, min(m, kRows - 1));
  if (threadIdx.x >= kRows * kLines || m >= g.M || n >= g.N) return;
  const std::int64_t at = m * g.y_stride + n;
  const float bias = g.bias != nullptr ? load(g.bias, g.y_type, n) : 0.0f;
  const float more = g.plus != nullptr ? load(g.plus, g.y_type, at) : 0.0f;
  store(g.y, g.y_type, at, factor * sum + bias + more);
}

template <class Row, class W, int kRows, int kLines>
void launch(CudaExecutor& executor, GemvArguments g) {
  constexpr int kBlocksAtOnce = 4;  // on a multiprocessor
  const int blocks = (g.N + kLines - 1) / kLines;
  g.asks_early = blocks <= kBlocksAtOnce * executor.queue().processors();
  executor.launch_early(gemv_kernel<Row, W, kRows, kLines>, blocks, kThreads, 0, g);
}

// Blocks of eight columns share more of what is read of x; those of four are more.
template <class Row, class W>
void launch_rows(CudaExecutor& executor, const GemvArguments& g) {
  if (g.M > 1) return launch<Row, W, kMostRows, 4>(executor, g);
  g.N < 16 * executor.queue().processors() ? launch<Row, W, 1, 4>(executor, g) : launch<Row, W, 1, 8>(executor, g);
}

template <class W>
void launch_as(CudaExecutor& executor, Input input, bool wide, const GemvArguments& g) {
  switch (input) {
    case Input::plain: return (wide ? launch_rows<PlainRow<float>, W> : launch_rows<PlainRow<W>, W>)(executor, g);
    case Input::rms_norm: return launch_rows<NormRow<float>, W>(executor, g);
    case Input::silu_gate:
    case Input::gelu_gate: return launch_rows<GatedRow<W>, W>(executor, g);
  }
}

// Rows of 16-byte pieces of `count` numbers.
bool in_pieces(const ConstTensorView& rows, std::int64_t count) {
  const auto bytes = static_cast<std::int64_t>(size_of(rows.dtype()));
  return rows.stride(1) == 1 && rows.shape(1) % count == 0 && rows.stride(0) * bytes % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(rows.data()) % 16 == 0;
}

bool takes(const kernels::GemvProblem& p) {
  const std::int64_t M = p.x.shape(0), N = p.weight.shape(0), K = p.weight.shape(1);
  const DType x = p.x.dtype(), w = p.weight.dtype();
  if (M > kMostRows || M * N * K == 0 || std::max(N, K) >= 1 << 29 || w == DType::f64) return false;
  const bool norm = p.input == Input::rms_norm, plain = p.input == Input::plain;
  if (x != w && !(x == DType::f32 && (plain || norm))) return false;
  if (norm && x != DType::f32) return false;
  if (norm && reinterpret_cast<std::uintptr_t>(p.gamma.data()) % 16 != 0) return false;
  const std::int64_t count = 16 / static_cast<std::int64_t>(size_of(w));
  return in_pieces(p.x, count) && in_pieces(p.weight, count);
}

}  // namespace

bool gemv(CudaExecutor& executor, const kernels::GemvProblem& p) {
  if (!takes(p)) return false;
  const GemvArguments g{.x = p.x.data(),
                        .weights = p.weight.data(),
                        .x_stride = p.x.stride(0),
                        .weight_stride = p.weight.stride(0),
                        .gamma = floats_or_null(p.gamma),
                        .epsilon = static_cast<float>(p.epsilon),
                        .silu = p.input == Input::silu_gate,
                        .asks_early = false,
                        .M = static_cast<int>(p.x.shape(0)),
                        .N = static_cast<int>(p.weight.shape(0)),
                        .K = static_cast<int>(p.weight.shape(1)),
                        .bias = p.bias.present() ? p.bias.data() : nullptr,
                        .plus = p.plus.present() ? p.plus.data() : nullptr,
                        .y = p.y.data(),
                        .y_type = p.y.dtype(),
                        .y_stride = p.y.stride(0)};
  const bool wide = p.x.dtype() == DType::f32;
  switch (p.weight.dtype()) {
    case DType::f16: launch_as<__half>(executor, p.input, wide, g); break;
    case DType::bf16: launch_as<__nv_bfloat16>(executor, p.input, wide, g); break;
    default: launch_as<float>(executor, p.input, wide, g); break;
  }
  return true;
}

}  // namespace polyhead::cuda
