// The kernels of the GPU, see backend/kernels.h for what each does.
#pragma once

#include "backend/kernels.h"
#include "cuda/executor.h"

namespace polyhead::cuda {

const backend::Kernels& kernels() noexcept;

void check_attention(CudaExecutor& executor, std::string_view op, const backend::AttentionProblem& problem);
void attend(CudaExecutor& executor, const backend::AttentionProblem& problem);
void attend_backward(CudaExecutor& executor, const backend::AttentionGradientProblem& problem);
std::string explain(CudaExecutor& executor, const backend::AttentionProblem& problem);
void append(CudaExecutor& executor, const backend::AppendProblem& problem);

void gemm(CudaExecutor& executor, const backend::GemmProblem& problem);
bool gemv(CudaExecutor& executor, const backend::GemvProblem& problem);
backend::PackedMatrix pack(CudaExecutor& executor, const ConstTensorView& b, backend::Products products);
void column_sums(CudaExecutor& executor, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded);

void round(CudaExecutor& executor, std::span<const ConstTensorView> from, std::span<const TensorView> to);
void elementwise(CudaExecutor& executor, const backend::ElementwiseProblem& problem);
void gate(CudaExecutor& executor, backend::Gate kind, const ConstTensorView& x, const TensorView& y);
void gate_backward(CudaExecutor& executor, backend::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx);
void add_row(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void normalise(CudaExecutor& executor, const backend::NormProblem& problem);
void normalise_backward(CudaExecutor& executor, const backend::NormGradientProblem& problem);
void drop(CudaExecutor& executor, const backend::DropoutProblem& problem);
void rotate(CudaExecutor& executor, const backend::RotaryProblem& problem);
void copy(CudaExecutor& executor, const ConstTensorView& from, const TensorView& to);

void embed(CudaExecutor& executor, const backend::EmbeddingProblem& problem);
void embed_backward(CudaExecutor& executor, const backend::EmbeddingGradientProblem& problem);
void pool(CudaExecutor& executor, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
void pool_backward(CudaExecutor& executor, const ConstTensorView& dy, const ConstTensorView& lengths,
                   const TensorView& dx);
void cross_entropy(CudaExecutor& executor, const backend::CrossEntropyProblem& problem);
void sample(CudaExecutor& executor, std::string_view op, const backend::SampleProblem& problem);

void adamw(CudaExecutor& executor, const backend::AdamWProblem& problem);
void sums_of_squares(CudaExecutor& executor, std::span<const ConstTensorView> tensors, const TensorView& sums);

// f64 stays on the CPU: throws if that is what the tensor holds.
void expect_no_f64(std::string_view op, const ConstTensorView& tensor);

}  // namespace polyhead::cuda
