// npy: one array in a file, as NumPy reads it.
#pragma once

#include <filesystem>

#include "polyhead/tensor.h"

namespace polyhead::io {

// A row-major tensor of the host. bf16, which NumPy does not have, is written as f32. Written atomically.
void write_npy(const std::filesystem::path& path, const ConstTensorView& tensor);

}  // namespace polyhead::io
