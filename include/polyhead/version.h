// The version of these headers, and of the library that is linked.
#pragma once

#define POLYHEAD_VERSION_MAJOR 0
#define POLYHEAD_VERSION_MINOR 1
#define POLYHEAD_VERSION_PATCH 0

#include "polyhead/export.h"

namespace POLYHEAD_PUBLIC polyhead {

const char* version() noexcept;  // "0.1.0"

}  // namespace polyhead
