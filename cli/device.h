// Where a command runs: on the CPU, or on a GPU.
#pragma once

#include "cli/commands.h"
#include "polyhead/context.h"

namespace polyhead::cli {

inline constexpr std::int64_t kMostThreads = 4096;

// The --device, --precision and --threads options of every command that runs a model.
struct DeviceChoice {
  std::string device = "cpu", precision;  // empty: the command's default
  std::int64_t threads = 0;
  bool trains = false;

  Option device_option();
  Option threads_option();
  Option precision_option(const std::string& by_default = "f32");
  Option training_precision_option();  // f16 has no room for gradients
  Device chosen() const;
  Context context() const;
};

}  // namespace polyhead::cli
