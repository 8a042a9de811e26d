#include "core/blocks.h"

#include <algorithm>
#include <cstring>

namespace polyhead {
namespace {

// All sums and products below are rounded one by one: core is compiled without contraction to fused multiply-adds.

float half_at(const std::uint8_t* at) {
  float16 half;
  std::memcpy(&half.bits, at, sizeof half.bits);
  return static_cast<float>(half);
}

float signed_at(const std::uint8_t* at) { return static_cast<float>(static_cast<std::int8_t>(*at)); }

int bit(const std::uint8_t* bits, int n) { return bits[n / 8] >> n % 8 & 1; }

// Element n of 32 packed into 16 bytes, the low nibbles first.
int nibble(const std::uint8_t* bytes, int n) { return n < 16 ? bytes[n] & 15 : bytes[n - 16] >> 4; }

// 32 elements: scale d, then 4 bits each; d (q - 8).
void widen_q4_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 2, n) - 8);
}

// d, m, 4 bits each; d q + m.
void widen_q4_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 4, n)) + m;
}

// d, the fifth bits, 4 bits each; d (q - 16).
void widen_q5_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) {
    to[n] = d * static_cast<float>((nibble(block + 6, n) | bit(block + 2, n) << 4) - 16);
  }
}

// d, m, the fifth bits, 4 bits each; d q + m.
void widen_q5_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int n = 0; n < 32; ++n) to[n] = d * static_cast<float>(nibble(block + 8, n) | bit(block + 4, n) << 4) + m;
}

// d, then a signed byte each; d q.
void widen_q8_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int n = 0; n < 32; ++n) to[n] = signed_at(block + 2 + n) * d;
}

// The scale and the minimum of each eighth of a block of 256: 6 bits each in 12 bytes. The upper two bits of the last
// four of each kind lie in the first eight bytes.
struct Scales {
  float scale[8], minimum[8];

  explicit Scales(const std::uint8_t* block) {
    const float d = half_at(block), dmin = half_at(block + 2);
    const std::uint8_t* packed = block + 4;
    for (int n = 0; n < 4; ++n) {
      const int low = packed[n], high = packed[4 + n], rest = packed[8 + n];
      scale[n] = d * static_cast<float>(low & 63);
      minimum[n] = dmin * static_cast<float>(high & 63);
      scale[4 + n] = d * static_cast<float>((rest & 15) | (low >> 2 & 48));
      minimum[4 + n] = dmin * static_cast<float>(rest >> 4 | (high >> 2 & 48));
    }
  }
};

// 256 elements in eighths of 32. d, dmin, 12 bytes of scales, 4 bits each: two eighths share 32 bytes.
void widen_q4_k(const std::uint8_t* block, float* to) {
  const Scales scales(block);
  for (int e = 0; e < 8; ++e) {
    const std::uint8_t* low = block + 16 + e / 2 * 32;
    for (int n = 0; n < 32; ++n) {
      to[e * 32 + n] = scales.scale[e] * static_cast<float>(low[n] >> e % 2 * 4 & 15) - scales.minimum[e];
    }
  }
}

// As above, with 32 bytes of fifth bits before the nibbles: byte n holds those of element n of all eighths.
void widen_q5_k(const std::uint8_t* block, float* to) {
  const Scales scales(block);
  for (int e = 0; e < 8; ++e) {
    const std::uint8_t *fifth = block + 16, *low = block + 48 + e / 2 * 32;
    for (int n = 0; n < 32; ++n) {
      const int q = (low[n] >> e % 2 * 4 & 15) | (fifth[n] >> e & 1) << 4;
      to[e * 32 + n] = scales.scale[e] * static_cast<float>(q) - scales.minimum[e];
    }
  }
}

// 256 elements: 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, d; d scale (q - 32).
// In each half of a block, 64 bytes hold the nibbles of elements 0..63 and 64..127, and 32 bytes the pairs of its four
// quarters.
void widen_q6_k(const std::uint8_t* block, float* to) {
  const float d = half_at(block + 208);
  for (int n = 0; n < 256; ++n) {
    const int half = n / 128, in_half = n % 128;
    const int low = block[half * 64 + in_half % 64] >> in_half / 64 * 4 & 15;
    const int high = block[128 + half * 32 + in_half % 32] >> in_half / 32 * 2 & 3;
    to[n] = d * signed_at(block + 192 + n / 16) * static_cast<float>((low | high << 4) - 32);
  }
}

constexpr BlockFormat kFormats[] = {
    {BlockType::q4_0, "Q4_0", 32, 18, {0, 0}, widen_q4_0},
    {BlockType::q4_1, "Q4_1", 32, 20, {0, 2}, widen_q4_1},
    {BlockType::q5_0, "Q5_0", 32, 22, {0, 0}, widen_q5_0},
    {BlockType::q5_1, "Q5_1", 32, 24, {0, 2}, widen_q5_1},
    {BlockType::q8_0, "Q8_0", 32, 34, {0, 0}, widen_q8_0},
    {BlockType::q4_k, "Q4_K", 256, 144, {0, 2}, widen_q4_k},
    {BlockType::q5_k, "Q5_K", 256, 176, {0, 2}, widen_q5_k},
    {BlockType::q6_k, "Q6_K", 256, 210, {208, 208}, widen_q6_k},
};

// The memory of a tensor of blocks begins with its size and an entry for every strip.
struct Head {
  std::uint64_t bytes;
};
struct StripEntry {
  std::uint64_t at;  // from the beginning
  std::uint64_t type;
};

constexpr std::size_t kAlignment = 64;

StripEntry entry_of(const std::byte* data, std::int64_t strip) {
  StripEntry entry;
  std::memcpy(&entry, data + sizeof(Head) + static_cast<std::size_t>(strip) * sizeof entry, sizeof entry);
  return entry;
}

Tensor blocks_of(const Dims& shape, std::span<const BlockType> strips) {
  const auto aligned = [](std::size_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; };
  std::vector<StripEntry> entries;
  std::size_t at = aligned(sizeof(Head) + strips.size() * sizeof(StripEntry));
  for (const BlockType type : strips) {
    entries.push_back({at, static_cast<std::uint64_t>(type)});
    at = aligned(at + static_cast<std::size_t>(kStripRows * format_of(type).row_bytes(shape[1])));
  }
  Tensor tensor = Tensor::with_bytes(at, shape, DType::blocks);
  auto* const data = static_cast<std::byte*>(tensor.view().data());
  std::memset(data, 0, at);  // of the rows that fill up the last strip, too
  const Head head{at};
  std::memcpy(data, &head, sizeof head);
  if (!entries.empty()) std::memcpy(data + sizeof head, entries.data(), entries.size() * sizeof(StripEntry));
  return tensor;
}

}  // namespace

bool BlockFormat::all_finite(std::span<const std::uint8_t> blocks) const {
  for (std::size_t block = 0; block < blocks.size(); block += static_cast<std::size_t>(bytes)) {
    for (const std::int64_t at : scales) {
      if ((blocks[block + static_cast<std::size_t>(at) + 1] & 0x7c) == 0x7c) return false;
    }
  }
  return true;
}

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat& format_of(BlockType type) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats),
                       [&](const auto& format) { return format.type == type; });
}

BlockMatrix::BlockMatrix(const ConstTensorView& blocks)
    : data_(static_cast<const std::byte*>(blocks.data())), rows_(blocks.shape(0)), columns_(blocks.shape(1)) {}

const BlockFormat& BlockMatrix::format_of_strip(std::int64_t strip) const {
  return format_of(static_cast<BlockType>(entry_of(data_, strip).type));
}

const std::uint8_t* BlockMatrix::strip(std::int64_t strip) const {
  return reinterpret_cast<const std::uint8_t*>(data_ + entry_of(data_, strip).at);
}

std::vector<std::uint8_t> BlockMatrix::row(std::int64_t row) const {
  std::vector<std::uint8_t> blocks(static_cast<std::size_t>(format_of_row(row).row_bytes(columns_)));
  const std::uint8_t* from = strip(row / kStripRows) + row % kStripRows;
  for (std::uint8_t& byte : blocks) byte = *std::exchange(from, from + kStripRows);
  return blocks;
}

void BlockMatrix::widen_row(std::int64_t row, float* to) const {
  const BlockFormat& format = format_of_row(row);
  const std::vector<std::uint8_t> blocks = this->row(row);
  for (std::int64_t at = 0; at < std::ssize(blocks); at += format.bytes, to += format.elements) {
    format.widen(blocks.data() + at, to);
  }
}

BlockWriter::BlockWriter(const Dims& shape, std::span<const BlockType> strips)
    : tensor_(blocks_of(shape, strips)), matrix_(tensor_) {}

void BlockWriter::put(std::int64_t row, const std::uint8_t* blocks) {
  auto* to = const_cast<std::uint8_t*>(matrix_.strip(row / kStripRows)) + row % kStripRows;
  const std::int64_t bytes = matrix_.format_of_row(row).row_bytes(matrix_.columns());
  for (std::int64_t n = 0; n < bytes; ++n) to[n * kStripRows] = blocks[n];
}

std::vector<BlockType> types_of_strips(std::span<const BlockType> rows) {
  std::vector<BlockType> types;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (row % kStripRows == 0) types.push_back(rows[row]);
    if (rows[row] != types.back()) return {};
  }
  return types;
}

Tensor widened_blocks(const ConstTensorView& blocks) {
  Tensor wide = Tensor::empty(blocks.shape(), DType::f32);
  const BlockMatrix matrix(blocks);
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.widen_row(row, wide.as<float>() + row * matrix.columns());
  }
  return wide;
}

std::size_t bytes_of_blocks(const ConstTensorView& blocks) {
  Head head;
  std::memcpy(&head, blocks.data(), sizeof head);
  return static_cast<std::size_t>(head.bytes);
}

}  // namespace polyhead
