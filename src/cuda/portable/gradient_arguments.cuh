// The arguments of the backward kernels besides those of the forward pass.
#pragma once

#include "cuda/executor.h"
#include "cuda/portable/head.cuh"

namespace polyhead::cuda::portable {

struct GradientArguments {
  Strided doutput, dlse, dweights;  // [B,H,T,E], [B,H,T] f32, [B,H,T,columns]
  bool wants_dgates = false;
  std::int64_t rows = 0;  // T of the tensors
  // [B,H,T], of every row: the state of its softmax (not its lse, in which the digits of large logits would be lost),
  // delta_i, and dgate_i = dO_i.o_i before the gate.
  float *m = nullptr, *l = nullptr, *delta = nullptr, *dgate = nullptr;

  // Is there anything to do for a head? Gradients of lse and weights do not pass through its gate.
  __device__ bool reaches(const Head& head) const { return head.gate != 0 || dlse.present() || dweights.present(); }
  __device__ std::int64_t row(const Head& head, std::int64_t i) const {
    return (head.sequence.batch * head.a.heads + head.h) * rows + head.sequence.query_begin + i;
  }
  __device__ float dlse_of(const Head& head, int i) const {
    if (!dlse.present()) return 0;
    return static_cast<const float*>(dlse.data)[dlse.at(head.sequence.batch, head.h, head.sequence.query_begin + i)];
  }
  __device__ std::int64_t doutput_row(const Head& head, int i) const {
    return doutput.at(head.sequence.batch, head.h, head.sequence.query_begin + i);
  }
};

// dsink_logit from the rows' softmax and delta.
void write_dsink(CudaExecutor& executor, const AttentionArguments& arguments, const GradientArguments& gradient,
                 const TensorView& dsink);

}  // namespace polyhead::cuda::portable
