#include <algorithm>

#include "cuda/portable/attention.h"
#include "cuda/portable/attention_mma.h"
#include "cuda/portable/gradient.cuh"

namespace polyhead::cuda::portable {
namespace {

void write_dbias(CudaExecutor& executor, const AttentionArguments& arguments, const GradientArguments& gradient,
                 const TensorView& dbias) {
  const auto broadcast = [&](int axis) { return dbias.stride(axis) == 0; };
  const auto blocks = [&](int axis, std::int64_t all) { return static_cast<int>(broadcast(axis) ? 1 : all); };
  const BiasExtent extent{.tiles_t = blocks(2, tiles_of(dbias.shape(2))),
                          .tiles_s = blocks(3, tiles_of(dbias.shape(3))),
                          .heads = blocks(1, dbias.shape(1)),
                          .all_batches = broadcast(0),
                          .all_heads = broadcast(1),
                          .all_rows = broadcast(2),
                          .all_keys = broadcast(3)};
  const std::int64_t count = std::int64_t{extent.tiles_t} * extent.tiles_s * extent.heads * blocks(0, dbias.shape(0));
  executor.launch(dbias_kernel, count, kThreads, arguments, gradient, Strided(dbias), extent);
}

// Finds m, l, delta and dgate of every row, which all other kernels read.
GradientArguments describe_rows(CudaExecutor& executor, const AttentionArguments& arguments,
                                const kernels::AttentionGradientProblem& problem) {
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  const std::int64_t rows = forward.q.shape(0) * forward.heads * sequences.queries;
  GradientArguments gradient;
  gradient.doutput = Strided(problem.doutput);
  gradient.dlse = Strided(problem.dlse);
  gradient.dweights = Strided(problem.dweights);
  gradient.wants_dgates = problem.dgates.present();
  gradient.rows = sequences.queries;
  gradient.m = executor.workspace<float>(Workspace::gradient, 4 * rows);
  gradient.l = gradient.m + rows;
  gradient.delta = gradient.l + rows;
  gradient.dgate = gradient.delta + rows;
  const int tiles = tiles_of(sequences.queries);
  executor.launch(rows_kernel, sequences.count * forward.heads * tiles, kThreads, arguments, gradient, tiles);
  return gradient;
}

}  // namespace

void bias_gradient(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  const AttentionArguments arguments(problem.forward);
  write_dbias(executor, arguments, describe_rows(executor, arguments, problem), problem.dbias);
}

void attend_backward_f32(CudaExecutor& executor, const kernels::AttentionGradientProblem& problem) {
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  const AttentionArguments arguments(forward);
  const int row_tiles = tiles_of(sequences.queries), key_tiles = tiles_of(sequences.keys);
  const GradientArguments gradient = describe_rows(executor, arguments, problem);
  const std::int64_t heads = sequences.count * forward.heads;
  const int parts = parts_of(forward.head_dim), wide = parts_of(std::max(forward.head_dim, forward.value_dim));
  executor.launch(dq_kernel, heads * row_tiles * parts, kThreads, arguments, gradient, Strided(problem.dq), row_tiles,
                  parts);
  executor.launch(dkv_kernel, sequences.count * forward.kv_heads * key_tiles * wide, kThreads, arguments, gradient,
                  Strided(problem.dk), Strided(problem.dv), key_tiles, wide);
  if (problem.dbias.present()) write_dbias(executor, arguments, gradient, problem.dbias);
  if (problem.dgates.present()) {
    executor.launch(dgates_kernel, heads, kThreads, arguments, gradient, Strided(problem.dgates));
  }
  if (problem.dsink_logit.present()) write_dsink(executor, arguments, gradient, problem.dsink_logit);
}

void write_dsink(CudaExecutor& executor, const AttentionArguments& arguments, const GradientArguments& gradient,
                 const TensorView& dsink) {
  executor.launch(dsink_kernel, arguments.heads, kThreads, arguments, gradient, Strided(dsink));
}

}  // namespace polyhead::cuda::portable
