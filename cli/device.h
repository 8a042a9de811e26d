// Where a command works: on the processors, or on a GPU.
#pragma once

#include "cli/commands.h"
#include "polyhead/context.h"

namespace polyhead::cli {

// What --device and --threads say, of every command that runs a model.
struct DeviceChoice {
  std::string device = "cpu", products = "f32";
  std::int64_t threads = 0;

  Option device_option();
  Option threads_option();
  Option products_option();  // where rounded operands are worth their while: in training
  Device chosen() const;
  Context context() const;
};

}  // namespace polyhead::cli
