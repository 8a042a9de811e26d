// The arguments and the launch of the forward kernel, for the files that each compile some of its instances.
#pragma once

#include <algorithm>
#include <numbers>

#include "cuda/error.h"
#include "cuda/sm90/attention.cuh"
#include "cuda/sm90/attention.h"
#include "cuda/sm90/host.h"
#include "cuda/tensor_map.h"

namespace polyhead::cuda::sm90 {

// How the memory besides the tensors is divided.
struct Layout {
  RowOutcome* outcomes = nullptr;  // [B,H,T]
  RowMoments* moments = nullptr;   // [B,H,T], for the full set
  std::uint32_t* marks = nullptr;  // [B][mark_words], if keys are marked
  int mark_words = 0;
  std::uint32_t* keep = nullptr;  // [keep_batch][keep_heads][keep_rows][keep_words], without broadcast copies
  std::int64_t keep_batch = 1, keep_heads = 1, keep_rows = 1, keep_words = 0;
  std::uint8_t* seen = nullptr;  // [B][heads_of_seen][S], where keep or bias hide keys
  std::size_t bytes = 0;
};

inline Layout layout_of(const kernels::AttentionProblem& problem, std::byte* memory) {
  Layout layout;
  const auto take = [&](auto*& array, std::int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(memory + layout.bytes);
    layout.bytes += static_cast<std::size_t>(count) * sizeof *array;
  };
  const std::int64_t B = problem.q.shape(0), rows = B * problem.heads * problem.sequences.queries;
  constexpr std::int64_t kBehind = 5;  // words: the last block of keys may reach that far beyond the tensor
  const std::int64_t words = problem.sequences.keys / 32 + 1 + kBehind;
  if (const ConstTensorView& keep = problem.keep; keep.present()) {
    const auto size = [&](int axis) { return keep.stride(axis) == 0 ? 1 : keep.shape(axis); };
    layout.keep_batch = size(0);
    layout.keep_heads = size(1);
    layout.keep_rows = size(2);
    layout.keep_words = words;
    take(layout.keep, layout.keep_batch * layout.keep_heads * layout.keep_rows * words);
  }
  if (problem.keep.present() || problem.bias.present()) {
    take(layout.seen, B * heads_of_seen(problem) * problem.sequences.keys);
    return layout;
  }
  if (problem.statistics_set == StatisticsSet::none) return layout;
  take(layout.outcomes, rows);
  if (problem.statistics_set == StatisticsSet::light) return layout;
  take(layout.moments, rows);
  if (!problem.marked_keys.present()) return layout;
  layout.mark_words = static_cast<int>(words);
  take(layout.marks, B * layout.mark_words);
  return layout;
}

inline Options forward_options(const kernels::AttentionProblem& problem, const Layout& layout) {
  Options o = options_of(problem);
  o.keep_bits = layout.keep;
  o.keep_row = layout.keep_rows > 1 ? layout.keep_words : 0;
  o.keep_head = layout.keep_heads > 1 ? layout.keep_rows * layout.keep_words : 0;
  o.keep_batch = layout.keep_batch > 1 ? layout.keep_heads * layout.keep_rows * layout.keep_words : 0;
  set_seen(o, problem, layout.seen);
  return o;
}

// The bias without its broadcast copies of heads and batches.
inline ConstTensorView without_copies(const ConstTensorView& bias) {
  Dims shape = bias.shape();
  for (int axis = 0; axis < 2; ++axis) {
    if (bias.stride(axis) == 0) shape[axis] = 1;
  }
  return ConstTensorView(bias.data(), bias.dtype(), shape, bias.strides(), bias.device());
}

template <class T, int D, Instance kInstance, class Sizes, ScoreModifier kOnly>
ForwardArguments arguments_of(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kInstance, Sizes>;
  ForwardArguments a;
  a.q = map_of(problem.q, Kernel::kRows);
  a.k = map_of(problem.k, Kernel::kKeys);
  a.v = map_of(problem.v, Kernel::kKeys);
  a.sequences = problem.sequences;
  a.mask = problem.mask;
  a.reach = reach_of(problem);
  a.heads_per_kv = static_cast<int>(problem.heads / problem.kv_heads);
  a.order = order_of(problem.sequences, problem.heads, problem.sequences.queries, Kernel::kRows,
                     problem.sequences.keys * 4 * D, a.heads_per_kv);
  a.scale = static_cast<float>(problem.scale * std::numbers::log2e);
  a.output = strided<void>(problem.output);
  a.lse = strided<float>(problem.lse);
  a.gates = per_head(problem.gates);
  if (problem.sink_logit.present()) {
    a.sink_logit = static_cast<const float*>(problem.sink_logit.data());
    a.sink_head = problem.sink_logit.stride(problem.sink_logit.rank() - 1);
  }
  a.describe_closed = problem.lse.present() || kInstance == Instance::statistics;
  const Layout layout = layout_of(problem, workspace.memory);
  a.outcomes = layout.outcomes;
  a.moments = layout.moments;
  a.marks = layout.marks;
  a.mark_words = layout.mark_words;
  a.options = forward_options(problem, layout);
  if constexpr (kOnly == ScoreModifier::bias) {
    const ConstTensorView bias = without_copies(problem.bias);
    a.bias = map_of(bias, Kernel::kRows);
    a.bias_batches = bias.shape(0) > 1 ? 1 : 0;
    a.bias_heads = bias.shape(1) > 1 ? 1 : 0;
    a.bias_factor = static_cast<float>(1 / problem.scale);
  }
  a.open_heads = workspace.open_heads;
  a.next_tile = workspace.next_tile;
  a.tiles_ahead = problem.sequences.keys <= 1024 ? 2 : 1;
  return a;
}

// Before the forward pass: packs marks and keep into bits, and finds the keys that some query sees.
void prepare_keys(const Workspace& workspace, const ForwardArguments& forward,
                  const kernels::AttentionProblem& problem);

// Returns the kernel's arguments.
template <class T, int D, Instance kInstance, class Sizes = Shape<D>, ScoreModifier kOnly = ScoreModifier::several>
ForwardArguments launch(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kInstance, Sizes, kOnly>;
  const ForwardArguments a = arguments_of<T, D, kInstance, Sizes, kOnly>(workspace, problem);
  constexpr int kShared = sizeof(typename Kernel::Shared);
  const auto kernel = attend_kernel<T, D, kInstance, Sizes, kOnly>;
  prepare_keys(workspace, a, problem);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
  kernel<<<std::min(workspace.processors, a.order.tiles), Kernel::kThreads, kShared, workspace.stream>>>(a);
  check(cudaGetLastError(), "launch of attend_kernel");
  return a;
}

// Runs a call that has exactly one score modifier, if there is a kernel for it; otherwise returns false.
bool attend_with_one_option(const Workspace& workspace, const kernels::AttentionProblem& problem);

}  // namespace polyhead::cuda::sm90
