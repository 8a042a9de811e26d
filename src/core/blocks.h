// Quantised weights as GGUF has them: each row is a series of blocks, which are a few scales and the small integers
// that they multiply. A matrix [N,K] of DType::blocks lies in memory as strips of kStripRows rows, byte i of all of
// them side by side: a vector of one byte of every row then goes through the arithmetic of a single block.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead {

// By their numbers in files.
enum class BlockType : std::uint32_t {
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14
};

struct BlockFormat {
  BlockType type;
  std::string_view name;
  std::int64_t elements, bytes;  // of a block
  std::int64_t scales[2];        // where its numbers in f16 lie; the same twice if there is one
  // One block to f32, rounding as the gguf package does.
  void (*widen)(const std::uint8_t* block, float* to);

  std::int64_t row_bytes(std::int64_t columns) const { return columns / elements * bytes; }
  // Whether all numbers of these blocks are finite.
  bool all_finite(std::span<const std::uint8_t> blocks) const;
};

std::span<const BlockFormat> block_formats();
const BlockFormat& format_of(BlockType type);

inline constexpr std::int64_t kStripRows = 32;
inline constexpr std::int64_t kMostInBlock = 256;  // elements; those of all blocks divide it

// Reads a tensor of blocks on the host.
class BlockMatrix {
 public:
  explicit BlockMatrix(const ConstTensorView& blocks);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  const BlockFormat& format_of_strip(std::int64_t strip) const;
  // [bytes of a row][kStripRows]; rows beyond the last are 0.
  const std::uint8_t* strip(std::int64_t strip) const;

  const BlockFormat& format_of_row(std::int64_t row) const { return format_of_strip(row / kStripRows); }
  std::vector<std::uint8_t> row(std::int64_t row) const;  // its blocks
  void widen_row(std::int64_t row, float* to) const;

 private:
  const std::byte* data_;
  std::int64_t rows_, columns_;
};

// Makes such a tensor, row after row.
class BlockWriter {
 public:
  // A type for every strip.
  BlockWriter(const Dims& shape, std::span<const BlockType> strips);

  void put(std::int64_t row, const std::uint8_t* blocks);
  Tensor finish() && { return std::move(tensor_); }

 private:
  Tensor tensor_;
  BlockMatrix matrix_;
};

// The types of the strips of `rows` rows whose types are given; empty if two of them share a strip.
std::vector<BlockType> types_of_strips(std::span<const BlockType> rows);

// The same numbers in f32.
Tensor widened_blocks(const ConstTensorView& blocks);
// The bytes from the view's first on.
std::size_t bytes_of_blocks(const ConstTensorView& blocks);

}  // namespace polyhead
