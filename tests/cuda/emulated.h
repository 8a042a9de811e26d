// A context whose device is the emulator.
#pragma once

#include "polyhead/context.h"

namespace polyhead::test::gpu {

Context emulated_context();

}  // namespace polyhead::test::gpu
