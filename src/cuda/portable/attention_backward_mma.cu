#include "cuda/portable/attention_mma.h"
#include "cuda/portable/gradient_mma.cuh"

namespace polyhead::cuda::portable {
namespace {

template <class T, int kWidth>
void launch(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem,
            const AttentionArguments& arguments, const GradientArguments& gradient, const MmaRows& rows) {
  using OfQueries = MmaGradient<T, kWidth, false>;
  using OfKeys = MmaGradient<T, kWidth, true>;
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  const int row_tiles = tiles_of(sequences.queries), key_tiles = tiles_of(sequences.keys);
  executor.launch_with(dq_mma_kernel<T, kWidth>, sequences.count * forward.heads * row_tiles, OfQueries::kThreads,
                       OfQueries::kSharedBytes, arguments, gradient, rows, Strided(problem.dq), row_tiles);
  executor.launch_with(dkv_mma_kernel<T, kWidth>, sequences.count * forward.kv_heads * key_tiles, OfKeys::kThreads,
                       OfKeys::kSharedBytes, arguments, gradient, rows, Strided(problem.dk), Strided(problem.dv),
                       key_tiles);
}

template <class T>
void run(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem, const ConstTensorView& output,
         const ConstTensorView& lse) {
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  const AttentionArguments arguments(forward);
  const std::int64_t count = forward.q.shape(0) * forward.heads * sequences.queries;

  GradientArguments gradient;
  gradient.doutput = Strided(problem.doutput);
  gradient.dlse = Strided(problem.dlse);
  gradient.rows = sequences.queries;
  gradient.m = executor.workspace<float>(Workspace::gradient, 6 * count);
  gradient.l = gradient.m + count;
  gradient.delta = gradient.l + count;
  const MmaRows rows{gradient.delta + count, gradient.delta + 2 * count, gradient.delta + 3 * count};

  const auto groups = static_cast<int>((sequences.queries + 7) / 8);
  executor.launch(rows_mma_kernel<T>, sequences.count * forward.heads * groups, 256, arguments, gradient,
                  Strided(output), Strided(lse), rows, groups);
  const std::int64_t width = std::max(forward.head_dim, forward.value_dim);
  constexpr bool kF32 = sizeof(Element<T>) == 4;  // no wider than 128
  if (kF32 && width <= 32) {
    launch<T, kF32 ? 32 : 64>(executor, problem, arguments, gradient, rows);
  } else if (width <= 64) {
    launch<T, 64>(executor, problem, arguments, gradient, rows);
  } else if (kF32 || width <= 128) {
    launch<T, 128>(executor, problem, arguments, gradient, rows);
  } else {
    launch<T, kF32 ? 128 : 256>(executor, problem, arguments, gradient, rows);
  }
  if (problem.dsink_logit.present()) write_dsink(executor, arguments, gradient, problem.dsink_logit);
}

}  // namespace

std::string_view why_not_mma(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  if (const std::string_view why = why_not_mma(executor, problem.forward); !why.empty()) return why;
  if (const std::string_view option = score_modifier(problem.forward); !option.empty()) return option;
  for (const ConstTensorView& tensor :
       {problem.doutput, ConstTensorView(problem.dq), ConstTensorView(problem.dk), ConstTensorView(problem.dv)}) {
    if (!has_pieces(tensor)) return "rows must be aligned to 16 bytes";
  }
  if (problem.dweights.present()) return "gradients of weights are given";
  if (problem.dgates.present()) return "gradients of gates are wanted";
  return {};
}

void attend_backward_mma(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  switch (problem.forward.dtype) {
    case DType::f16: return run<__half>(executor, problem, problem.output, problem.lse);
    case DType::bf16: return run<__nv_bfloat16>(executor, problem, problem.output, problem.lse);
    default:
      executor.precision == Precision::f32 ? run<SplitF32>(executor, problem, problem.output, problem.lse)
                                           : run<Tf32>(executor, problem, problem.output, problem.lse);
  }
}

}  // namespace polyhead::cuda::portable
