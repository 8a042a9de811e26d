// Tensors of C as views, and back.
#pragma once

#include <string_view>

#include "polyhead/polyhead_c.h"
#include "polyhead/tensor.h"

namespace polyhead::capi {

DType element_type(const polyhead_dtype& dtype, std::string_view op, std::string_view name);

// Absent if NULL. `name` stands in messages.
ConstTensorView view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name);
TensorView writable_view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name);

void fill(polyhead_view& to, const ConstTensorView& from);

}  // namespace polyhead::capi
