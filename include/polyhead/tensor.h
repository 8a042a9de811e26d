// Tensors: element types, strided views of the caller's memory, and tensors that own their memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "polyhead/error.h"
#include "polyhead/export.h"

namespace POLYHEAD_PUBLIC polyhead {

// blocks: the quantised weights of a GGUF file, which models keep as they are. Only products and lookups on the host
// read them; their elements have no bytes of their own.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i32, i64, boolean, blocks };

[[noreturn]] void refuse_size_of_blocks();
// Bytes of one element; throws for blocks.
constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kSizes[] = {8, 4, 2, 2, 4, 8, 1};
  if (dtype == DType::blocks) refuse_size_of_blocks();
  return kSizes[static_cast<std::size_t>(dtype)];
}
std::string_view name_of(DType dtype) noexcept;  // "f32"
constexpr bool is_float(DType dtype) noexcept { return dtype <= DType::bf16; }

// IEEE half precision: storage only. Rounds to nearest even, keeps infinities and NaN.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value) noexcept;
  explicit operator float() const noexcept;
};

// The upper half of an f32: storage only. Rounds to nearest even, keeps infinities and NaN.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) noexcept;
  explicit operator float() const noexcept;
};

// The DType of a C++ type: dtype_of<float> == DType::f32.
template <class T>
consteval DType dtype_for() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else {
    static_assert(std::is_same_v<T, bool>, "tensors hold double, float, float16, bfloat16, int32_t, int64_t or bool");
    return DType::boolean;
  }
}
template <class T>
inline constexpr DType dtype_of = dtype_for<std::remove_cv_t<T>>();

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
std::string to_string(const Device& device);  // "cpu", "cuda:0"

// Sizes or strides of up to kMaxRank axes.
inline constexpr int kMaxRank = 6;
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);
  Dims(int rank, std::int64_t fill);

  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const noexcept { return values_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) noexcept { return values_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const noexcept { return values_.data(); }
  const std::int64_t* end() const noexcept { return values_.data() + rank_; }
  friend bool operator==(const Dims&, const Dims&) = default;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

std::string to_string(const Dims& dims);     // "[2,8,16,64]"
std::int64_t count_of(const Dims& shape);    // product of the sizes; throws if it overflows or a size is negative
Dims contiguous_strides(const Dims& shape);  // row-major, in elements

// A view of memory owned elsewhere: data, element type, sizes and strides (in elements). A default-constructed view is
// "absent", which is how optional tensors are left out. Void is `void` (TensorView) or `const void`
// (ConstTensorView).
template <class Void>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Void* data, DType dtype, const Dims& shape, const Dims& strides, Device device = {});

  // Row-major memory of a known C++ type: TensorView(pointer, {2, 8, 16, 64}).
  template <class T>
  BasicView(T* data, const Dims& shape) : BasicView(data, dtype_of<T>, shape, contiguous_strides(shape)) {}

  // A TensorView converts to a ConstTensorView; an absent one stays absent.
  template <class Other>
  requires(std::is_const_v<Void> && !std::is_const_v<Other>) BasicView(const BasicView<Other>& other)
      : data_(other.data()),
        dtype_(other.dtype()),
        present_(other.present()),
        device_(other.device()),
        shape_(other.shape()),
        strides_(other.strides()) {}

  bool present() const noexcept { return present_; }
  Void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  int rank() const noexcept { return shape_.rank(); }
  const Dims& shape() const noexcept { return shape_; }
  const Dims& strides() const noexcept { return strides_; }
  std::int64_t shape(int axis) const noexcept { return shape_[axis]; }
  std::int64_t stride(int axis) const noexcept { return strides_[axis]; }
  std::int64_t count() const { return count_of(shape_); }

  // The data as T; throws if T is not the element type or the memory is not on the host.
  template <class T>
  auto* as() const {
    using Element = std::conditional_t<std::is_const_v<Void>, const T, T>;
    if (device_ != Device{} || dtype_ != dtype_of<T>) refuse_reading(dtype_of<T>);
    return static_cast<Element*>(data_);
  }

  // Views of the same memory. Heads are split and merged this way, without a copy:
  // [B,T,C] .split(2, H) -> [B,T,H,C/H] .transpose(1, 2) -> [B,H,T,C/H].
  BasicView transpose(int axis_a, int axis_b) const;
  BasicView slice(int axis, std::int64_t begin, std::int64_t end) const;
  BasicView split(int axis, std::int64_t parts) const;
  // The same row-major elements in another shape.
  BasicView reshape(const Dims& shape) const;
  // Other sizes and strides from the first element on; the caller ensures that they stay within the memory.
  BasicView as_strided(const Dims& shape, const Dims& strides) const;

 private:
  [[noreturn]] void refuse_reading(DType wanted) const;

  Void* data_ = nullptr;
  DType dtype_ = DType::f32;
  bool present_ = false;
  Device device_;
  Dims shape_;
  Dims strides_;
};

using TensorView = BasicView<void>;
using ConstTensorView = BasicView<const void>;
extern template class BasicView<void>;
extern template class BasicView<const void>;

// "f32 [2,8,16,64]", for messages; "f32 [2,8,16,64] on cuda:0" if not on the host.
std::string describe(const ConstTensorView& view);

// Where tensors get their memory, and how data gets in and out; one implementation per device. zero and the copies are
// ordered with the device's other work and may return before they are done; copy_out is done when it returns.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const noexcept = 0;
  virtual void* allocate(std::size_t bytes) = 0;  // aligned for any vector unit; throws std::bad_alloc
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  virtual void zero(void* data, std::size_t bytes) = 0;
  virtual void copy_in(void* to, const void* from_host, std::size_t bytes) = 0;  // from_host may be reused on return
  virtual void copy_out(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // within the device; no overlap
  // Returns memory that was released and kept for the next tensor to the system.
  virtual void trim() noexcept {}
};

// Host memory, aligned to 64 bytes.
const std::shared_ptr<Allocator>& host_allocator();

// A row-major tensor that owns its memory. Move-only; what was moved from is absent.
class Tensor {
 public:
  Tensor() = default;  // absent
  Tensor(Tensor&& other) noexcept : memory_(std::move(other.memory_)), view_(std::exchange(other.view_, {})) {}
  Tensor& operator=(Tensor&& other) noexcept {
    memory_ = std::move(other.memory_);
    view_ = std::exchange(other.view_, {});
    return *this;
  }
  // A tensor keeps its allocator alive, so it may outlive the context that it came from.
  static Tensor empty(const Dims& shape, DType dtype, const std::shared_ptr<Allocator>& allocator = host_allocator());
  static Tensor zeros(const Dims& shape, DType dtype, const std::shared_ptr<Allocator>& allocator = host_allocator());
  // Memory of a size that shape and type do not tell, as blocks need it.
  static Tensor with_bytes(std::size_t bytes, const Dims& shape, DType dtype,
                           const std::shared_ptr<Allocator>& allocator = host_allocator());

  TensorView view() noexcept { return view_; }
  ConstTensorView view() const noexcept { return view_; }
  operator TensorView() noexcept { return view_; }
  operator ConstTensorView() const noexcept { return view_; }

  bool present() const noexcept { return view_.present(); }
  const Dims& shape() const noexcept { return view_.shape(); }
  DType dtype() const noexcept { return view_.dtype(); }
  std::size_t bytes() const noexcept { return memory_.get_deleter().bytes; }  // of its memory
  Device device() const noexcept { return view_.device(); }
  const std::shared_ptr<Allocator>& allocator() const noexcept { return memory_.get_deleter().allocator; }  // or null
  template <class T>
  T* as() {
    return view_.as<T>();
  }
  template <class T>
  const T* as() const {
    return view_.as<T>();
  }

 private:
  struct Release {
    std::shared_ptr<Allocator> allocator;
    std::size_t bytes;
    void operator()(void* data) const noexcept { allocator->release(data, bytes); }
  };
  std::unique_ptr<void, Release> memory_{nullptr, Release{nullptr, 0}};
  TensorView view_;
};

}  // namespace polyhead
