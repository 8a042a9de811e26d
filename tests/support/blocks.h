// Matrices of random quantised blocks.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/blocks.h"
#include "support/random.h"

namespace polyhead::test {

// One row's blocks: any bytes, but finite scales; some of them subnormal, some 0.
inline std::vector<std::uint8_t> random_row(const BlockFormat& format, std::int64_t columns, Random& random) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(format.row_bytes(columns)));
  for (std::uint8_t& byte : row) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::size_t block = 0; block < row.size(); block += static_cast<std::size_t>(format.bytes)) {
    for (const std::int64_t at : format.scales) {
      const float sizes[] = {1.0f, 1e-3f, 3e-6f, 0.0f};
      const float16 scale(sizes[random.below(4)] * static_cast<float>(random.normal()));
      std::memcpy(row.data() + block + at, &scale.bits, sizeof scale.bits);
    }
  }
  return row;
}

// strips: the type of each 32 rows.
inline Tensor random_blocks(const Dims& shape, const std::vector<BlockType>& strips, Random& random) {
  BlockWriter writer(shape, strips);
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const BlockType type = strips[static_cast<std::size_t>(row / kStripRows)];
    writer.put(row, random_row(format_of(type), shape[1], random).data());
  }
  return std::move(writer).finish();
}
inline Tensor random_blocks(const Dims& shape, BlockType type, Random& random) {
  return random_blocks(shape, std::vector(static_cast<std::size_t>((shape[0] + kStripRows - 1) / kStripRows), type),
                       random);
}

}  // namespace polyhead::test
