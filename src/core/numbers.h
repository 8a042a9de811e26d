// Single numbers of float tensors, whatever their type; for the few, not for loops over megabytes.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead {

// *to, an element of the type, = value rounded to it.
inline void store_number(double value, DType dtype, void* to) {
  switch (dtype) {
    case DType::f64: *static_cast<double*>(to) = value; return;
    case DType::f32: *static_cast<float*>(to) = static_cast<float>(value); return;
    case DType::f16: *static_cast<float16*>(to) = float16(static_cast<float>(value)); return;
    case DType::bf16: *static_cast<bfloat16*>(to) = bfloat16(static_cast<float>(value)); return;
    default: return;
  }
}

}  // namespace polyhead
