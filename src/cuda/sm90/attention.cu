#include "cuda/portable/attention_mma.h"
#include "cuda/sm90/keys.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/statistics.cuh"

namespace polyhead::cuda::sm90 {
namespace {

// After the forward pass: the statistics of rows and heads.
template <class T, int D>
void report(const Workspace& workspace, const ForwardArguments& forward, const kernels::AttentionProblem& problem) {
  const kernels::Sequences& sequences = problem.sequences;
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

// Runs an instance in the shape that suits the call.
template <class T, Instance kInstance>
void choose_shape(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  const auto run = [&]<int D, class Sizes>(std::integral_constant<int, D>, Sizes) {
    const ForwardArguments arguments = launch<T, D, kInstance, Sizes>(workspace, problem);
    if constexpr (kInstance == Instance::statistics) report<T, D>(workspace, arguments, problem);
  };
  if (problem.head_dim == 64) {
    constexpr std::integral_constant<int, 64> kWidth;
    // Short rows under a causal mask waste much of a tile of 192; the other instances need more registers than it
    // leaves.
    if constexpr (kInstance == Instance::plain) {
      if (!problem.mask.causal || problem.q.shape(2) > 1024) return run(kWidth, Shape<64>());
    }
    return run(kWidth, SmallShape64());
  }
  if (problem.head_dim == 128) {
    return run(std::integral_constant<int, 128>(),
               std::conditional_t<kInstance == Instance::general, GeneralShape128, Shape<128>>());
  }
  run(std::integral_constant<int, 256>(), Shape<256>());
}

template <class T>
void choose_instance(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  if (!portable::score_modifier(problem).empty()) {
    if (!attend_with_one_option(workspace, problem)) choose_shape<T, Instance::general>(workspace, problem);
  } else if (problem.statistics_set != StatisticsSet::none) {
    choose_shape<T, Instance::statistics>(workspace, problem);
  } else {
    choose_shape<T, Instance::plain>(workspace, problem);
  }
}

}  // namespace

// Before the forward pass: packs marks and keep into bits, and finds the keys that some query sees.
void prepare_keys(const Workspace& workspace, const ForwardArguments& forward,
                  const kernels::AttentionProblem& problem) {
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

void queue_seen_keys(cudaStream_t stream, const kernels::AttentionProblem& problem, std::uint8_t* seen) {
  Options options = options_of(problem);
  set_seen(options, problem, seen);
  const std::int64_t groups = (problem.sequences.keys + 31) / 32, heads = heads_of_seen(problem);
  find_seen_keys<<<static_cast<unsigned>(problem.sequences.count * heads * groups), 256, 0, stream>>>(
      problem.sequences, reach_of(problem), options, seen, static_cast<int>(heads), static_cast<int>(groups));
  check(cudaGetLastError(), "launch of find_seen_keys");
}

std::string_view why_not(const kernels::AttentionProblem& problem) {
  const std::int64_t D = problem.head_dim;
  if (size_of(problem.q.dtype()) != 2 || problem.k.dtype() != problem.q.dtype())
    return "q, k and v must be f16 or bf16";
  if ((D != 64 && D != 128 && D != 256) || problem.value_dim != D)
    return "head_dim must be 64, 128 or 256, and value_dim the same";
  if (problem.q.count() == 0 || problem.k.count() == 0) return "no queries or no keys";
  if (const DType bias = problem.bias.dtype(); problem.bias.present() && bias != DType::f32 && bias != problem.dtype) {
    return "the bias must be f32 or of the type of q";
  }
  if (!has_reach(problem.mask)) return "the mask must be made of causal, left, right and always_first";
  if (problem.q.shape(2) >= Reach::kLongest || problem.k.shape(2) >= Reach::kLongest)
    return "2^28 queries or keys and more";
  for (const ConstTensorView& view : {problem.q, problem.k, problem.v, ConstTensorView(problem.output)}) {
    if (view.present() && !is_mappable(view)) return "rows must be aligned to 16 bytes for the copy engine";
  }
  return {};
}

std::size_t extra_bytes(const kernels::AttentionProblem& problem) { return layout_of(problem, nullptr).bytes; }

void attend(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  if (problem.dtype == DType::bf16)
    choose_instance<__nv_bfloat16>(workspace, problem);
  else
    choose_instance<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
