// Sizes, views and tensors: the arithmetic, and the errors for what does not fit.
#include "polyhead/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace polyhead {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32;

// The Error that `call` throws must have this code and say all of `words`.
template <class Call>
void expect_error(ErrorCode code, const std::vector<std::string>& words, const Call& call) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << "'" << word << "' in: " << error.what();
    }
  }
}

TEST(DType, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::i32));
  static_assert(dtype_of<const float16> == DType::f16);
}

TEST(Dims, CountAndStrides) {
  EXPECT_EQ(count_of({}), 1);
  EXPECT_EQ(count_of({2, 3, 5}), 30);
  EXPECT_EQ(count_of({2, 0, 5}), 0);
  EXPECT_EQ(contiguous_strides({2, 3, 5}), (Dims{15, 5, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 5}).rank(), 3);
  EXPECT_EQ(to_string(Dims{2, 8, 16, 64}), "[2,8,16,64]");
  EXPECT_EQ(to_string(Dims{}), "[]");
}

TEST(Dims, RefusesWhatDoesNotFit) {
  expect_error(ErrorCode::shape, {"[tensor]", "rank 7"}, [] { return Dims{1, 1, 1, 1, 1, 1, 1}; });
  expect_error(ErrorCode::shape, {"rank -1"}, [] { return Dims(-1, 0); });
  expect_error(ErrorCode::shape, {"negative", "[2,-1]"}, [] { return count_of({2, -1}); });
  expect_error(ErrorCode::shape, {"overflow"}, [] { return count_of({kHuge, kHuge}); });
  expect_error(ErrorCode::shape, {"overflow"}, [] { return contiguous_strides({2, kHuge, kHuge}); });
  // A size of 0 hides no overflow, wherever it stands.
  expect_error(ErrorCode::shape, {"overflow"}, [] { return count_of({0, kHuge, kHuge}); });
  expect_error(ErrorCode::shape, {"overflow"}, [] { return count_of({kHuge, kHuge, 0}); });
  EXPECT_EQ(count_of({std::numeric_limits<std::int64_t>::max()}), std::numeric_limits<std::int64_t>::max());
}

TEST(View, SplitAndTransposeMakeHeads) {
  std::vector<float> memory(2 * 3 * 8);
  const TensorView x(memory.data(), {2, 3, 8});            // [B,T,C]
  const TensorView heads = x.split(2, 4).transpose(1, 2);  // [B,H,T,C/H]
  EXPECT_EQ(heads.shape(), (Dims{2, 4, 3, 2}));
  EXPECT_EQ(heads.strides(), (Dims{24, 2, 8, 1}));
  EXPECT_EQ(heads.data(), memory.data());
  EXPECT_EQ(heads.count(), x.count());
}

TEST(View, SplitsFirstAxisAndEmptyAxes) {
  std::vector<float> memory(6);
  const TensorView x(memory.data(), {6});
  EXPECT_EQ(x.split(0, 2).shape(), (Dims{2, 3}));
  EXPECT_EQ(x.split(0, 2).strides(), (Dims{3, 1}));
  EXPECT_EQ(x.slice(0, 0, 0).split(0, 3).shape(), (Dims{3, 0}));
}

TEST(View, SliceMovesTheStart) {
  std::vector<std::int32_t> memory(4 * 5);
  const TensorView x(memory.data(), {4, 5});
  const TensorView part = x.slice(0, 1, 3).slice(1, 2, 5);
  EXPECT_EQ(part.shape(), (Dims{2, 3}));
  EXPECT_EQ(part.strides(), x.strides());
  EXPECT_EQ(part.as<std::int32_t>(), memory.data() + 7);
  EXPECT_EQ(x.slice(0, 4, 4).count(), 0);
}

TEST(View, RefusesWhatDoesNotFit) {
  std::vector<float> memory(24);
  const TensorView x(memory.data(), {2, 3, 4});
  expect_error(ErrorCode::shape, {"[transpose]", "axis 3", "rank 3"}, [&] { return x.transpose(0, 3); });
  expect_error(ErrorCode::shape, {"[transpose]", "axis -1"}, [&] { return x.transpose(-1, 0); });
  expect_error(ErrorCode::shape, {"[slice]", "[1,4)", "[2,3,4]"}, [&] { return x.slice(1, 1, 4); });
  expect_error(ErrorCode::shape, {"[slice]"}, [&] { return x.slice(1, 2, 1); });
  expect_error(ErrorCode::shape, {"[slice]"}, [&] { return x.slice(1, -1, 1); });
  expect_error(ErrorCode::shape, {"[slice]", "axis 5"}, [&] { return x.slice(5, 0, 1); });
  expect_error(ErrorCode::shape, {"[split]", "3 parts", "divides 4"}, [&] { return x.split(2, 3); });
  expect_error(ErrorCode::shape, {"[split]"}, [&] { return x.split(2, 0); });
  expect_error(ErrorCode::shape, {"[split]"}, [&] { return x.split(2, -2); });
  expect_error(ErrorCode::dtype, {"i32", "f32"}, [&] { return x.as<std::int32_t>(); });
  expect_error(ErrorCode::shape, {"[2,3]", "[1]"}, [&] { return TensorView(memory.data(), DType::f32, {2, 3}, {1}); });
  const TensorView deepest(memory.data(), {1, 1, 2, 3, 4, 1});
  expect_error(ErrorCode::shape, {"rank 7"}, [&] { return deepest.split(2, 2); });
}

TEST(View, AbsentAndConst) {
  EXPECT_FALSE(ConstTensorView().present());
  std::vector<float> memory(2);
  const TensorView x(memory.data(), {2});
  const ConstTensorView c = x;
  EXPECT_TRUE(c.present());
  EXPECT_EQ(c.data(), x.data());
  static_assert(std::is_same_v<decltype(c.as<float>()), const float*>);
  static_assert(!std::is_convertible_v<ConstTensorView, TensorView>);
  // Present, though it has no memory: an empty tensor is not a missing one.
  EXPECT_TRUE(TensorView(static_cast<float*>(nullptr), {0, 4}).present());
}

TEST(Tensor, OwnsAlignedMemory) {
  for (const std::int64_t size : {0, 1, 3, 17, 1000}) {
    Tensor tensor = Tensor::zeros({size, 3}, DType::f32);
    EXPECT_TRUE(tensor.present());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().data()) % 64, 0u);
    EXPECT_EQ(tensor.view().strides(), (Dims{3, 1}));
    for (std::int64_t i = 0; i < size * 3; ++i) ASSERT_EQ(tensor.as<float>()[i], 0.0f);
  }
}

TEST(Tensor, MovesAndNeverCopiesSilently) {
  static_assert(!std::is_copy_constructible_v<Tensor> && !std::is_copy_assignable_v<Tensor>);
  Tensor first = Tensor::zeros({4}, DType::f64);
  const void* data = first.view().data();
  Tensor second = std::move(first);
  EXPECT_EQ(second.view().data(), data);
  EXPECT_EQ(second.shape(), (Dims{4}));
  second = Tensor::zeros({2}, DType::f32);
  EXPECT_EQ(second.dtype(), DType::f32);
}

TEST(Tensor, RefusesMoreBytesThanCanBeCounted) {
  expect_error(ErrorCode::shape, {"bytes", "overflow"},
               [] { return Tensor::empty({std::numeric_limits<std::int64_t>::max() / 4}, DType::f64); });
  expect_error(ErrorCode::shape, {"negative"}, [] { return Tensor::empty({-1}, DType::f32); });
}

// Memory comes from the allocator that was named, and goes back there.
TEST(Tensor, UsesTheAllocatorGivenAndKeepsItAlive) {
  static std::size_t live;
  static bool gone;
  class Counting final : public Allocator {
   public:
    ~Counting() override { gone = true; }
    Device device() const noexcept override { return {}; }
    void* allocate(std::size_t bytes) override {
      live += bytes;
      return host_allocator()->allocate(bytes);
    }
    void release(void* data, std::size_t bytes) noexcept override {
      EXPECT_FALSE(gone);
      live -= bytes;
      host_allocator()->release(data, bytes);
    }
    void zero(void* data, std::size_t bytes) override { host_allocator()->zero(data, bytes); }
    void copy_in(void* to, const void* from, std::size_t bytes) override { host_allocator()->copy_in(to, from, bytes); }
    void copy_out(void* to, const void* from, std::size_t bytes) override {
      host_allocator()->copy_out(to, from, bytes);
    }
    void copy(void* to, const void* from, std::size_t bytes) override { host_allocator()->copy(to, from, bytes); }
  };
  live = 0;
  gone = false;
  auto counting = std::make_shared<Counting>();
  Tensor tensor = Tensor::empty({5}, DType::f16, counting);
  EXPECT_EQ(live, 10u);
  Tensor moved = std::move(tensor);
  EXPECT_EQ(moved.allocator(), counting);
  counting.reset();
  EXPECT_EQ(live, 10u);
  moved = Tensor();
  EXPECT_EQ(live, 0u);
  EXPECT_TRUE(gone);
}

// Views keep their device, and what is not the host's memory is not handed to the host.
TEST(View, KnowsItsDevice) {
  float numbers[24] = {};
  const Device device{Device::Kind::cuda, 3};
  const TensorView view(numbers, DType::f32, {2, 3, 4}, contiguous_strides({2, 3, 4}), device);
  for (const TensorView& derived : {view.transpose(0, 1), view.slice(1, 1, 2), view.split(2, 2), view.reshape({6, 4}),
                                    view.as_strided({2, 5}, {1, 0})}) {
    EXPECT_EQ(derived.device(), device);
  }
  EXPECT_EQ(ConstTensorView(view).device(), device);
  EXPECT_EQ(describe(view), "f32 [2,3,4] on cuda:3");
  try {
    view.as<float>();
    FAIL() << "the host was given memory of a device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_NE(std::string(error.what()).find("cuda:3"), std::string::npos) << error.what();
  }
}

TEST(View, ReshapesRowMajorMemoryOnly) {
  float numbers[24] = {};
  const TensorView view(numbers, {2, 3, 4});
  EXPECT_EQ(view.reshape({4, 6}).strides(), (Dims{6, 1}));
  EXPECT_EQ(view.slice(0, 1, 2).reshape({12}).data(), numbers + 12);
  EXPECT_THROW(view.reshape({5, 5}), Error);
  EXPECT_THROW(view.transpose(0, 1).reshape({24}), Error);
  EXPECT_THROW(view.slice(2, 0, 2).reshape({12}), Error);
}

TEST(Error, SaysTheOpFirst) {
  const Error error(ErrorCode::value, "attend", "scale is NaN");
  EXPECT_STREQ(error.what(), "[attend] scale is NaN");
  EXPECT_EQ(error.code(), ErrorCode::value);
}

TEST(Describe, TypeAndShape) {
  EXPECT_EQ(describe(Tensor::empty({2, 3}, DType::bf16).view()), "bf16 [2,3]");
  EXPECT_EQ(describe(ConstTensorView()), "nothing");
}

}  // namespace
}  // namespace polyhead
