// A model's folder with weights of 16 bits.
#pragma once

#include <filesystem>
#include <vector>

#include "core/numbers.h"
#include "io/safetensors.h"

namespace polyhead::test {

// Config and weights of a folder, the latter's f32 rounded to a type and stored in it or, widened again, in f32.
inline void save_rounded(const std::filesystem::path& from, DType dtype, bool wide, const std::filesystem::path& to) {
  std::filesystem::copy_file(from / "config.json", to / "config.json");
  io::Safetensors file = io::read_safetensors(from / "model.safetensors");
  std::vector<io::NamedTensor> named;
  Context context(1);
  for (auto& [name, tensor] : file.tensors) {
    if (tensor.dtype() == DType::f32) {
      Tensor half = Tensor::empty(tensor.shape(), dtype);
      copy(context, tensor, half);
      tensor = wide ? widened(std::move(half)) : std::move(half);
    }
    named.push_back({name, tensor});
  }
  io::write_safetensors(to / "model.safetensors", named);
}

}  // namespace polyhead::test
