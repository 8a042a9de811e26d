// Where executors come from: what every backend defines, and ops/executors.cpp alone calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/executor.h"

namespace polyhead::cpu {

std::unique_ptr<Executor> make_executor(int threads);  // 0: one per processor that it may use

// The vector instruction set in use, and all that this build and machine allow, best first.
std::string target_name();
std::vector<std::string> target_names();

}  // namespace polyhead::cpu

namespace polyhead::cuda {

bool available() noexcept;
std::string reason();                                // why not
std::unique_ptr<Executor> make_executor(int index);  // throws Error (code device) with the reason

}  // namespace polyhead::cuda
