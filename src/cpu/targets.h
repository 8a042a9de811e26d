#pragma once

#include <string_view>

namespace polyhead::cpu {

// Reads POLYHEAD_TARGET, once; throws if it names no target of this machine.
void choose_target();

// From now on kernels use the target of this name. Must not be called while an op is running.
void use_target(std::string_view name);

// Does the target in use multiply pairs of bf16?
bool multiplies_pairs();

}  // namespace polyhead::cpu
