#include "polyhead/tensor.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "core/row_major.h"

namespace polyhead {
namespace {

class HostAllocator final : public Allocator {
 public:
  Device device() const noexcept override { return {}; }
  void* allocate(std::size_t bytes) override {
    void* data = ::operator new(bytes, alignment(bytes));
    if (bytes >= kLarge) madvise(data, bytes, MADV_HUGEPAGE);  // a hint, which may fail
    return data;
  }
  void release(void* data, std::size_t bytes) noexcept override { ::operator delete(data, bytes, alignment(bytes)); }
  void zero(void* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  void copy_in(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

 private:
  // Memory that is streamed through, such as a key cache, is read a quarter faster from pages of 2 MB.
  static constexpr std::size_t kLarge = 8 << 20, kHugePage = 2 << 20;
  static constexpr std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t{bytes < kLarge ? 64 : kHugePage};
  }
};

// Is the memory row-major? Strides of axes of size 1 do not matter.
void expect_axis(std::string_view op, int axis, int rank) {
  if (axis < 0 || axis >= rank) {
    throw Error(ErrorCode::shape, op,
                "axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank) + "; expected 0 to " +
                    std::to_string(rank - 1));
  }
}

}  // namespace

std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
    case DType::blocks: return "blocks";
  }
  return "?";
}

void refuse_size_of_blocks() {
  throw Error(ErrorCode::dtype, "tensor",
              "expected elements of one size, found the quantised blocks of a GGUF file; only the products and lookups "
              "of a model on the host read them");
}

Dims::Dims(std::initializer_list<std::int64_t> values) : Dims(static_cast<int>(values.size()), 0) {
  int axis = 0;
  for (const std::int64_t value : values) (*this)[axis++] = value;
}

Dims::Dims(int rank, std::int64_t fill) : rank_(rank) {
  if (rank < 0 || rank > kMaxRank) {
    throw Error(ErrorCode::shape, "tensor",
                "rank " + std::to_string(rank) + "; expected at most " + std::to_string(kMaxRank));
  }
  for (int axis = 0; axis < rank; ++axis) (*this)[axis] = fill;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.rank(); ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(dims[axis]);
  }
  return text + "]";
}

std::int64_t count_of(const Dims& shape) {
  // Sizes of 0 are left for last, so that [huge,huge,0] is an overflow whatever the order of its axes.
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) throw Error(ErrorCode::shape, "tensor", "negative size in " + to_string(shape));
    if (size == 0) empty = true;
    if (size != 0 && __builtin_mul_overflow(count, size, &count)) {
      throw Error(ErrorCode::shape, "tensor", "the number of elements of " + to_string(shape) + " overflows 64 bits");
    }
  }
  return empty ? 0 : count;
}

Dims contiguous_strides(const Dims& shape) {
  count_of(shape);  // refuses what would overflow below
  Dims strides(shape.rank(), 1);
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    strides[axis] = strides[axis + 1] * (shape[axis + 1] > 0 ? shape[axis + 1] : 1);
  }
  return strides;
}

template <class Void>
BasicView<Void>::BasicView(Void* data, DType dtype, const Dims& shape, const Dims& strides, Device device)
    : data_(data), dtype_(dtype), present_(true), device_(device), shape_(shape), strides_(strides) {
  if (shape.rank() != strides.rank()) {
    throw Error(ErrorCode::shape, "tensor",
                "shape " + to_string(shape) + " and strides " + to_string(strides) +
                    " differ in rank; give one stride per axis");
  }
}

template <class Void>
BasicView<Void> BasicView<Void>::transpose(int axis_a, int axis_b) const {
  expect_axis("transpose", axis_a, rank());
  expect_axis("transpose", axis_b, rank());
  BasicView result = *this;
  std::swap(result.shape_[axis_a], result.shape_[axis_b]);
  std::swap(result.strides_[axis_a], result.strides_[axis_b]);
  return result;
}

template <class Void>
BasicView<Void> BasicView<Void>::slice(int axis, std::int64_t begin, std::int64_t end) const {
  expect_axis("slice", axis, rank());
  if (begin < 0 || begin > end || end > shape(axis)) {
    throw Error(ErrorCode::shape, "slice",
                "[" + std::to_string(begin) + "," + std::to_string(end) + ") of axis " + std::to_string(axis) + " of " +
                    to_string(shape_) + "; expected 0 <= begin <= end <= " + std::to_string(shape(axis)));
  }
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  BasicView result = *this;
  if (data_ != nullptr && begin > 0) {
    result.data_ = static_cast<Byte*>(data_) + begin * stride(axis) * static_cast<std::int64_t>(size_of(dtype_));
  }
  result.shape_[axis] = end - begin;
  return result;
}

template <class Void>
BasicView<Void> BasicView<Void>::split(int axis, std::int64_t parts) const {
  expect_axis("split", axis, rank());
  if (parts <= 0 || shape(axis) % parts != 0) {
    throw Error(ErrorCode::shape, "split",
                "axis " + std::to_string(axis) + " of " + to_string(shape_) + " into " + std::to_string(parts) +
                    " parts; expected a number that divides " + std::to_string(shape(axis)));
  }
  const std::int64_t inner = shape(axis) / parts;
  Dims shape(rank() + 1, 0);
  Dims strides(rank() + 1, 0);
  for (int from = 0, to = 0; from < rank(); ++from, ++to) {
    shape[to] = shape_[from];
    strides[to] = strides_[from];
    if (from == axis) {
      shape[to] = parts;
      strides[to] = strides_[from] * inner;
      ++to;
      shape[to] = inner;
      strides[to] = strides_[from];
    }
  }
  return BasicView(data_, dtype_, shape, strides, device_);
}

template <class Void>
BasicView<Void> BasicView<Void>::reshape(const Dims& shape) const {
  if (count_of(shape) != count()) {
    throw Error(ErrorCode::shape, "reshape",
                to_string(shape_) + " as " + to_string(shape) + "; expected a shape of " + std::to_string(count()) +
                    " elements");
  }
  if (count() > 0 && !is_row_major(shape_, strides_)) {
    throw Error(ErrorCode::layout, "reshape",
                "expected row-major memory, found " + to_string(shape_) + " with strides " + to_string(strides_) +
                    "; clone it first");
  }
  return as_strided(shape, contiguous_strides(shape));
}

template <class Void>
BasicView<Void> BasicView<Void>::as_strided(const Dims& shape, const Dims& strides) const {
  return BasicView(data_, dtype_, shape, strides, device_);
}

template <class Void>
void BasicView<Void>::refuse_reading(DType wanted) const {
  if (device_ != Device{}) {
    throw Error(
        ErrorCode::device, "tensor",
        "data read by the host, but the memory is that of " + to_string(device_) + "; copy it with polyhead::to_host");
  }
  throw Error(
      ErrorCode::dtype, "tensor",
      "data read as " + std::string(name_of(wanted)) + ", but the elements are " + std::string(name_of(dtype_)));
}

template class BasicView<void>;
template class BasicView<const void>;

std::string to_string(const Device& device) {
  if (device == Device{}) return "cpu";
  return (device.kind == Device::Kind::cpu ? "cpu:" : "cuda:") + std::to_string(device.index);
}

std::string describe(const ConstTensorView& view) {
  if (!view.present()) return "nothing";
  const std::string text = std::string(name_of(view.dtype())) + " " + to_string(view.shape());
  return view.device() == Device{} ? text : text + " on " + to_string(view.device());
}

const std::shared_ptr<Allocator>& host_allocator() {
  static const std::shared_ptr<Allocator> allocator = std::make_shared<HostAllocator>();
  return allocator;
}

Tensor Tensor::empty(const Dims& shape, DType dtype, const std::shared_ptr<Allocator>& allocator) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count_of(shape), static_cast<std::int64_t>(size_of(dtype)), &bytes)) {
    throw Error(ErrorCode::shape, "tensor", "the bytes of " + to_string(shape) + " overflow 64 bits");
  }
  return with_bytes(static_cast<std::size_t>(bytes), shape, dtype, allocator);
}

Tensor Tensor::with_bytes(std::size_t bytes, const Dims& shape, DType dtype,
                          const std::shared_ptr<Allocator>& allocator) {
  Tensor tensor;
  try {
    tensor.memory_ = {allocator->allocate(bytes), Release{allocator, bytes}};
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::memory, "tensor",
                std::string(name_of(dtype)) + " " + to_string(shape) + ": expected " + std::to_string(bytes) +
                    " bytes of memory, found less; choose smaller sizes");
  }
  tensor.view_ = TensorView(tensor.memory_.get(), dtype, shape, contiguous_strides(shape), allocator->device());
  return tensor;
}

Tensor Tensor::zeros(const Dims& shape, DType dtype, const std::shared_ptr<Allocator>& allocator) {
  Tensor tensor = empty(shape, dtype, allocator);
  allocator->zero(tensor.memory_.get(), tensor.bytes());
  return tensor;
}

}  // namespace polyhead
