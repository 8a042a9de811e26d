// The version of the library that is linked, and of these headers.
#pragma once

#define POLYHEAD_VERSION_MAJOR 0
#define POLYHEAD_VERSION_MINOR 1
#define POLYHEAD_VERSION_PATCH 0

namespace polyhead {

const char* version() noexcept;  // "0.1.0"

}  // namespace polyhead
