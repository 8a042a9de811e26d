#include "polyhead/version.h"

namespace polyhead {

const char* version() noexcept {
#define POLYHEAD_TEXT_OF(x) #x
#define POLYHEAD_TEXT(x) POLYHEAD_TEXT_OF(x)
  return POLYHEAD_TEXT(POLYHEAD_VERSION_MAJOR) "." POLYHEAD_TEXT(POLYHEAD_VERSION_MINOR) "." POLYHEAD_TEXT(
      POLYHEAD_VERSION_PATCH);
}

}  // namespace polyhead
