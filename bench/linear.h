// y = x W^T + b as a layer computes it: ours with W packed in advance, and the same product with OpenBLAS.
#pragma once

#include <memory>
#include <string>

#include "kernels/gemm.h"
#include "polyhead/context.h"

namespace polyhead::bench {

struct Linear {
  Linear(Context& context, std::int64_t M, std::int64_t N, std::int64_t K, DType dtype);

  void call(Context& context);  // ours
  void call_blas();             // without the bias; throws if built without OpenBLAS

  Tensor x, w, bias, y;  // [M,K], [N,K], [N], [M,N]
  kernels::PackedMatrix packed;
};

// "M,N,K" or "M,N,K,bf16"; throws std::invalid_argument for anything else.
std::unique_ptr<Linear> make_linear(Context& context, const std::string& name);

}  // namespace polyhead::bench
