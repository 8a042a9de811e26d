#include "cuda/portable/attention_mma.cuh"
#include "cuda/portable/attention_mma.h"

namespace polyhead::cuda::portable {

bool has_pieces(const ConstTensorView& tensor) {
  const auto piece = 16 / static_cast<std::int64_t>(size_of(tensor.dtype()));
  if (tensor.shape(3) % piece != 0 || reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (tensor.shape(axis) > 1 && tensor.stride(axis) % piece != 0) return false;
  }
  return true;
}

std::string_view score_modifier(const kernels::AttentionProblem& problem) {
  if (problem.keep.present() || problem.bias.present()) return "keep or bias";
  if (problem.alibi.present()) return "alibi";
  if (problem.softcap > 0) return "softcap";
  if (problem.dropout.p > 0) return "dropout";
  if (!(problem.scale > 0)) return "a scale that is not positive";
  return {};
}

namespace {

template <class T, int kWidth, int kWarps, int kBlocks, int kKeys, bool kGeneral>
void launch(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  using Forward = MmaForward<T, kWidth, kWarps, kBlocks, kKeys, kGeneral>;
  const auto tiles = static_cast<int>((problem.sequences.queries + Forward::kRows - 1) / Forward::kRows);
  executor.launch_with(attend_mma_kernel<T, kWidth, kWarps, kBlocks, kKeys, kGeneral>,
                       problem.sequences.count * problem.heads * tiles, Forward::kThreads, Forward::kSharedBytes,
                       AttentionArguments(problem), MmaOutputs{Strided(problem.output), Strided(problem.lse)}, tiles);
}

// Of f32, tiles of the same bytes have half the columns or half the keys. Split numbers need more registers, too.
template <class T>
void launch_f32_as(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  constexpr int kBlocks = std::is_same_v<T, SplitF32> ? 1 : 2, kWarps = 8 / kBlocks;
  const std::int64_t width = std::max(problem.head_dim, problem.value_dim);
  if (!score_modifier(problem).empty()) {
    if (width <= 64) return launch<T, 64, 8, 1, 64, true>(executor, problem);
    return launch<T, 128, 8, 1, 32, true>(executor, problem);
  }
  if (width <= 32) return launch<T, 32, kWarps, kBlocks, 64, false>(executor, problem);
  if (width <= 64) return launch<T, 64, kWarps, kBlocks, 64, false>(executor, problem);
  return launch<T, 128, kWarps, kBlocks, 32, false>(executor, problem);
}

template <class T>
void launch_as(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  const std::int64_t width = std::max(problem.head_dim, problem.value_dim);
  // The general instance needs more registers per row, so a warp has 16 rows instead of 32.
  if (!score_modifier(problem).empty()) {
    if (width <= 64) return launch<T, 64, 8, 1, 64, true>(executor, problem);
    if (width <= 128) return launch<T, 128, 8, 1, 64, true>(executor, problem);
    return launch<T, 256, 8, 1, 64, true>(executor, problem);
  }
  if (width <= 64) return launch<T, 64, 4, 2, 64, false>(executor, problem);
  if (width <= 128) return launch<T, 128, 4, 2, 64, false>(executor, problem);
  return launch<T, 256, 8, 1, 64, false>(executor, problem);
}

}  // namespace

std::string_view why_not_mma(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  if (problem.k.dtype() != problem.q.dtype()) return "k and v must have the type of q";
  const bool f32 = problem.q.dtype() == DType::f32;
  if (std::max(problem.head_dim, problem.value_dim) > (f32 ? 128 : 256)) {
    return f32 ? "head_dim and value_dim of f32 must be at most 128" : "head_dim and value_dim must be at most 256";
  }
  if (problem.head_dim == 0 || problem.value_dim == 0) return "head_dim or value_dim is 0";
  for (const ConstTensorView& tensor : {problem.q, problem.k, problem.v, ConstTensorView(problem.output)}) {
    if (tensor.present() && !has_pieces(tensor)) return "rows must be aligned to 16 bytes";
  }
  if (std::max(problem.head_dim, problem.value_dim) > 128 &&
      executor.queue().shared_bytes() < MmaForward<__half, 256, 8, 1, 64, true>::kSharedBytes + 2048) {
    return "this GPU has too little shared memory for a head_dim above 128";
  }
  return {};
}

void attend_mma(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  switch (problem.dtype) {
    case DType::f16: return launch_as<__half>(executor, problem);
    case DType::bf16: return launch_as<__nv_bfloat16>(executor, problem);
    default:
      executor.precision == Precision::f32 ? launch_f32_as<SplitF32>(executor, problem)
                                           : launch_f32_as<Tf32>(executor, problem);
  }
}

}  // namespace polyhead::cuda::portable
