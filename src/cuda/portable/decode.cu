#include <algorithm>

#include "cuda/portable/attention_mma.h"
#include "cuda/portable/decode.cuh"
#include "cuda/portable/decode.h"

namespace polyhead::cuda::portable {
namespace {

// How many chunks to cut the keys into: the fewest that take the shortest time for `pairs` of sequence and kv head on
// `places`, the blocks that the GPU runs at a time. No chunk has fewer than 128 keys.
int chunks_for(std::int64_t pairs, std::int64_t keys, std::int64_t places) {
  const std::int64_t most = std::max<std::int64_t>(1, std::min(keys / 128, 4 * places / pairs));
  const auto time = [&](std::int64_t chunks) {
    const std::int64_t waves = (pairs * chunks + places - 1) / places;
    return static_cast<double>(waves) / static_cast<double>(chunks);
  };
  std::int64_t best = 1;
  for (std::int64_t chunks = 2; chunks <= most; ++chunks) {
    if (time(chunks) < 0.97 * time(best)) best = chunks;  // every chunk adds a cost
  }
  return static_cast<int>(best);
}

template <class T, int D>
void launch(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  const std::int64_t pairs = problem.sequences.count * problem.kv_heads;
  const auto kv_heads = static_cast<int>(problem.kv_heads);
  DecodePartials partials;
  constexpr std::size_t kShared = sizeof(DecodePieces<D>[kDecodeWarps][kDecodeAhead]);
  const auto blocks = std::max<std::size_t>(1, executor.queue().shared_bytes() / kShared);  // per multiprocessor
  partials.chunks = chunks_for(std::max<std::int64_t>(1, pairs), problem.sequences.keys,
                               static_cast<std::int64_t>(blocks) * executor.queue().processors());
  if (partials.chunks > 1) {
    const std::int64_t places = pairs * partials.chunks * kDecodeRows;
    partials.outputs = executor.workspace<float>(Workspace::partials, places * D);
    partials.states = executor.workspace<float2>(Workspace::sums, places);
    partials.done = executor.counters(pairs);
  }
  const AttentionArguments arguments(problem);
  const DecodeOutputs outputs{Strided(problem.output), Strided(problem.lse)};
  executor.launch_early(decode_kernel<T, D>, pairs * partials.chunks, 32 * kDecodeWarps, kShared, arguments, partials,
                        outputs, kv_heads);
}

template <class T>
void launch_as(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  problem.head_dim == 64 ? launch<T, 64>(executor, problem) : launch<T, 128>(executor, problem);
}

}  // namespace

std::string_view why_not_decode(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  if (size_of(problem.q.dtype()) != 2) return "q must be f16 or bf16";
  if (const std::string_view reason = why_not_mma(executor, problem); !reason.empty()) return reason;
  if (const std::string_view option = score_modifier(problem); !option.empty()) return option;
  if (problem.sequences.packed) return "the batch is packed";
  if (problem.kv_heads == 0 || problem.sequences.queries * (problem.heads / problem.kv_heads) > kDecodeRows) {
    return "more than 16 queries to a kv head";
  }
  if ((problem.head_dim != 64 && problem.head_dim != 128) || problem.value_dim != problem.head_dim) {
    return "head_dim must be 64 or 128, and value_dim the same";
  }
  if (problem.mask.has_holes()) return "always_first is given";
  if (problem.sequences.keys < 128) return "fewer than 128 keys";
  return {};
}

void decode(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  problem.dtype == DType::f16 ? launch_as<__half>(executor, problem) : launch_as<__nv_bfloat16>(executor, problem);
}

}  // namespace polyhead::cuda::portable
