// attend on tensors that torch owns, for bench/gpu/run.py: the public call behind C functions, one by one or in a
// graph.
#include "gpu/calls.h"

#include "polyhead/attention.h"

namespace polyhead::bench::gpu {
namespace {

// Everything is 64 bits wide, so that Python writes it as one array. Pointers are 0 where there is nothing.
struct Call {
  std::int64_t q, k, v, output, lse, statistics;  // [B,H,T,D], [B,G,S,D] twice, [B,H,T,D], [B,H,T], [N,H,..]
  std::int64_t batch, heads, kv_heads, queries, keys, head_dim, dtype;            // bf16, f16, f32
  std::int64_t causal, left, statistics_set, dropout_percent, softcap;            // left: -1 for no window
  std::int64_t key_lengths, cu, sequences, gates, alibi, sink_logit, keep, bias;  // keep and bias [T,S]
  std::int64_t doutput, dq, dk, dv, dgates;                                       // of the backward pass
};

DType dtype_of(const Call& c) { return c.dtype == 0 ? DType::bf16 : c.dtype == 1 ? DType::f16 : DType::f32; }

AttentionOptions options_of(const Call& c) {
  AttentionOptions options;
  options.causal = c.causal != 0;
  if (c.left >= 0) options.window = {.left = c.left, .right = 0};
  if (c.cu != 0 || c.key_lengths != 0) options.align = Align::top_left;
  options.dropout = {static_cast<double>(c.dropout_percent) / 100, 7};
  options.softcap = static_cast<double>(c.softcap);
  options.key_lengths = view(c.key_lengths, DType::i32, {c.batch});
  options.cu_q = options.cu_k = view(c.cu, DType::i32, {c.sequences + 1});
  options.gates = view(c.gates, DType::f32, {c.heads});
  options.alibi = view(c.alibi, DType::f32, {c.heads});
  options.sink_logit = view(c.sink_logit, DType::f32, {c.heads});
  options.keep = view(c.keep, DType::boolean, {c.queries, c.keys});
  options.bias = view(c.bias, dtype_of(c), {c.queries, c.keys});
  return options;
}

struct Inputs {
  Dims queries, keys;
  ConstTensorView q, k, v;

  explicit Inputs(const Call& c)
      : queries{c.batch, c.heads, c.queries, c.head_dim},
        keys{c.batch, c.kv_heads, c.keys, c.head_dim},
        q(view(c.q, dtype_of(c), queries)),
        k(view(c.k, dtype_of(c), keys)),
        v(view(c.v, dtype_of(c), keys)) {}
};

void attend_as_told(Context& context, const Call& c) {
  const Inputs inputs(c);
  AttentionWants wants;
  wants.lse = c.lse != 0;
  wants.statistics = static_cast<StatisticsSet>(c.statistics_set);
  const std::int64_t count = c.cu != 0 ? c.sequences : c.batch;
  const std::int64_t fields = wants.statistics == StatisticsSet::full ? kFullStatistics : kLightStatistics;
  AttentionOutputs outputs;
  outputs.output = view<TensorView>(c.output, dtype_of(c), inputs.queries);
  outputs.lse = view<TensorView>(c.lse, DType::f32, {c.batch, c.heads, c.queries});
  if (wants.statistics != StatisticsSet::none) {
    outputs.statistics = view<TensorView>(c.statistics, DType::f32, {count, c.heads, fields});
  }
  attend_into(context, inputs.q, inputs.k, inputs.v, options_of(c), wants, outputs);
}

void attend_backward_as_told(Context& context, const Call& c) {
  const Inputs inputs(c);
  const DType dtype = dtype_of(c);
  const Dims rows{c.batch, c.heads, c.queries};
  AttentionGradientOutputs outputs;
  outputs.dq = view<TensorView>(c.dq, dtype, inputs.queries);
  outputs.dk = view<TensorView>(c.dk, dtype, inputs.keys);
  outputs.dv = view<TensorView>(c.dv, dtype, inputs.keys);
  outputs.dgates = view<TensorView>(c.dgates, DType::f32, {c.cu != 0 ? c.sequences : c.batch, c.heads});
  attend_backward_into(context, inputs.q, inputs.k, inputs.v, options_of(c),
                       {.output = view(c.doutput, dtype, inputs.queries)}, {.gates = c.dgates != 0},
                       {view(c.output, dtype, inputs.queries), view(c.lse, DType::f32, rows)}, outputs);
}

// Calls that were captured, kept until the next capture.
cudaGraphExec_t captured = nullptr;

}  // namespace

void capture(const std::function<void()>& call, std::int64_t count) {
  call();
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (std::int64_t n = 0; n < count; ++n) call();
  cuda::check(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture");
  if (captured != nullptr) cuda::check(cudaGraphExecDestroy(captured), "cudaGraphExecDestroy");
  cuda::check(cudaGraphInstantiate(&captured, graph, 0), "cudaGraphInstantiate");
  cuda::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

}  // namespace polyhead::bench::gpu

using namespace polyhead::bench::gpu;

extern "C" {

POLYHEAD_PUBLIC const char* polyhead_gpu_attend(const Call* call) {
  return said([&] { attend_as_told(context(), *call); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_attend_backward(const Call* call) {
  return said([&] { attend_backward_as_told(context(), *call); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_precision(std::int64_t precision) {
  return said([&] { context().set_precision(static_cast<polyhead::Precision>(precision)); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_capture(const Call* call, std::int64_t count) {
  return said([&] { capture([&] { attend_as_told(context(), *call); }, count); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_replay() {
  return said([] { polyhead::cuda::check(cudaGraphLaunch(captured, stream()), "cudaGraphLaunch"); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_wait() {
  return said([] { context().synchronise(); });
}

}  // extern "C"
