#include "report/deflate.h"

#include <zlib.h>

#include "polyhead/error.h"

namespace polyhead::report {

std::vector<std::uint8_t> deflated(std::span<const std::uint8_t> bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::vector<std::uint8_t> packed(size);
  const int code =
      compress2(packed.data(), &size, bytes.data(), static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) throw Error(ErrorCode::value, "page", "the weights cannot be compressed: not enough memory");
  packed.resize(size);
  return packed;
}

}  // namespace polyhead::report
