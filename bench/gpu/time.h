// How fast attention is on the GPU.
#pragma once

#include "polyhead/context.h"

namespace polyhead::test::gpu {

// Prints a table in TFLOP/s.
void time_attention(Context& context);

}  // namespace polyhead::test::gpu
