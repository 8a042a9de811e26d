#include <algorithm>
#include <numbers>

#include "cuda/error.h"
#include "cuda/portable/attention_mma.h"
#include "cuda/sm90/attention.cuh"
#include "cuda/sm90/attention.h"
#include "cuda/sm90/host.h"
#include "cuda/sm90/statistics.cuh"
#include "cuda/tensor_map.h"

namespace polyhead::cuda::sm90 {
namespace {

// How the memory beside the tensors is divided.
struct Layout {
  RowOutcome* outcomes = nullptr;  // [B,H,T]
  RowMoments* moments = nullptr;   // [B,H,T], for the full set
  std::uint32_t* marks = nullptr;  // [B][mark_words], if keys are marked
  int mark_words = 0;
  std::uint32_t* keep = nullptr;  // [keep_batch][keep_heads][keep_rows][keep_words], without copies
  std::int64_t keep_batch = 1, keep_heads = 1, keep_rows = 1, keep_words = 0;
  std::uint8_t* seen = nullptr;  // [B][heads_of_seen][S], where keep or bias hide keys
  std::size_t bytes = 0;
};

Layout layout_of(const backend::AttentionProblem& problem, std::byte* memory) {
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

Options forward_options(const backend::AttentionProblem& problem, const Layout& layout) {
  Options o = options_of(problem);
  o.keep_bits = layout.keep;
  o.keep_row = layout.keep_rows > 1 ? layout.keep_words : 0;
  o.keep_head = layout.keep_heads > 1 ? layout.keep_rows * layout.keep_words : 0;
  o.keep_batch = layout.keep_batch > 1 ? layout.keep_heads * layout.keep_rows * layout.keep_words : 0;
  set_seen(o, problem, layout.seen);
  return o;
}

template <class T, int D, Instance kInstance, class Sizes>
ForwardArguments arguments_of(const Workspace& workspace, const backend::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kInstance, Sizes>;
  ForwardArguments a;
  a.q = map_of(problem.q, Kernel::kRows);
  a.k = map_of(problem.k, Kernel::kKeys);
  a.v = map_of(problem.v, Kernel::kKeys);
  a.sequences = problem.sequences;
  a.sight = {problem.causal, problem.window, 0};
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
  a.open_heads = workspace.open_heads;
  a.next_tile = workspace.next_tile;
  a.tiles_ahead = problem.sequences.keys <= 1024 ? 2 : 1;
  return a;
}

// Before the forward pass: a bit for every marked key and every kept one, a byte for those that are not hidden from
// all.
void prepare_keys(const Workspace& workspace, const ForwardArguments& forward,
                  const backend::AttentionProblem& problem) {
  const Layout layout = layout_of(problem, workspace.memory);
  if (layout.marks != nullptr) {
    const ConstTensorView& marked = problem.marked_keys;
    const dim3 blocks(static_cast<unsigned>(forward.mark_words + 7) / 8, static_cast<unsigned>(marked.shape(0)));
    pack_marks<<<blocks, 256, 0, workspace.stream>>>(static_cast<const std::uint8_t*>(marked.data()), marked.stride(0),
                                                     marked.stride(1), marked.shape(1), layout.marks,
                                                     forward.mark_words);
    check(cudaGetLastError(), "launch of pack_marks");
  }
  if (layout.keep != nullptr) {
    const std::int64_t rows = layout.keep_batch * layout.keep_heads * layout.keep_rows;
    pack_keep<<<static_cast<unsigned>(rows * ((layout.keep_words + 7) / 8)), 256, 0, workspace.stream>>>(
        forward.options.keep, static_cast<int>(layout.keep_heads), static_cast<int>(layout.keep_rows),
        problem.sequences.keys, layout.keep, static_cast<int>(layout.keep_words));
    check(cudaGetLastError(), "launch of pack_keep");
  }
  if (layout.seen != nullptr) queue_seen_keys(workspace.stream, problem, layout.seen);
}

// After it.
template <class T, int D>
void report(const Workspace& workspace, const ForwardArguments& forward, const backend::AttentionProblem& problem) {
  const backend::Sequences& sequences = problem.sequences;
  StatisticsArguments a;
  a.sequences = sequences;
  a.reach = forward.reach;
  a.heads = forward.order.heads;
  a.heads_per_kv = forward.heads_per_kv;
  a.scale = forward.scale;
  a.queries = strided<const void>(problem.q);
  a.keys = strided<const void>(problem.k);
  a.sink_logit = forward.sink_logit;
  a.sink_head = forward.sink_head;
  a.outcomes = forward.outcomes;
  a.moments = forward.moments;
  a.row_statistics = strided<float>(problem.row_statistics);
  if (problem.row_statistics.present()) a.row_statistics_field = problem.row_statistics.stride(3);
  a.statistics = strided<float>(problem.statistics);
  if (const ConstTensorView& keys = problem.target_keys; a.moments != nullptr && keys.present()) {
    a.targets = {keys.data(), keys.dtype() == DType::i64, keys.stride(0), keys.stride(1), keys.stride(2)};
    const std::int64_t T_ = sequences.queries;
    const std::int64_t slots =
        sequences.packed ? T_ / kRowsPerSlot + sequences.count : (T_ + kRowsPerSlot - 1) / kRowsPerSlot;
    const auto blocks = static_cast<unsigned>(problem.q.shape(0) * problem.heads * slots);
    score_targets<T, D><<<blocks, 128, 0, workspace.stream>>>(a, static_cast<int>(slots));
    check(cudaGetLastError(), "launch of score_targets");
  }
  const auto heads = static_cast<unsigned>(sequences.count * problem.heads);
  const auto kernel = a.moments != nullptr ? report_head<true> : report_head<false>;
  kernel<<<heads, kReportThreads, 0, workspace.stream>>>(a);
  check(cudaGetLastError(), "launch of report_head");
}

template <class T, int D, Instance kInstance, class Sizes = Shape<D>>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kInstance, Sizes>;
  const ForwardArguments a = arguments_of<T, D, kInstance, Sizes>(workspace, problem);
  constexpr int kShared = sizeof(typename Kernel::Shared);
  const auto kernel = attend_kernel<T, D, kInstance, Sizes>;
  prepare_keys(workspace, a, problem);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
  kernel<<<std::min(workspace.processors, a.order.tiles), Kernel::kThreads, kShared, workspace.stream>>>(a);
  check(cudaGetLastError(), "launch of attend_kernel");
  if (kInstance == Instance::statistics) report<T, D>(workspace, a, problem);
}

template <class T, Instance kInstance>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  switch (problem.head_dim) {
    case 64:
      // Short rows under a causal mask waste much of a tile of 192; the others need the registers that it has not.
      if (kInstance != Instance::plain || (problem.causal && problem.q.shape(2) <= 2048)) {
        return launch<T, 64, kInstance, SmallShape64>(workspace, problem);
      }
      return launch<T, 64, Instance::plain>(workspace, problem);
    case 128:
      if (kInstance == Instance::general) return launch<T, 128, kInstance, GeneralShape128>(workspace, problem);
      return launch < T, 128, kInstance == Instance::general ? Instance::plain : kInstance > (workspace, problem);
    default: return launch<T, 256, kInstance>(workspace, problem);
  }
}

template <class T>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  if (!portable::rarer_option(problem).empty()) {
    launch<T, Instance::general>(workspace, problem);
  } else if (problem.statistics_set != StatisticsSet::none) {
    launch<T, Instance::statistics>(workspace, problem);
  } else {
    launch<T, Instance::plain>(workspace, problem);
  }
}

}  // namespace

void queue_seen_keys(cudaStream_t stream, const backend::AttentionProblem& problem, std::uint8_t* seen) {
  Options options = options_of(problem);
  set_seen(options, problem, seen);
  const std::int64_t groups = (problem.sequences.keys + 31) / 32, heads = heads_of_seen(problem);
  find_seen_keys<<<static_cast<unsigned>(problem.sequences.count * heads * groups), 256, 0, stream>>>(
      problem.sequences, reach_of(problem), options, seen, static_cast<int>(heads), static_cast<int>(groups));
  check(cudaGetLastError(), "launch of find_seen_keys");
}

std::string objection(const backend::AttentionProblem& problem) {
  const std::int64_t D = problem.head_dim;
  if (size_of(problem.q.dtype()) != 2 || problem.k.dtype() != problem.q.dtype()) return "not all 16-bit numbers";
  if ((D != 64 && D != 128 && D != 256) || problem.value_dim != D) return "heads of neither 64, 128 nor 256";
  if (problem.q.count() == 0 || problem.k.count() == 0) return "nothing to compute";
  if (const DType bias = problem.bias.dtype(); problem.bias.present() && bias != DType::f32 && bias != problem.dtype) {
    return "a bias of another type";
  }
  if (problem.q.shape(2) >= Reach::kLongest || problem.k.shape(2) >= Reach::kLongest) return "rows of 2^28 and more";
  for (const ConstTensorView& view : {problem.q, problem.k, problem.v, ConstTensorView(problem.output)}) {
    if (view.present() && !is_mappable(view)) return "rows that the copy engine cannot take";
  }
  return {};
}

std::size_t extra_bytes(const backend::AttentionProblem& problem) { return layout_of(problem, nullptr).bytes; }

void attend(const Workspace& workspace, const backend::AttentionProblem& problem) {
  if (problem.dtype == DType::bf16)
    launch<__nv_bfloat16>(workspace, problem);
  else
    launch<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
