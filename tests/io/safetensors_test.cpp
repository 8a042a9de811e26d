// safetensors there and back: bits, orders, shapes, and a file made by hand.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/checksum.h"
#include "io/safetensors_format.h"
#include "io/scratch.h"
#include "support/bits.h"

namespace polyhead::io {
namespace {

using test::same_bits;

// Bytes 0, 1, 2, ... (0 and 1 for bool); among 16-bit floats that is all sorts of numbers.
Tensor counting(const Dims& shape, DType dtype) {
  Tensor tensor = Tensor::empty(shape, dtype);
  const std::size_t bytes = static_cast<std::size_t>(count_of(shape)) * size_of(dtype);
  auto* data = static_cast<unsigned char*>(tensor.view().data());
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : i);
  return tensor;
}

TEST(Safetensors, RoundTripOfAllTypesAndShapes) {
  const Scratch scratch;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const DType dtype : {DType::boolean, DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32}) {
    for (const Dims& shape : {Dims{}, Dims{1}, Dims{0}, Dims{3, 5}, Dims{2, 0, 7}, Dims{1, 2, 1, 3, 1, 2}}) {
      tensors.emplace_back(std::string(name_of(dtype)) + to_string(shape), counting(shape, dtype));
    }
  }
  tensors.emplace_back("", counting({1000, 77}, DType::f32));  // larger than any buffer, of an odd name
  tensors.emplace_back("\"\\\n\u00fc", counting({2}, DType::f32));
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
  const Metadata metadata = {{"format", "pt"}, {"", ""}, {"\u00fc\"", "\n"}};

  write_safetensors(scratch / "a", named, metadata);
  const Safetensors read = read_safetensors(scratch / "a");
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].first, tensors[i].first);  // in the order given
    EXPECT_EQ(read.tensors[i].second.dtype(), tensors[i].second.dtype());
    EXPECT_TRUE(same_bits(tensors[i].first, read.tensors[i].second, tensors[i].second));
  }

  const std::string bytes = slurp(scratch / "a");
  write_safetensors(scratch / "a", named, metadata);  // onto itself
  EXPECT_EQ(slurp(scratch / "a"), bytes);
  EXPECT_EQ(scratch.files(), 1);
}

// Integers of other widths are read as 32 bits; what a checksum covers are the bytes as they are stored.
TEST(Safetensors, ChecksumsCoverIntegersAsTheyAreStored) {
  for (const auto& [format, bytes] :
       {std::pair{"I8", 1}, {"U8", 1}, {"I16", 2}, {"U16", 2}, {"U32", 4}, {"I64", 8}, {"U64", 8}}) {
    SCOPED_TRACE(format);
    std::string data(static_cast<std::size_t>(3 * bytes), '\0');
    for (int n = 0; n < 3; ++n) data[static_cast<std::size_t>(n * bytes)] = static_cast<char>(5 + n);
    const auto header_with = [&, format = format](std::string_view digits) {
      return R"({"__metadata__":{"polyhead_xxh64":")" + std::string(digits) + R"("},"t":{"dtype":")" + format +
             R"(","shape":[3],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    };
    Checksum checksum;
    checksum.add(safetensors_bytes(header_with(kNoChecksum), data));
    const Scratch scratch;
    spill(scratch / "a", safetensors_bytes(header_with(checksum.digits()), data));
    Safetensors read = read_safetensors(scratch / "a");
    EXPECT_TRUE(read.checked);
    const Tensor numbers = read.take("t");
    for (int n = 0; n < 3; ++n) EXPECT_EQ(numbers.as<std::int32_t>()[n], 5 + n);
    data[0] = 4;
    spill(scratch / "a", safetensors_bytes(header_with(checksum.digits()), data));
    expect_error(ErrorCode::input, {"checksum"}, [&] { return read_safetensors(scratch / "a"); });
  }
}

TEST(Safetensors, NoTensors) {
  const Scratch scratch;
  write_safetensors(scratch / "a", {});
  EXPECT_EQ(slurp(scratch / "a"), safetensors_bytes(R"({"__metadata__":{"polyhead_xxh64":"b3d40307d4e1d4b4"}}  )", ""));
  EXPECT_TRUE(read_safetensors(scratch / "a").tensors.empty());
}

TEST(Safetensors, BitsOfNanAndInfinity) {
  const Scratch scratch;
  const std::vector<std::uint32_t> bits = {0x7fc00000, 0x7fa00001, 0xffffffff, 0x7f800000, 0xff800000, 0x80000000, 1};
  Tensor tensor = Tensor::empty({7}, DType::f32);
  std::memcpy(tensor.view().data(), bits.data(), 28);
  write_safetensors(scratch / "a", {{"t", tensor}});
  const Tensor read = read_safetensors(scratch / "a").take("t");
  EXPECT_EQ(std::memcmp(read.view().data(), bits.data(), 28), 0);
}

TEST(Safetensors, ViewsWithStrides) {
  const Scratch scratch;
  const Tensor tensor = counting({4, 6}, DType::f32);
  const ConstTensorView view = tensor;
  const ConstTensorView repeated(view.data(), DType::f32, {2, 3}, {0, 1});
  write_safetensors(scratch / "a",
                    {{"turned", view.transpose(0, 1)}, {"part", view.slice(1, 2, 4)}, {"twice", repeated}});
  Safetensors read = read_safetensors(scratch / "a");
  const Tensor turned = read.take("turned"), part = read.take("part"), twice = read.take("twice");
  const float* from = tensor.as<float>();
  ASSERT_EQ(turned.shape(), (Dims{6, 4}));
  ASSERT_EQ(part.shape(), (Dims{4, 2}));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(turned.as<float>()[i], from[i % 4 * 6 + i / 4]);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(part.as<float>()[i], from[i / 2 * 6 + 2 + i % 2]);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(twice.as<float>()[i], from[i % 3]);
}

// Byte for byte: order of the header as given, wide elements first in the data, which begin at a multiple of 8.
TEST(Safetensors, WritesTheseBytes) {
  const Scratch scratch;
  const bool flags[] = {true, false, true};
  const float one = 1;
  write_safetensors(scratch / "a", {{"flags", ConstTensorView(flags, {3})}, {"one", ConstTensorView(&one, {})}},
                    {{"k", "v"}});
  // The digits are those of xxh64sum, of the same bytes with sixteen zeros in their place.
  std::string header =
      R"({"__metadata__":{"k":"v","polyhead_xxh64":"e990c6265819be58"},"flags":{"dtype":"BOOL","shape":[3],"data_offsets":[4,7]},)"
      R"("one":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(slurp(scratch / "a"), safetensors_bytes(header, std::string_view("\0\0\x80\x3f\1\0\1", 7)));
}

// A file's size is known before it is written: with and without tensors, of narrow and wide elements, with metadata.
TEST(Safetensors, SizeIsKnownBeforehand) {
  const Scratch scratch;
  const Tensor many = counting({4, 6}, DType::f32), few = counting({3}, DType::i32);
  const bool flags[] = {true, false, true};
  const std::vector<std::vector<NamedTensor>> files = {
      {}, {{"many", many}}, {{"flags", ConstTensorView(flags, {3})}, {"few", few}, {"many", many}}};
  for (const std::vector<NamedTensor>& tensors : files) {
    for (const Metadata& metadata : {Metadata{}, Metadata{{"format", "pt"}, {"by", "hand"}}}) {
      write_safetensors(scratch / "a", tensors, metadata);
      EXPECT_EQ(safetensors_bytes(tensors, metadata), slurp(scratch / "a").size());
    }
  }
}

// Made by hand: data in another order than the header, not aligned, spaces in the JSON.
TEST(Safetensors, ReadsAForeignFile) {
  const Scratch scratch;
  spill(scratch / "a", safetensors_bytes(R"({ "b" : {"shape":[2],"dtype":"F32","data_offsets":[1,9]}, )"
                                         R"("a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                                         R"("e":{"dtype":"F16","shape":[0,4],"data_offsets":[1,1]}}  )",
                                         std::string_view("\1\0\0\x80\x3f\0\0\0\xc0", 9)));
  Safetensors read = read_safetensors(scratch / "a");
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].first, "b");
  const Tensor b = read.take("b");
  EXPECT_EQ(b.as<float>()[0], 1.0f);
  EXPECT_EQ(b.as<float>()[1], -2.0f);
  EXPECT_TRUE(read.take("a").as<bool>()[0]);
  EXPECT_EQ(read.take("e").shape(), (Dims{0, 4}));
}

TEST(Safetensors, WholeNumbersOfOtherWidthsBecomeI32) {
  const Scratch scratch;
  const auto read = [&](const std::string& dtype, std::string_view data) {
    spill(scratch / "a", safetensors_bytes(R"({"t":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,)" +
                                               std::to_string(data.size()) + "]}}",
                                           data));
    const Tensor tensor = read_safetensors(scratch / "a").take("t");
    return std::vector<std::int32_t>(tensor.as<std::int32_t>(), tensor.as<std::int32_t>() + 2);
  };
  using Numbers = std::vector<std::int32_t>;
  EXPECT_EQ(read("I8", "\xff\x7f"), (Numbers{-1, 127}));
  EXPECT_EQ(read("U8", "\xff\x7f"), (Numbers{255, 127}));
  EXPECT_EQ(read("I16", "\xff\xff\xff\x7f"), (Numbers{-1, 32767}));
  EXPECT_EQ(read("U16", "\xff\xff\xff\x7f"), (Numbers{65535, 32767}));
  EXPECT_EQ(read("U32", std::string_view("\7\0\0\0\xff\xff\xff\x7f", 8)), (Numbers{7, 2147483647}));
  EXPECT_EQ(read("I64", std::string_view("\x05\0\0\0\0\0\0\0\0\0\0\x80\xff\xff\xff\xff", 16)),
            (Numbers{5, std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(read("U64", std::string_view("\x05\0\0\0\0\0\0\0\xff\xff\xff\x7f\0\0\0\0", 16)), (Numbers{5, 2147483647}));
  expect_error(ErrorCode::input, {"\"t\"", "32 bits"},
               [&] { read("I64", std::string_view("\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0", 16)); });
  expect_error(ErrorCode::input, {"32 bits"}, [&] { read("U32", std::string_view("\0\0\0\0\0\0\0\x80", 8)); });
  expect_error(ErrorCode::input, {"32 bits"},
               [&] { read("U64", std::string_view("\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0", 16)); });
}

TEST(Safetensors, TakeAndHas) {
  const Scratch scratch;
  const float one = 1;
  write_safetensors(scratch / "a", {{"wte.weight", ConstTensorView(&one, {1})}});
  Safetensors read = read_safetensors(scratch / "a");
  EXPECT_TRUE(read.has("wte.weight"));
  EXPECT_FALSE(read.has("wpe.weight"));
  expect_error(ErrorCode::input, {"/a: no tensor \"wpe.weight\"; did you mean 'wte.weight'?"},
               [&] { return read.take("wpe.weight"); });
  EXPECT_EQ(read.take("wte.weight").as<float>()[0], 1.0f);
  EXPECT_FALSE(read.has("wte.weight"));
  expect_error(ErrorCode::input, {"no tensor"}, [&] { return read.take("wte.weight"); });
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
  const Scratch scratch;
  const float one = 1;
  const ConstTensorView view(&one, {1});
  const auto write = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata = {}) {
    return [=, &scratch] { write_safetensors(scratch / "a", tensors, metadata); };
  };
  expect_error(ErrorCode::value, {"\"t\"", "once"}, write({{"t", view}, {"t", view}}));
  expect_error(ErrorCode::value, {"__metadata__"}, write({{"__metadata__", view}}));
  expect_error(ErrorCode::value, {"\"t\"", "nothing"}, write({{"t", {}}}));
  expect_error(ErrorCode::value, {"UTF-8"}, write({{"\xff", view}}));
  expect_error(ErrorCode::value, {"UTF-8"}, write({}, {{"k", "\xff"}}));
  expect_error(ErrorCode::layout, {"null"}, write({{"t", ConstTensorView(static_cast<const float*>(nullptr), {1})}}));
  expect_error(ErrorCode::device, {"host"},
               write({{"t", ConstTensorView(&one, DType::f32, {1}, {1}, Device{Device::Kind::cuda, 0})}}));
  EXPECT_EQ(scratch.files(), 0);
}

}  // namespace
}  // namespace polyhead::io
