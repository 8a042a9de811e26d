// Copies of tensors from one element type to another.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::cpu {

// to <- from, both [B,G,n,D] with a last stride of 1; of the same type, or from f32 to f16 or bf16, to nearest even.
void convert(const ConstTensorView& from, const TensorView& to);

}  // namespace polyhead::cpu
