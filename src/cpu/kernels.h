// The kernels of the CPU, on a team of threads. The problems in src/kernels say what they compute.
#pragma once

#include "core/team.h"
#include "kernels/table.h"

namespace polyhead::cpu {

// The table through which ops call them, with a CpuExecutor.
const kernels::Table& kernels() noexcept;

void check_attention(Team& team, std::string_view op, const kernels::AttentionProblem& problem);
void attend(Team& team, const kernels::AttentionProblem& problem);
// Does attend take the path for few queries?
bool decodes(const kernels::AttentionProblem& problem) noexcept;
// Does attend multiply pairs of bf16 where the target does?
bool attends_pairs(const kernels::AttentionProblem& problem) noexcept;
// Takes memory for sums from `memory`.
void attend_backward(Team& team, const std::shared_ptr<Allocator>& memory,
                     const kernels::AttentionGradientProblem& problem);
void append(Team& team, const kernels::AppendProblem& problem);

// The bits of C do not depend on the number of threads, nor on whether B was packed for exact products or not at all. B
// may also be a matrix of blocks, or its transpose, as the table of embed may be: then they are those of its numbers in
// f32.
void gemm(Team& team, const kernels::GemmProblem& problem);
kernels::PackedMatrix pack(Team& team, const ConstTensorView& b, kernels::Products products);
void column_sums(Team& team, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded = {});

void round(Team& team, std::span<const ConstTensorView> from, std::span<const TensorView> to);
void elementwise(Team& team, const kernels::ElementwiseProblem& problem);
void gate(Team& team, kernels::Gate kind, const ConstTensorView& x, const TensorView& y);
void gate_backward(Team& team, kernels::Gate kind, const ConstTensorView& x, const ConstTensorView& dy,
                   const TensorView& dx);
void add_row(Team& team, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
void normalise(Team& team, const kernels::NormProblem& problem);
void normalise_backward(Team& team, const kernels::NormGradientProblem& problem);
void drop(Team& team, const kernels::DropoutProblem& problem);
void rotate(Team& team, const kernels::RotaryProblem& problem);
void copy(Team& team, const ConstTensorView& from, const TensorView& to);

void embed(Team& team, const kernels::EmbeddingProblem& problem);
void embed_backward(Team& team, const kernels::EmbeddingGradientProblem& problem);
void pool(Team& team, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
void pool_backward(Team& team, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx);
void cross_entropy(Team& team, const kernels::CrossEntropyProblem& problem);
void sample(Team& team, std::string_view op, const kernels::SampleProblem& problem);

void adamw(Team& team, const kernels::AdamWProblem& problem);
void sums_of_squares(Team& team, std::span<const ConstTensorView> tensors, const TensorView& sums);

// The elements of a view as T. Kernels run where the memory is, so nothing is checked.
template <class T, class View>
auto* data_of(const View& view) noexcept {
  using Element = std::conditional_t<std::is_same_v<View, ConstTensorView>, const T, T>;
  return static_cast<Element*>(view.data());
}

}  // namespace polyhead::cpu
