// Tensors of C as views, and back.
#pragma once

#include <string>
#include <string_view>

#include "capi/guard.h"
#include "polyhead/error.h"
#include "polyhead/polyhead_c.h"
#include "polyhead/tensor.h"

namespace polyhead::capi {

DType element_type(const polyhead_dtype& dtype, std::string_view op, std::string_view name);

// Absent if NULL. `name` is for messages.
ConstTensorView view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name);
TensorView writable_view_of(const polyhead_tensor* tensor, std::string_view op, std::string_view name);

void fill(polyhead_view& to, const ConstTensorView& from);

// Fills in the tensor of that name from pairs of name and tensor. If there is none, throws Error (value) that lists the
// names.
template <class Pairs>
void fill_by_name(const Pairs& tensors, const char* name, polyhead_view* to, std::string_view op) {
  const std::string wanted(&required(name, op, "name"));
  std::string names;
  for (const auto& [known, tensor] : tensors) {
    if (known == wanted) return fill(required(to, op, "view"), tensor);
    names += (names.empty() ? "" : ", ") + known;
  }
  throw Error(ErrorCode::value, op, "expected one of " + names + ", found '" + wanted + "'");
}

}  // namespace polyhead::capi
