// Where a command runs: on the CPU, or on a GPU.
#pragma once

#include "cli/commands.h"
#include "polyhead/context.h"

namespace polyhead::cli {

inline constexpr std::int64_t kMostThreads = 4096;

// The --device and --threads options of every command that runs a model.
struct DeviceChoice {
  std::string device = "cpu", products = "f32";
  std::int64_t threads = 0;

  Option device_option();
  Option threads_option();
  Option products_option();  // for training, where rounded operands are worthwhile
  Device chosen() const;
  Context context() const;
};

}  // namespace polyhead::cli
