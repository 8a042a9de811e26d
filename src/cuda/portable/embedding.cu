// Embedding and pooling, f32.
#include <algorithm>

#include "cuda/kernels.h"
#include "cuda/portable/arguments.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"
#include "kernels/sequences.h"

namespace polyhead::cuda {
namespace {

using namespace portable;
using kernels::BadValue;

// The index, or 0 and a violation if it is outside the table. `tells` is true in one of the threads that read it.
__device__ inline std::int64_t entry_of(const std::int32_t* indices, std::int64_t row, std::int64_t entries, bool tells,
                                        const Violations& violations) {
  const std::int32_t index = indices[row];
  if (index >= 0 && index < entries) return index;
  if (tells) violations.add({.kind = BadValue::Kind::indices, .place = {row}, .found = index, .high = entries});
  return 0;
}

// A warp per 256 columns of a row: a single token has few rows.
struct Embed {
  static constexpr std::int64_t kColumns = 256;
  Strided table;
  const float* positions;  // may be null
  const std::int32_t* indices;
  float* y;
  std::int64_t C, length, entries;
  Violations violations;
  constexpr std::int64_t parts() const { return (C + kColumns - 1) / kColumns; }
  __device__ void operator()(std::int64_t n, int lane) const {
    const std::int64_t row = n / parts(), begin = n % parts() * kColumns, end = min(begin + kColumns, C);
    const std::int64_t from = entry_of(indices, row, entries, lane == 0 && begin == 0, violations) * C;
    const float* place = positions != nullptr ? positions + row % length * C : nullptr;
    for (std::int64_t c = begin + lane; c < end; c += 32) {
      const float entry = load(table.data, table.dtype, from + c);
      y[row * C + c] = place != nullptr ? entry + place[c] : entry;
    }
  }
};

// A block per entry of the table and slice of the rows looks through the slice's indices and adds up the rows of that
// entry, in their order: into partial [slices][entries][C], or onto dtable itself if there is one slice.
constexpr int kEntryThreads = 256;
__global__ void __launch_bounds__(kEntryThreads)
    embed_backward_kernel(const float* dy, const std::int32_t* indices, std::int64_t rows, int slices, std::int64_t C,
                          std::int64_t entries, float* partial, const Violations violations) {
  __shared__ unsigned matches[kEntryThreads / 32];
  const std::int64_t entry = blockIdx.x % entries, slice = blockIdx.x / entries;
  float* to = partial + blockIdx.x * C;
  for (std::int64_t c = threadIdx.x; c < C && slices > 1; c += kEntryThreads) to[c] = 0;
  const std::int64_t end = rows * (slice + 1) / slices;
  for (std::int64_t begin = rows * slice / slices; begin < end; begin += kEntryThreads) {
    const std::int64_t row = begin + threadIdx.x;
    const bool own = row < end && indices[row] == entry;
    if (entry == 0 && row < end) entry_of(indices, row, entries, true, violations);
    if (__syncthreads_or(own) == 0) continue;
    const unsigned mine = __ballot_sync(0xffffffffu, own);
    if (threadIdx.x % 32 == 0) matches[threadIdx.x / 32] = mine;
    __syncthreads();
    for (std::int64_t c = threadIdx.x; c < C; c += kEntryThreads) {
      float sum = to[c];
      for (int warp = 0; warp < kEntryThreads / 32; ++warp) {
        for (unsigned left = matches[warp]; left != 0; left &= left - 1) {
          sum += dy[(begin + 32 * warp + __ffs(static_cast<int>(left)) - 1) * C + c];
        }
      }
      to[c] = sum;
    }
  }
}
struct AddEntries {
  const float* partial;
  int slices;
  std::int64_t count;  // of the table
  float* dtable;
  __device__ void operator()(std::int64_t n) const {
    float sum = dtable[n];
    for (int slice = 0; slice < slices; ++slice) sum += partial[slice * count + n];
    dtable[n] = sum;
  }
};
constexpr std::int64_t kEntryBlocks = 4096;  // beyond these nothing is gained from more slices

// The mean of the first tokens of every sequence.
struct Pool {
  const float* x;
  float* y;
  std::int64_t C, all;
  kernels::Integers lengths;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t b = n / C, length = lengths.within(b, 1, all, all);
    float sum = 0;
    for (std::int64_t t = 0; t < length; ++t) sum += x[(b * all + t) * C + n % C];
    y[n] = sum / static_cast<float>(length);
  }
};
struct PoolBackward {
  const float* dy;
  float* dx;
  std::int64_t C, all;
  kernels::Integers lengths;
  __device__ void operator()(std::int64_t n) const {
    const std::int64_t b = n / C / all, length = lengths.within(b, 1, all, all);
    dx[n] = n / C % all < length ? dy[b * C + n % C] / static_cast<float>(length) : 0.0f;
  }
};
struct CheckLengths {
  kernels::Integers lengths;
  std::int64_t all;
  Violations violations;
  __device__ void operator()(std::int64_t b) const {
    if (lengths[b] >= 1 && lengths[b] <= all) return;
    violations.add({.kind = BadValue::Kind::lengths, .found = lengths[b], .high = all});
  }
};

void check_lengths(CudaExecutor& executor, std::string_view op, const ConstTensorView& lengths, std::int64_t all) {
  if (!lengths.present()) return;
  for_elements(executor, lengths.shape(0),
               CheckLengths{kernels::Integers(lengths), all, executor.queue().violations(op)});
}

}  // namespace

void embed(CudaExecutor& executor, const kernels::EmbeddingProblem& p) {
  expect_no_f64("embed", p.table);
  const Embed what{Strided(p.table),
                   floats_or_null(p.positions),
                   static_cast<const std::int32_t*>(p.indices.data()),
                   floats(p.y),
                   p.table.shape(1),
                   p.y.shape(1),
                   p.table.shape(0),
                   executor.queue().violations("embed")};
  for_rows(executor, p.indices.count() * what.parts(), what);
}

void embed_backward(CudaExecutor& executor, const kernels::EmbeddingGradientProblem& p) {
  expect_no_f64("embed_backward", p.dy);
  const std::int64_t rows = p.indices.count(), entries = p.dtable.shape(0), C = p.dtable.shape(1);
  if (rows == 0 || entries == 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, kEntryBlocks / entries);
  const auto slices = static_cast<int>(std::clamp<std::int64_t>(rows / kEntryThreads, 1, most));
  float* partial = slices > 1 ? executor.workspace<float>(Workspace::sums, slices * entries * C) : floats(p.dtable);
  executor.launch(embed_backward_kernel, slices * entries, kEntryThreads, floats(p.dy),
                  static_cast<const std::int32_t*>(p.indices.data()), rows, slices, C, entries, partial,
                  executor.queue().violations("embed_backward"));
  if (slices > 1) for_elements(executor, entries * C, AddEntries{partial, slices, entries * C, floats(p.dtable)});
}

void pool(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y) {
  expect_no_f64("pool", x);
  check_lengths(executor, "pool", lengths, x.shape(1));
  for_elements(executor, y.count(), Pool{floats(x), floats(y), x.shape(2), x.shape(1), kernels::Integers(lengths)});
}

void pool_backward(CudaExecutor& executor, const ConstTensorView& dy, const ConstTensorView& lengths,
                   const TensorView& dx) {
  expect_no_f64("pool_backward", dx);
  check_lengths(executor, "pool_backward", lengths, dx.shape(1));
  for_elements(executor, dx.count(),
               PoolBackward{floats(dy), floats(dx), dx.shape(2), dx.shape(1), kernels::Integers(lengths)});
}

}  // namespace polyhead::cuda
