// Contexts as the public constructors do not make them.
#pragma once

#include "polyhead/context.h"

namespace polyhead::ops {

// One whose calls take one thread of the host, so that several can run side by side.
Context context_of_one_thread(Device device);

}  // namespace polyhead::ops
