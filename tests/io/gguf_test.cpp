// GGUF files that the gguf package wrote: every type of metadata and of tensor, the latter to the bits that the package
// makes of them (tools/gguf-fixtures).
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "io/safetensors.h"
#include "io/scratch.h"
#include "support/bits.h"

namespace polyhead::io {
namespace {

const std::filesystem::path kFixtures = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/gguf";

TEST(Gguf, Metadata) {
  const GgufHeader header = read_gguf_header(kFixtures / "types.gguf");
  EXPECT_EQ(header.version, 3u);
  const Json& metadata = header.metadata;
  EXPECT_EQ(metadata.at("general.architecture"), "test");
  EXPECT_EQ(metadata.at("test.uint8"), 200);
  EXPECT_EQ(metadata.at("test.int8"), -100);
  EXPECT_EQ(metadata.at("test.uint16"), 60000);
  EXPECT_EQ(metadata.at("test.int16"), -30000);
  EXPECT_EQ(metadata.at("test.uint32"), 4000000000);
  EXPECT_EQ(metadata.at("test.int32"), -2000000000);
  EXPECT_EQ(metadata.at("test.uint64"), (std::uint64_t{1} << 63) + 5);
  EXPECT_EQ(metadata.at("test.int64"), -(std::int64_t{1} << 62));
  EXPECT_EQ(metadata.at("test.float32"), 0.1f);
  EXPECT_EQ(metadata.at("test.float64"), 0.1);
  EXPECT_EQ(metadata.at("test.bool"), true);
  EXPECT_EQ(metadata.at("test.string"), "h\u00e9 \U0001f600");
  EXPECT_EQ(metadata.at("test.texts"), Json::array({"a", "", "\u4e2d"}));
  EXPECT_EQ(metadata.at("test.numbers"), Json::array({1, -2, 3}));
  EXPECT_EQ(metadata.at("test.flags"), Json::array({true, false}));
}

// 16-bit floats widened, so that all can be compared.
Tensor widened(Tensor tensor) {
  if (tensor.dtype() == DType::f32) return tensor;
  Tensor wide = Tensor::empty(tensor.shape(), DType::f32);
  for (std::int64_t i = 0; i < count_of(tensor.shape()); ++i) {
    wide.as<float>()[i] = tensor.dtype() == DType::f16 ? static_cast<float>(tensor.as<float16>()[i])
                                                       : static_cast<float>(tensor.as<bfloat16>()[i]);
  }
  return wide;
}

TEST(Gguf, TensorsOfEveryType) {
  Gguf found = read_gguf(kFixtures / "types.gguf");
  Safetensors expected = read_safetensors(kFixtures / "types.safetensors");
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  ASSERT_EQ(found.tensors.size(), 11u);
  EXPECT_EQ(found.tensors[1].second.dtype(), DType::f16);
  EXPECT_EQ(found.tensors[2].second.dtype(), DType::bf16);
  for (auto& [name, tensor] : expected.tensors) {
    EXPECT_TRUE(test::same_bits(name, widened(found.take(name)), tensor));
  }
  expect_error(ErrorCode::input, {"types.gguf", "no tensor \"q4_k\""}, [&] { found.take("q4_k"); });
}

TEST(Gguf, Listed) {
  const GgufHeader header = read_gguf_header(kFixtures / "types.gguf");
  const std::string bytes = slurp(kFixtures / "types.gguf");
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    EXPECT_EQ(tensor.offset % 32, 0u);
    EXPECT_GE(tensor.offset, end);
    end = tensor.offset + tensor.bytes;
  }
  EXPECT_LE(end, bytes.size());
  EXPECT_EQ(header.tensors.back().format, "Q6_K");
  EXPECT_EQ(header.tensors.back().shape, (Dims{3, 512}));
  EXPECT_EQ(header.tensors.back().bytes, 3u * 2 * 210);
  EXPECT_EQ(header.tensors.front().shape, (Dims{5, 2, 7}));
}

TEST(Gguf, MetadataAlone) {
  const Scratch scratch;
  spill(scratch / "a.gguf", gguf_metadata_alone(kFixtures / "types.gguf"));
  const GgufHeader alone = read_gguf_header(scratch / "a.gguf");
  EXPECT_EQ(alone.metadata, read_gguf_header(kFixtures / "types.gguf").metadata);
  EXPECT_TRUE(alone.tensors.empty());
  EXPECT_EQ(alone.metadata_end, std::filesystem::file_size(scratch / "a.gguf"));
}

// Version 2 differs by nothing but its number.
TEST(Gguf, VersionTwo) {
  const Scratch scratch;
  std::string bytes = slurp(kFixtures / "types.gguf");
  bytes[4] = 2;
  spill(scratch / "a.gguf", bytes);
  Gguf two = read_gguf(scratch / "a.gguf"), three = read_gguf(kFixtures / "types.gguf");
  EXPECT_TRUE(test::same_bits("q5_k", two.take("q5_k"), three.take("q5_k")));
}

}  // namespace
}  // namespace polyhead::io
