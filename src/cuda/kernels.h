// The kernels of the GPU, see kernels/table.h for what each does.
#pragma once

#include "cuda/executor.h"
#include "kernels/table.h"

namespace polyhead::cuda {

const kernels::Table& kernels() noexcept;

void check_attention(CudaExecutor& executor, std::string_view op, const kernels::AttentionProblem& problem);
void attend(CudaExecutor& executor, const kernels::AttentionProblem& problem);
void attend_backward(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem);
std::string explain(CudaExecutor& executor, const kernels::AttentionProblem& problem);
void append(CudaExecutor& executor, const kernels::AppendProblem& problem);

void gemm(CudaExecutor& executor, const kernels::GemmProblem& problem);
bool gemv(CudaExecutor& executor, const kernels::GemvProblem& problem);
kernels::PackedMatrix pack(CudaExecutor& executor, const ConstTensorView& b, kernels::Products products);
void column_sums(CudaExecutor& executor, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded);

void round(CudaExecutor& executor, std::span<const ConstTensorView> from, std::span<const TensorView> to);
void elementwise(CudaExecutor& executor, const kernels::ElementwiseProblem& problem);
void gate(CudaExecutor& executor, kernels::Gate kind, const ConstTensorView& x, const TensorView& y);
void gate_backward(CudaExecutor& executor, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx);
void add_row(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void normalise(CudaExecutor& executor, const kernels::NormProblem& problem);
void normalise_backward(CudaExecutor& executor, const kernels::NormGradientProblem& problem);
void drop(CudaExecutor& executor, const kernels::DropoutProblem& problem);
void rotate(CudaExecutor& executor, const kernels::RotaryProblem& problem);
void copy(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to);

void embed(CudaExecutor& executor, const kernels::EmbeddingProblem& problem);
void embed_backward(CudaExecutor& executor, const kernels::EmbeddingGradientProblem& problem);
void pool(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
void pool_backward(CudaExecutor& executor, const ConstTensorView& dy, const ConstTensorView& lengths,
                   const TensorView& dx);
void cross_entropy(CudaExecutor& executor, const kernels::CrossEntropyProblem& problem);
void sample(CudaExecutor& executor, std::string_view op, const kernels::SampleProblem& problem);

void adamw(CudaExecutor& executor, const kernels::AdamWProblem& problem);
void sums_of_squares(CudaExecutor& executor, std::span<const ConstTensorView> tensors, const TensorView& sums);

// f64 stays on the CPU: throws if that is what the tensor holds.
void expect_no_f64(std::string_view op, const ConstTensorView& tensor);
void expect_no_origin(std::string_view op, const Dropout& dropout);  // if it drops

}  // namespace polyhead::cuda
