#include "cli/device.h"

#include "cli/ranks.h"
#include "polyhead/info.h"

namespace polyhead::cli {

Option DeviceChoice::device_option() {
  return {"device", "DEVICE", "cpu, or cuda: the first visible NVIDIA GPU", &device, {"cpu", "cuda"}};
}

Option DeviceChoice::threads_option() {
  const std::string help = "threads; 0: all processors; the result is the same for any number";
  return {"threads", "N", help, &threads, {}, 0, kMostThreads};
}

Option DeviceChoice::precision_option(const std::string& by_default) {
  return {
      "precision",
      "TYPE",
      "what may be rounded: nothing (f32); on a GPU also the operands of matrix products (tf32), or all that blocks "
      "compute (bf16, f16); default: " +
          by_default,
      &precision,
      {"f32", "tf32", "bf16", "f16"}};
}

Option DeviceChoice::training_precision_option() {
  trains = true;
  return {"precision",
          "TYPE",
          "what may be rounded: nothing (f32); the operands of matrix products (tf32 on a GPU, bf16 on a CPU with "
          "AVX512-BF16); all that blocks compute (bf16 on a GPU); default: f32",
          &precision,
          {"f32", "tf32", "bf16"}};
}

Device DeviceChoice::chosen() const { return device == "cuda" ? Device{Device::Kind::cuda, 0} : Device{}; }

Context DeviceChoice::context() const {
  if (!precision.empty() && precision != "f32" && device != "cuda") {
    if (!trains || precision != "bf16") {
      throw Failure(Exit::usage, "--precision " + precision + ": the CPU computes in f32; add --device cuda");
    }
    if (info().target != "AVX3_BF16") {
      throw Failure(Exit::usage, "--precision bf16: expected a CPU with AVX512-BF16, found the kernels of " +
                                     info().target + ", which would gain nothing; leave it out, or add --device cuda");
    }
  }
  if (device == "cuda" && ranks().size() > 1) {
    throw Failure(Exit::usage, "--device cuda: ranks compute on CPUs; leave it out, or start one process");
  }
  const bool shares = threads == 0 && ranks().size() > 1;
  const int all = shares ? ranks().threads() : static_cast<int>(threads);
  Context context = device == "cuda" ? Context(chosen()) : Context(all);
  if (precision == "tf32") context.set_precision(Precision::tf32);
  if (precision == "bf16") context.set_precision(Precision::bf16);
  if (precision == "f16") context.set_precision(Precision::f16);
  return context;
}

}  // namespace polyhead::cli
