// What the reader and the writer of safetensors agree on.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace polyhead::io {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and copied as they are");

inline constexpr std::string_view kMetadataKey = "__metadata__";
// In the metadata: the checksum of the whole file, computed with sixteen zeros in its own place. Other readers see one
// more text.
inline constexpr std::string_view kChecksumKey = "polyhead_xxh64";
inline constexpr std::string_view kNoChecksum = "0000000000000000";
inline constexpr std::uint64_t kLengthBytes = 8;          // the header's length, which comes first
inline constexpr std::uint64_t kMaxHeader = 100'000'000;  // as in the reference implementation
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 17;

// Where the checksum's digits begin in a header, or npos. Finds them only as our writer writes them; quotes in names
// are escaped, so nothing else looks the same.
inline std::size_t checksum_place(std::string_view header) {
  const std::string before = '"' + std::string(kChecksumKey) + "\":\"";
  const std::size_t at = header.find(before);
  const bool whole = at != header.npos && header.size() - at >= before.size() + kNoChecksum.size();
  return whole ? at + before.size() : header.npos;
}

}  // namespace polyhead::io
