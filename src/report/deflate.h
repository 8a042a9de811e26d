// Compressed bytes, as browsers unpack them (DecompressionStream, "deflate": the format of zlib).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace polyhead::report {

std::vector<std::uint8_t> deflated(std::span<const std::uint8_t> bytes);

}  // namespace polyhead::report
