#include <algorithm>
#include <numbers>

#include "cuda/error.h"
#include "cuda/sm90/attention.cuh"
#include "cuda/sm90/attention.h"
#include "cuda/sm90/statistics.cuh"
#include "cuda/tensor_map.h"

namespace polyhead::cuda::sm90 {
namespace {

// K and V of the heads that are worked on at the same time stay in L2.
constexpr std::int64_t kSectionBytes = 32 << 20;

template <class T, class View>
Strided<T> strided(const View& view) {
  if (!view.present()) return {};
  return {static_cast<T*>(view.data()), view.stride(0), view.stride(1), view.stride(2)};
}

TileOrder order_of(const backend::AttentionProblem& problem, int rows_per_tile) {
  const backend::Sequences& sequences = problem.sequences;
  TileOrder order;
  order.heads = static_cast<int>(problem.heads);
  const std::int64_t rows = sequences.queries;
  order.row_tiles = static_cast<int>(sequences.packed ? rows / rows_per_tile + sequences.count
                                                      : (rows + rows_per_tile - 1) / rows_per_tile);
  order.columns = static_cast<int>(sequences.packed ? problem.heads : sequences.count * problem.heads);
  order.tiles = order.columns * order.row_tiles;
  const std::int64_t kv_bytes = sequences.keys * (problem.head_dim + problem.value_dim) * 2;
  const std::int64_t group = problem.heads / problem.kv_heads;
  const std::int64_t columns = std::max<std::int64_t>(1, kSectionBytes / std::max<std::int64_t>(1, kv_bytes)) * group;
  order.columns_per_section = static_cast<int>(std::min<std::int64_t>(columns, order.columns));
  return order;
}

// How the memory for statistics is divided.
struct RowLayout {
  RowOutcome* outcomes = nullptr;  // [B,H,T]
  RowMoments* moments = nullptr;   // [B,H,T], for the full set
  std::uint32_t* marks = nullptr;  // [B][mark_words], if keys are marked
  int mark_words = 0;
  std::size_t bytes = 0;
};

RowLayout layout_of(const backend::AttentionProblem& problem, std::byte* memory) {
  RowLayout layout;
  if (problem.statistics_set == StatisticsSet::none) return layout;
  const auto take = [&](auto*& array, std::int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(memory + layout.bytes);
    layout.bytes += static_cast<std::size_t>(count) * sizeof *array;
  };
  const std::int64_t B = problem.q.shape(0), rows = B * problem.heads * problem.sequences.queries;
  take(layout.outcomes, rows);
  if (problem.statistics_set == StatisticsSet::light) return layout;
  take(layout.moments, rows);
  if (!problem.marked_keys.present()) return layout;
  constexpr int kBehind = 5;  // the last block of keys may reach that far beyond the tensor
  layout.mark_words = static_cast<int>(problem.sequences.keys / 32) + 1 + kBehind;
  take(layout.marks, B * layout.mark_words);
  return layout;
}

Reach reach_of(const backend::AttentionProblem& problem) {
  const auto near = [](std::int64_t reach) {
    return static_cast<int>(std::min<std::int64_t>(reach, Reach::kUnlimited));
  };
  const Window& window = problem.window;
  return {near(window.left), problem.causal ? 0 : near(window.right), near(window.always_first),
          problem.causal ? 0 : Reach::kUnlimited};
}

template <class T, int D, bool kStatistics, class Sizes>
ForwardArguments arguments_of(const Workspace& workspace, const backend::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kStatistics, Sizes>;
  ForwardArguments a;
  a.q = map_of(problem.q, Kernel::kRows);
  a.k = map_of(problem.k, Kernel::kKeys);
  a.v = map_of(problem.v, Kernel::kKeys);
  a.sequences = problem.sequences;
  a.sight = {problem.causal, problem.window, 0};
  a.reach = reach_of(problem);
  a.order = order_of(problem, Kernel::kRows);
  a.heads_per_kv = static_cast<int>(problem.heads / problem.kv_heads);
  a.scale = static_cast<float>(problem.scale * std::numbers::log2e);
  a.output = strided<void>(problem.output);
  a.lse = strided<float>(problem.lse);
  if (problem.gates.present()) {
    a.gates = static_cast<const float*>(problem.gates.data());
    a.gate_sequence = problem.gates.stride(0);
    a.gate_head = problem.gates.stride(1);
  }
  if (problem.sink_logit.present()) {
    a.sink_logit = static_cast<const float*>(problem.sink_logit.data());
    a.sink_head = problem.sink_logit.stride(problem.sink_logit.rank() - 1);
  }
  a.describe_closed = problem.lse.present() || kStatistics;
  const RowLayout layout = layout_of(problem, workspace.rows);
  a.outcomes = layout.outcomes;
  a.moments = layout.moments;
  a.marks = layout.marks;
  a.mark_words = layout.mark_words;
  a.next_tile = workspace.next_tile;
  a.tiles_ahead = problem.sequences.keys <= 1024 ? 2 : 1;
  return a;
}

// Before the forward pass.
void pack_marked_keys(const Workspace& workspace, const ForwardArguments& forward,
                      const backend::AttentionProblem& problem) {
  if (forward.marks == nullptr) return;
  const ConstTensorView& marked = problem.marked_keys;
  const dim3 blocks(static_cast<unsigned>(forward.mark_words + 7) / 8, static_cast<unsigned>(marked.shape(0)));
  pack_marks<<<blocks, 256, 0, workspace.stream>>>(static_cast<const std::uint8_t*>(marked.data()), marked.stride(0),
                                                   marked.stride(1), marked.shape(1),
                                                   layout_of(problem, workspace.rows).marks, forward.mark_words);
  check(cudaGetLastError(), "launch of pack_marks");
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

template <class T, int D, bool kStatistics, class Sizes = Shape<D>>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  using Kernel = Forward<T, D, kStatistics, Sizes>;
  const ForwardArguments a = arguments_of<T, D, kStatistics, Sizes>(workspace, problem);
  constexpr int kShared = sizeof(typename Kernel::Shared);
  const auto kernel = attend_kernel<T, D, kStatistics, Sizes>;
  pack_marked_keys(workspace, a, problem);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
  kernel<<<std::min(workspace.processors, a.order.tiles), Kernel::kThreads, kShared, workspace.stream>>>(a);
  check(cudaGetLastError(), "launch of attend_kernel");
  if (kStatistics) report<T, D>(workspace, a, problem);
}

// Short rows under a causal mask waste much of a tile of 192; statistics need the registers that it has not.
bool wants_small_tiles(const backend::AttentionProblem& problem) {
  const bool short_rows = problem.causal && problem.q.shape(2) <= 2048;
  return problem.head_dim == 64 && (short_rows || problem.statistics_set != StatisticsSet::none);
}

template <class T, bool kStatistics>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  if (wants_small_tiles(problem)) return launch<T, 64, kStatistics, SmallShape64>(workspace, problem);
  switch (problem.head_dim) {
    case 64: return launch<T, 64, false>(workspace, problem);
    case 128: return launch<T, 128, kStatistics>(workspace, problem);
    default: return launch<T, 256, kStatistics>(workspace, problem);
  }
}

template <class T>
void launch(const Workspace& workspace, const backend::AttentionProblem& problem) {
  if (problem.statistics_set == StatisticsSet::none)
    launch<T, false>(workspace, problem);
  else
    launch<T, true>(workspace, problem);
}

}  // namespace

std::string objection(const backend::AttentionProblem& problem) {
  const std::int64_t D = problem.head_dim;
  if (size_of(problem.q.dtype()) != 2 || problem.k.dtype() != problem.q.dtype()) return "not all 16-bit numbers";
  if ((D != 64 && D != 128 && D != 256) || problem.value_dim != D) return "heads of neither 64, 128 nor 256";
  if (problem.q.count() == 0 || problem.k.count() == 0) return "nothing to compute";
  if (problem.keep.present() || problem.bias.present()) return "keep or bias";
  if (problem.alibi.present()) return "alibi";
  if (problem.softcap > 0) return "softcap";
  if (problem.dropout.p > 0) return "dropout";
  if (!(problem.scale > 0)) return "a scale that is not positive";
  if (problem.q.shape(2) >= Reach::kLongest || problem.k.shape(2) >= Reach::kLongest) return "rows of 2^28 and more";
  for (const ConstTensorView& view : {problem.q, problem.k, problem.v, ConstTensorView(problem.output)}) {
    if (view.present() && !is_mappable(view)) return "rows that the copy engine cannot take";
  }
  return {};
}

std::size_t row_bytes(const backend::AttentionProblem& problem) { return layout_of(problem, nullptr).bytes; }

void attend(const Workspace& workspace, const backend::AttentionProblem& problem) {
  if (problem.dtype == DType::bf16)
    launch<__nv_bfloat16>(workspace, problem);
  else
    launch<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
