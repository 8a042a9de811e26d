#include "cli/device.h"

namespace polyhead::cli {

Option Workplace::device_option() {
  return {"device",
          "DEVICE",
          "cpu, or cuda: the first NVIDIA GPU that CUDA_VISIBLE_DEVICES leaves",
          &device,
          {"cpu", "cuda"}};
}

Option Workplace::threads_option() {
  return {"threads", "N", "threads; 0 for all; they change the time, not the result", &threads, {}, 0, 4096};
}

Device Workplace::chosen() const { return device == "cuda" ? Device{Device::Kind::cuda, 0} : Device{}; }

Context Workplace::context() const { return device == "cuda" ? Context(chosen()) : Context(static_cast<int>(threads)); }

}  // namespace polyhead::cli
