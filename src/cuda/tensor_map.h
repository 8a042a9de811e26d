// Descriptions of tensors for the copy engine.
#pragma once

#include <cuda.h>

#include "polyhead/tensor.h"

namespace polyhead::cuda {

// Can the copy engine read it? [B,H,T,D] of 16-bit elements: rows 16 bytes aligned, strides positive.
bool is_mappable(const ConstTensorView& tensor) noexcept;

// [B,H,T,D] in boxes of 64 columns and `rows` rows, swizzled by 128 bytes.
CUtensorMap map_of(const ConstTensorView& tensor, int rows);

}  // namespace polyhead::cuda
