// Copies of any strides, with conversion between float types.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"
#include "cuda/portable/pieces.cuh"

namespace polyhead::cuda {
namespace {

using namespace portable;

struct Layout {
  int rank = 0;
  std::int64_t size[kMaxRank] = {}, from[kMaxRank] = {}, to[kMaxRank] = {};

  Layout(const Dims& shape, const Dims& from_strides, const Dims& to_strides) : rank(shape.rank()) {
    for (int axis = 0; axis < rank; ++axis) {
      size[axis] = shape[axis];
      from[axis] = from_strides[axis];
      to[axis] = to_strides[axis];
    }
  }
  // Where element n lies in both.
  __device__ void find(std::int64_t n, std::int64_t& from_at, std::int64_t& to_at) const {
    from_at = to_at = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const std::int64_t index = n % size[axis];
      n /= size[axis];
      from_at += index * from[axis];
      to_at += index * to[axis];
    }
  }
};

template <class Element>
struct Copy {
  Layout layout;
  const Element* from;
  Element* to;
  __device__ void operator()(std::int64_t n) const {
    std::int64_t from_at, to_at;
    layout.find(n, from_at, to_at);
    to[to_at] = from[from_at];
  }
};

// To nearest even, in one rounding.
struct Convert {
  Layout layout;
  const void* from;
  DType from_type;
  void* to;
  DType to_type;
  __device__ void operator()(std::int64_t n) const {
    std::int64_t from_at, to_at;
    layout.find(n, from_at, to_at);
    if (from_type != DType::f64) return store(to, to_type, to_at, load(from, from_type, from_at));
    const double value = static_cast<const double*>(from)[from_at];
    switch (to_type) {
      case DType::f16: static_cast<__half*>(to)[to_at] = __double2half(value); return;
      case DType::bf16: static_cast<__nv_bfloat16*>(to)[to_at] = __double2bfloat16(value); return;
      default: static_cast<float*>(to)[to_at] = static_cast<float>(value); return;
    }
  }
};

// Eight numbers of a row at a time, between f32 and 16 bits: [..,C] of up to four axes, C a multiple of eight.
constexpr int kGroup = 8;
template <class From, class To>
struct ConvertGroups {
  const From* from;
  To* to;
  std::uint32_t size[3], groups;  // sizes of the axes before the last one; groups in the last one
  std::int64_t from_step[3], to_step[3];

  __device__ void operator()(std::int64_t n) const {
    auto left = static_cast<std::uint32_t>(n);
    std::int64_t from_at = std::int64_t{left % groups} * kGroup, to_at = from_at;
    left /= groups;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      const std::uint32_t index = left % size[axis];
      left /= size[axis];
      from_at += index * from_step[axis];
      to_at += index * to_step[axis];
    }
    alignas(16) From in[kGroup];
    alignas(16) To out[kGroup];
#pragma unroll
    for (std::size_t part = 0; part < sizeof in / 16; ++part) {
      reinterpret_cast<uint4*>(in)[part] = reinterpret_cast<const uint4*>(from + from_at)[part];
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) out[i] = from_float<To>(to_float(in[i]));
#pragma unroll
    for (std::size_t part = 0; part < sizeof out / 16; ++part) {
      reinterpret_cast<uint4*>(to + to_at)[part] = reinterpret_cast<const uint4*>(out)[part];
    }
  }
};

bool in_groups(const ConstTensorView& x) {
  const int last = x.rank() - 1;
  if (x.rank() < 1 || x.rank() > 4 || x.shape(last) % kGroup != 0 || x.stride(last) != 1) return false;
  bool all = reinterpret_cast<std::uintptr_t>(x.data()) % 16 == 0;
  for (int axis = 0; axis < last; ++axis) all = all && x.stride(axis) % kGroup == 0;
  return all && x.count() / kGroup < std::int64_t{1} << 31;
}

template <class From, class To>
void convert_groups(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to) {
  const int last = to.rank() - 1;
  ConvertGroups<From, To> what{static_cast<const From*>(from.data()),
                               static_cast<To*>(to.data()),
                               {1, 1, 1},
                               static_cast<std::uint32_t>(to.shape(last) / kGroup),
                               {},
                               {}};
  for (int axis = last - 1, place = 2; axis >= 0; --axis, --place) {
    what.size[place] = static_cast<std::uint32_t>(to.shape(axis));
    what.from_step[place] = from.stride(axis);
    what.to_step[place] = to.stride(axis);
  }
  for_elements(executor, to.count() / kGroup, what);
}

// Returns whether it could.
bool convert_by_groups(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to) {
  if (!in_groups(from) || !in_groups(to)) return false;
  if (from.dtype() == DType::f32 && to.dtype() == DType::bf16) {
    convert_groups<float, __nv_bfloat16>(executor, from, to);
  } else if (from.dtype() == DType::f32 && to.dtype() == DType::f16) {
    convert_groups<float, __half>(executor, from, to);
  } else if (from.dtype() == DType::bf16 && to.dtype() == DType::f32) {
    convert_groups<__nv_bfloat16, float>(executor, from, to);
  } else if (from.dtype() == DType::f16 && to.dtype() == DType::f32) {
    convert_groups<__half, float>(executor, from, to);
  } else {
    return false;
  }
  return true;
}

template <class Element>
void copy_as(CudaExecutor& executor, const Layout& layout, const ConstTensorView& from, const TensorView& to) {
  for_elements(executor, to.count(),
               Copy<Element>{layout, static_cast<const Element*>(from.data()), static_cast<Element*>(to.data())});
}

struct Rounding {
  const float* from = nullptr;
  void* to = nullptr;
};
template <class To>
__global__ void __launch_bounds__(kPieceThreads) round_kernel(const __grid_constant__ Pieces<Rounding> pieces) {
  begin_in_stream_order();
  const int which = pieces.tensor_of(static_cast<int>(blockIdx.x));
  const Rounding& tensor = pieces.tensors[which];
  for_piece(pieces, which, [&](std::int64_t n) { static_cast<To*>(tensor.to)[n] = from_float<To>(tensor.from[n]); });
}

}  // namespace

void round(CudaExecutor& executor, std::span<const ConstTensorView> from, std::span<const TensorView> to) {
  const auto kernel = to[0].dtype() == DType::f16 ? round_kernel<__half> : round_kernel<__nv_bfloat16>;
  for_all_pieces<Rounding>(
      from.size(),
      [&](Pieces<Rounding>& pieces, std::size_t n) {
        pieces.add({floats(from[n]), to[n].data()}, from[n].count());
      },
      [&](const Pieces<Rounding>& pieces, std::size_t) {
        executor.launch_early(kernel, pieces.first[pieces.used], kPieceThreads, 0, pieces);
      });
}

void copy(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to) {
  const Layout layout(to.shape(), from.strides(), to.strides());
  if (from.dtype() != to.dtype()) {
    if (convert_by_groups(executor, from, to)) return;
    return for_elements(executor, to.count(), Convert{layout, from.data(), from.dtype(), to.data(), to.dtype()});
  }
  const Dims rows = contiguous_strides(to.shape());
  if (from.strides() == rows && to.strides() == rows) {
    return executor.allocator()->copy(to.data(), from.data(),
                                      static_cast<std::size_t>(to.count()) * size_of(to.dtype()));
  }
  switch (size_of(to.dtype())) {
    case 1: return copy_as<std::uint8_t>(executor, layout, from, to);
    case 2: return copy_as<std::uint16_t>(executor, layout, from, to);
    case 4: return copy_as<std::uint32_t>(executor, layout, from, to);
    default: return copy_as<std::uint64_t>(executor, layout, from, to);
  }
}

}  // namespace polyhead::cuda
