// cuBLASLt, loaded at run time: a binary also runs where it is missing, with products of our own. The few functions and
// constants that are used are declared as its documentation gives them, so that no header is needed either.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "kernels/gemm.h"

namespace polyhead::cuda {

class CublasLt {
 public:
  static std::unique_ptr<CublasLt> load();  // null where there is none
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  static constexpr std::size_t kWorkspaceBytes = 32u << 20;

  // Each may be null. The bias [N], `plus` [M,N] and `before_gelu` [M,N] have C's type, the latter two its layout.
  struct Extras {
    const void *bias, *plus;
    void* before_gelu;
  };
  // C = A B + bias + plus, A and B of one type, C of that or f32; or before_gelu = that, and C GPT-2's GELU of it. f32
  // operands are rounded to TF32 if may_round. Returns false if the library has no algorithm for it, or failed.
  bool multiply(cudaStream_t stream, bool may_round, const ConstTensorView& a, const ConstTensorView& b,
                const Extras& extras, const TensorView& c, void* workspace);

 private:
  struct Functions;
  struct Plan;
  // Everything that the choice of an algorithm depends on: how to compute, types of the operands and of C, sizes,
  // transpositions, leading dimensions, what is done to the product, alignments.
  using Key = std::tuple<int, int, int, std::int64_t, std::int64_t, std::int64_t, bool, bool, std::int64_t,
                         std::int64_t, std::int64_t, std::uint32_t, int>;

  explicit CublasLt(std::unique_ptr<Functions> functions);
  const Plan* plan_of(const Key& key);

  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace polyhead::cuda
