// What reader and writer of safetensors agree on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace polyhead::io {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and copied as they are");

inline constexpr std::string_view kMetadataKey = "__metadata__";
inline constexpr std::uint64_t kLengthBytes = 8;          // of the header's length, before it
inline constexpr std::uint64_t kMaxHeader = 100'000'000;  // as in the reference implementation
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 17;

}  // namespace polyhead::io
