#include "cli/device.h"

namespace polyhead::cli {

Option DeviceChoice::device_option() {
  return {"device", "DEVICE", "cpu, or cuda: the first visible NVIDIA GPU", &device, {"cpu", "cuda"}};
}

Option DeviceChoice::threads_option() {
  return {"threads", "N", "threads; 0: all processors; the result is the same for any number", &threads, {}, 0, 4096};
}

Device DeviceChoice::chosen() const { return device == "cuda" ? Device{Device::Kind::cuda, 0} : Device{}; }

Context DeviceChoice::context() const {
  return device == "cuda" ? Context(chosen()) : Context(static_cast<int>(threads));
}

}  // namespace polyhead::cli
