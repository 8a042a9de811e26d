#include "io/npy.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "io/scratch.h"
#include "support/bits.h"
#include "support/npy.h"

namespace polyhead::io {
namespace {

TEST(Npy, WrittenAndRead) {
  const Scratch scratch;
  for (const Dims& shape : {Dims{}, Dims{3}, Dims{2, 0}, Dims{2, 3, 5}}) {
    Tensor tensor = Tensor::empty(shape, DType::f64);
    for (std::int64_t i = 0; i < count_of(shape); ++i) tensor.as<double>()[i] = 1.0 / static_cast<double>(i + 1);
    write_npy(scratch / "a.npy", tensor);
    EXPECT_TRUE(test::same_bits("array", test::read_npy(scratch / "a.npy"), tensor));
  }
}

// Byte by byte as numpy.save has it.
TEST(Npy, BytesOfAFile) {
  const Scratch scratch;
  const std::vector<std::int32_t> numbers = {1, -2};
  write_npy(scratch / "a.npy", ConstTensorView(numbers.data(), {2}));
  const std::string bytes = slurp(scratch / "a.npy");
  ASSERT_EQ(bytes.size(), 128u + 8u);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 58), "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), } ");
  EXPECT_EQ(bytes[127], '\n');
  EXPECT_EQ(bytes.substr(128), std::string("\x01\0\0\0\xfe\xff\xff\xff", 8));
}

// NumPy's word for every type, and all of its bytes.
TEST(Npy, EveryTypeIsCalledWhatItIs) {
  const Scratch scratch;
  for (const auto& [type, name, size] : {std::tuple{DType::f64, "'<f8'", 8},
                                         {DType::f32, "'<f4'", 4},
                                         {DType::f16, "'<f2'", 2},
                                         {DType::bf16, "'<f4'", 4},
                                         {DType::i32, "'<i4'", 4},
                                         {DType::i64, "'<i8'", 8},
                                         {DType::boolean, "'|b1'", 1}}) {
    write_npy(scratch / "a.npy", Tensor::zeros({3, 5}, type));
    const std::string bytes = slurp(scratch / "a.npy");
    EXPECT_NE(bytes.find("{'descr': " + std::string(name) + ", "), bytes.npos) << name;
    EXPECT_EQ(bytes.size(), 128u + 15u * static_cast<std::size_t>(size)) << name;
  }
}

TEST(Npy, Bf16IsWidened) {
  const Scratch scratch;
  Tensor tensor = Tensor::empty({1}, DType::bf16);
  tensor.as<bfloat16>()[0] = bfloat16(1.5f);
  write_npy(scratch / "a.npy", tensor);
  const std::string bytes = slurp(scratch / "a.npy");
  EXPECT_NE(bytes.find("<f4"), bytes.npos);
  EXPECT_EQ(bytes.substr(bytes.size() - 4), std::string("\0\0\xc0\x3f", 4));
  Tensor two = Tensor::zeros({2, 3}, DType::f32);
  expect_error(ErrorCode::layout, {"row-major"}, [&] { write_npy(scratch / "a.npy", two.view().transpose(0, 1)); });
}

}  // namespace
}  // namespace polyhead::io
