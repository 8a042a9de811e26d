#include "cli/device.h"

namespace polyhead::cli {

Option DeviceChoice::device_option() {
  return {"device", "DEVICE", "cpu, or cuda: the first visible NVIDIA GPU", &device, {"cpu", "cuda"}};
}

Option DeviceChoice::threads_option() {
  const std::string help = "threads; 0: all processors; the result is the same for any number";
  return {"threads", "N", help, &threads, {}, 0, kMostThreads};
}

Option DeviceChoice::products_option() {
  return {"products",
          "TYPE",
          "on a GPU: f32; tf32 rounds matrix products; bf16 computes blocks in bf16",
          &products,
          {"f32", "tf32", "bf16"}};
}

Device DeviceChoice::chosen() const { return device == "cuda" ? Device{Device::Kind::cuda, 0} : Device{}; }

Context DeviceChoice::context() const {
  if (products != "f32" && device != "cuda") {
    throw Failure(Exit::usage, "--products " + products + ": the CPU rounds nothing; add --device cuda");
  }
  Context context = device == "cuda" ? Context(chosen()) : Context(static_cast<int>(threads));
  if (products == "tf32") context.set_float32_products(Float32Products::tf32);
  if (products == "bf16") context.set_float32_products(Float32Products::bf16);
  return context;
}

}  // namespace polyhead::cli
