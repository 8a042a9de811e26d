#include <algorithm>
#include <numbers>

#include "cuda/error.h"
#include "cuda/portable/attention_mma.h"
#include "cuda/sm90/attention.h"
#include "cuda/sm90/gradient.cuh"
#include "cuda/sm90/gradient_rows.cuh"
#include "cuda/sm90/gradient_wide.cuh"
#include "cuda/sm90/host.h"
#include "cuda/tensor_map.h"

namespace polyhead::cuda::sm90 {
namespace {

// How the memory besides the tensors is divided.
struct Layout {
  float *lse = nullptr, *delta = nullptr;  // [B,H,T]
  float* dots = nullptr;  // [B,H,T] dO . output without the gate, for the gradients of gates in the general instance
  // For the gradients of gates, where the fast instance skips closed heads (gate 0): [N,H] the inverted gates and
  // [B,H,T,D] the output that closed heads would have.
  float* inverted_gates = nullptr;
  void* closed_output = nullptr;
  int* any_closed = nullptr;
  std::byte* closed_extra = nullptr;  // extra_bytes of their forward pass
  std::uint8_t* seen = nullptr;       // see host.h, where keep or bias hide keys
  std::size_t bytes = 0;
};

// The forward pass with its output alone.
kernels::AttentionProblem closed_heads(kernels::AttentionProblem forward) {
  forward.lse = forward.weights = forward.logits = forward.statistics = forward.row_statistics = {};
  forward.statistics_set = StatisticsSet::none;
  return forward;
}

// dlse also reaches heads whose gate is 0, where a factor of 0 would not hide a NaN: to check for that would cost the
// fast instance a twentieth of its time.
bool is_general(const kernels::AttentionGradientProblem& problem) {
  const bool reaches_closed = problem.dlse.present() && problem.forward.gates.present();
  return reaches_closed || !portable::score_modifier(problem.forward).empty();
}

Layout layout_of(const kernels::AttentionGradientProblem& problem, std::byte* memory) {
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  Layout layout;
  const auto take_bytes = [&](std::int64_t count) {
    std::byte* taken = memory + layout.bytes;
    layout.bytes += static_cast<std::size_t>((count + 15) / 16 * 16);
    return taken;
  };
  const auto take = [&](float*& array, std::int64_t count) { array = reinterpret_cast<float*>(take_bytes(4 * count)); };
  const std::int64_t rows = count_of(rows_shape(forward));
  take(layout.lse, rows);
  take(layout.delta, rows);
  const bool general = is_general(problem);
  if (problem.dgates.present() && general) take(layout.dots, rows);
  if (problem.dgates.present() && forward.gates.present() && !general) {
    take(layout.inverted_gates, sequences.count * forward.heads);
    layout.any_closed = reinterpret_cast<int*>(take_bytes(sizeof(int)));
    layout.closed_output = take_bytes(rows * forward.head_dim * 2);
    layout.closed_extra = take_bytes(static_cast<std::int64_t>(extra_bytes(closed_heads(forward))));
  }
  if (forward.keep.present() || forward.bias.present()) {
    layout.seen =
        reinterpret_cast<std::uint8_t*>(take_bytes(forward.q.shape(0) * heads_of_seen(forward) * sequences.keys));
  }
  return layout;
}

template <class T, int D>
void describe_rows(const Workspace& workspace, const kernels::AttentionGradientProblem& problem, const Layout& layout) {
  const std::int64_t count = count_of(rows_shape(problem.forward));
  constexpr int kRowsOfBlock = 256 / (D / 8);
  describe_rows_kernel<T, D>
      <<<static_cast<unsigned>((count + kRowsOfBlock - 1) / kRowsOfBlock), 256, 0, workspace.stream>>>(
          strided<const void>(problem.output), strided<const void>(problem.doutput), strided<const float>(problem.lse),
          strided<const float>(problem.dlse), problem.forward.heads, problem.forward.sequences.queries, count,
          layout.lse, layout.delta);
  check(cudaGetLastError(), "launch of describe_rows_kernel");
}

template <class Kernel, bool kOfKeys>
GradientArguments arguments_of(const kernels::AttentionGradientProblem& problem, const Layout& layout) {
  const kernels::AttentionProblem& forward = problem.forward;
  const kernels::Sequences& sequences = forward.sequences;
  GradientArguments a;
  a.own_qk = map_of(kOfKeys ? forward.k : forward.q, Kernel::kOwn);
  a.own_vdo = map_of(kOfKeys ? forward.v : problem.doutput, Kernel::kOwn);
  a.other_qk = map_of(kOfKeys ? forward.q : forward.k, Kernel::kOther);
  a.other_vdo = map_of(kOfKeys ? problem.doutput : forward.v, Kernel::kOther);
  a.sequences = sequences;
  a.mask = forward.mask;
  a.reach = reach_of(forward);
  a.heads = static_cast<int>(forward.heads);
  a.heads_per_kv = static_cast<int>(forward.heads / forward.kv_heads);
  const std::int64_t others = kOfKeys ? sequences.queries * a.heads_per_kv : sequences.keys;
  a.order =
      order_of(sequences, kOfKeys ? forward.kv_heads : forward.heads, kOfKeys ? sequences.keys : sequences.queries,
               Kernel::kOwn, others * 4 * forward.head_dim, kOfKeys ? 1 : a.heads_per_kv);
  a.scale = static_cast<float>(forward.scale);
  a.scale_log2 = static_cast<float>(forward.scale * std::numbers::log2e);
  a.gates = per_head(forward.gates);
  a.dlse = strided<const float>(problem.dlse);
  a.lse = layout.lse;
  a.delta = layout.delta;
  a.first = strided<void>(kOfKeys ? problem.dk : problem.dq);
  if (kOfKeys) {
    a.second = strided<void>(problem.dv);
  } else {
    a.dots = layout.dots;
    a.k = strided<const void>(forward.k);
    if (forward.sink_logit.present()) {
      a.sink_logit = static_cast<const float*>(forward.sink_logit.data());
      a.sink_head = forward.sink_logit.stride(0);
    }
  }
  a.options = options_of(forward);
  if (layout.seen != nullptr) set_seen(a.options, forward, layout.seen);
  return a;
}

template <class Kernel>
void launch_kernel(void (*kernel)(GradientArguments), const Workspace& workspace, const GradientArguments& a) {
  constexpr int kShared = sizeof(typename Kernel::Shared);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
  kernel<<<a.order.tiles, Kernel::kThreads, kShared, workspace.stream>>>(a);
  check(cudaGetLastError(), "launch of gradient_kernel");
}

template <class T, int D>
void write_dgates(const Workspace& workspace, const kernels::AttentionGradientProblem& problem, const Layout& layout) {
  kernels::AttentionProblem closed = closed_heads(problem.forward);
  const int heads = static_cast<int>(closed.heads), count = static_cast<int>(closed.sequences.count) * heads;
  const bool may_be_closed = closed.gates.present() && !is_general(problem);
  Strided<const void> closed_output;
  if (may_be_closed) {
    invert_gates_kernel<<<1, 256, 0, workspace.stream>>>(per_head(closed.gates), heads, count, layout.inverted_gates,
                                                         layout.any_closed);
    check(cudaGetLastError(), "launch of invert_gates_kernel");
    const Device device = closed.q.device();
    const Dims per_head_shape{closed.sequences.count, closed.heads};
    const Dims shape{closed.q.shape(0), closed.heads, closed.sequences.queries, D};
    closed.gates =
        ConstTensorView(layout.inverted_gates, DType::f32, per_head_shape, contiguous_strides(per_head_shape), device);
    closed.output = TensorView(layout.closed_output, closed.dtype, shape, contiguous_strides(shape), device);
    attend({workspace.stream, workspace.processors, workspace.next_tile, layout.closed_extra, layout.any_closed},
           closed);
    closed_output = strided<const void>(ConstTensorView(closed.output));
  }
  gate_gradient_kernel<T, D><<<static_cast<unsigned>(count), 256, 0, workspace.stream>>>(
      closed.sequences, layout.dots != nullptr ? layout.dots : layout.delta,
      layout.dots != nullptr ? Strided<const float>{} : strided<const float>(problem.dlse), heads,
      may_be_closed ? per_head(problem.forward.gates) : PerHead{}, strided<const void>(problem.doutput), closed_output,
      static_cast<float*>(problem.dgates.data()), problem.dgates.stride(0), problem.dgates.stride(1));
  check(cudaGetLastError(), "launch of gate_gradient_kernel");
}

// dq, dk and dv.
template <class T, int D, bool kGeneral>
void launch_gradients(const Workspace& workspace, const kernels::AttentionGradientProblem& problem,
                      const Layout& layout) {
  using OfQueries = Gradient<T, D, false, kGeneral>;
  launch_kernel<OfQueries>(gradient_kernel<T, D, false, kGeneral>, workspace,
                           arguments_of<OfQueries, false>(problem, layout));
  if constexpr (D == 256) {
    using OfKeys = WideKeyGradient<T, kGeneral>;
    launch_kernel<OfKeys>(wide_key_gradient_kernel<T, kGeneral>, workspace,
                          arguments_of<OfKeys, true>(problem, layout));
  } else {
    using OfKeys = Gradient<T, D, true, kGeneral>;
    launch_kernel<OfKeys>(gradient_kernel<T, D, true, kGeneral>, workspace,
                          arguments_of<OfKeys, true>(problem, layout));
  }
}

template <class T, int D>
void launch(const Workspace& workspace, const kernels::AttentionGradientProblem& problem) {
  const Layout layout = layout_of(problem, workspace.memory);
  describe_rows<T, D>(workspace, problem, layout);
  if (layout.seen != nullptr) queue_seen_keys(workspace.stream, problem.forward, layout.seen);
  is_general(problem) ? launch_gradients<T, D, true>(workspace, problem, layout)
                      : launch_gradients<T, D, false>(workspace, problem, layout);
  const kernels::AttentionProblem& forward = problem.forward;
  if (problem.dsink_logit.present()) {
    sink_gradient_kernel<<<static_cast<unsigned>(forward.heads), 256, 0, workspace.stream>>>(
        forward.sequences, layout.lse, layout.delta, static_cast<int>(forward.heads),
        is_general(problem) ? PerHead{} : per_head(forward.gates), static_cast<const float*>(forward.sink_logit.data()),
        forward.sink_logit.stride(0), static_cast<float*>(problem.dsink_logit.data()), problem.dsink_logit.stride(0));
    check(cudaGetLastError(), "launch of sink_gradient_kernel");
  }
  if (problem.dgates.present()) write_dgates<T, D>(workspace, problem, layout);
}

template <class T>
void launch(const Workspace& workspace, const kernels::AttentionGradientProblem& problem) {
  switch (problem.forward.head_dim) {
    case 64: return launch<T, 64>(workspace, problem);
    case 128: return launch<T, 128>(workspace, problem);
    default: return launch<T, 256>(workspace, problem);
  }
}

}  // namespace

std::string_view why_not(const kernels::AttentionGradientProblem& problem) {
  if (const std::string_view why = why_not(problem.forward); !why.empty()) return why;
  for (const ConstTensorView& view : {problem.output, problem.doutput, ConstTensorView(problem.dq),
                                      ConstTensorView(problem.dk), ConstTensorView(problem.dv)}) {
    if (view.present() && !is_mappable(view)) return "rows must be aligned to 16 bytes for the copy engine";
  }
  if (problem.dweights.present()) return "gradients of weights are given";
  return {};
}

std::size_t extra_bytes(const kernels::AttentionGradientProblem& problem) { return layout_of(problem, nullptr).bytes; }

void attend_backward(const Workspace& workspace, const kernels::AttentionGradientProblem& problem) {
  if (problem.forward.dtype == DType::bf16)
    launch<__nv_bfloat16>(workspace, problem);
  else
    launch<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
