// Where executors come from: every backend defines these functions, and only ops/executors.cpp calls them.
#pragma once

#include <memory>
#include <optional>
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
std::string reason();  // why not
// In a stream of its own, or in the caller's cudaStream_t. Throws Error (code device) with the reason.
std::unique_ptr<Executor> make_executor(int index, std::optional<void*> stream = {});

}  // namespace polyhead::cuda
