// Attention on a device against the reference: one case, into poisoned memory, twice.
#pragma once

#include <string>

#include "polyhead/context.h"
#include "support/cases.h"

namespace polyhead::test::gpu {

// What is wrong, or nothing.
std::string run_forward(Context& context, const Case& recipe);
std::string run_backward(Context& context, const Case& recipe);
// Without gradients of gates and sinks, which send a call to kernels of their own.
std::string run_backward_to_inputs(Context& context, const Case& recipe);
// f32 forward and back with what TF32 rounds: operands, to half a thousandth. They must be rounded, and no further.
std::string run_tf32(Context& context, const Case& recipe);

}  // namespace polyhead::test::gpu
