// Copies of any strides, with conversion between float types.
#include "cuda/kernels.h"
#include "cuda/portable/elements.cuh"
#include "cuda/portable/numbers.cuh"

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

template <class Element>
void copy_as(CudaExecutor& executor, const Layout& layout, const ConstTensorView& from, const TensorView& to) {
  for_elements(executor, to.count(),
               Copy<Element>{layout, static_cast<const Element*>(from.data()), static_cast<Element*>(to.data())});
}

}  // namespace

void copy(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to) {
  const Layout layout(to.shape(), from.strides(), to.strides());
  if (from.dtype() != to.dtype()) {
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
