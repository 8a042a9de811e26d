#include <algorithm>

#include "cuda/portable/attention_mma.h"
#include "cuda/portable/decode.cuh"
#include "cuda/portable/decode.h"

namespace polyhead::cuda::portable {
namespace {

// Enough blocks to fill the GPU several times over, and chunks of no fewer than 128 keys.
int chunks_for(const backend::AttentionProblem& problem, int processors) {
  const std::int64_t pairs = std::max<std::int64_t>(1, problem.sequences.count * problem.kv_heads);
  const std::int64_t wanted = (4 * processors + pairs - 1) / pairs;
  return static_cast<int>(std::clamp<std::int64_t>(problem.sequences.keys / 128, 1, wanted));
}

template <class T, int D>
void launch(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  const std::int64_t pairs = problem.sequences.count * problem.kv_heads;
  const auto kv_heads = static_cast<int>(problem.kv_heads);
  const auto rows = static_cast<int>(problem.sequences.queries * (problem.heads / problem.kv_heads));
  DecodePartials partials;
  partials.chunks = chunks_for(problem, executor.queue().processors());
  if (partials.chunks > 1) {
    const std::int64_t places = pairs * partials.chunks * kDecodeRows;
    partials.outputs = executor.workspace<float>(Workspace::forward, places * D);
    partials.states = executor.workspace<float2>(Workspace::sums, places);
  }
  const AttentionArguments arguments(problem);
  const DecodeOutputs outputs{Strided(problem.output), Strided(problem.lse)};
  executor.launch(decode_kernel<T, D>, pairs * partials.chunks, 32 * kDecodeWarps, arguments, partials, outputs,
                  kv_heads);
  if (partials.chunks == 1) return;
  executor.launch(merge_kernel<T, D>, pairs * rows, 32, arguments, partials, outputs, kv_heads, rows);
}

template <class T>
void launch_as(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  problem.head_dim == 64 ? launch<T, 64>(executor, problem) : launch<T, 128>(executor, problem);
}

}  // namespace

std::string objection_to_decode(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  if (std::string reason = objection_to_mma(executor, problem); !reason.empty()) return reason;
  if (std::string option = rarer_option(problem); !option.empty()) return option;
  if (problem.sequences.packed) return "a packed batch";
  if (problem.kv_heads == 0 || problem.sequences.queries * (problem.heads / problem.kv_heads) > kDecodeRows) {
    return "more than 16 rows to a kv head";
  }
  if ((problem.head_dim != 64 && problem.head_dim != 128) || problem.value_dim != problem.head_dim) {
    return "heads of neither 64 nor 128";
  }
  if (problem.window.always_first > 0) return "keys that are always seen";
  if (problem.sequences.keys < 128) return "few keys";
  return {};
}

void decode(CudaExecutor& executor, const backend::AttentionProblem& problem) {
  problem.dtype == DType::f16 ? launch_as<__half>(executor, problem) : launch_as<__nv_bfloat16>(executor, problem);
}

}  // namespace polyhead::cuda::portable
