#include "polyhead/error.h"

#include "polyhead/version.h"

namespace polyhead {

Error::Error(ErrorCode code, std::string_view op, const std::string& message)
    : std::runtime_error(std::string("[").append(op).append("] ").append(message)), code_(code) {}

const char* version() noexcept {
#define POLYHEAD_TEXT_OF(x) #x
#define POLYHEAD_TEXT(x) POLYHEAD_TEXT_OF(x)
  return POLYHEAD_TEXT(POLYHEAD_VERSION_MAJOR) "." POLYHEAD_TEXT(POLYHEAD_VERSION_MINOR) "." POLYHEAD_TEXT(
      POLYHEAD_VERSION_PATCH);
}

}  // namespace polyhead
