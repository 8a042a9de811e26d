// The layer on tensors that torch owns, and training steps of a small GPT, for bench/gpu/run.py.
#include <memory>

#include "gpu/calls.h"
#include "polyhead/layer.h"
#include "support/training_run.h"

namespace polyhead::bench::gpu {
namespace {

// Everything is 64 bits wide, so that Python writes it as one array. bf16, names as in torch.nn.MultiheadAttention.
struct LayerCall {
  std::int64_t width, heads, tokens, batch, training;
  std::int64_t x, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias, dy;
  // Where results are copied to by polyhead_gpu_layer_results; the last five if training.
  std::int64_t output, dx, d_in_proj_weight, d_in_proj_bias, d_out_proj_weight, d_out_proj_bias;
};

// One layer at a time, whose results keep their memory from call to call.
struct Layer {
  MultiHeadResults results;
  MultiHeadGradients gradients;
};
Layer& layer() {
  static Layer one;
  return one;
}

ConstTensorView bf16(std::int64_t address, const Dims& shape) { return view(address, DType::bf16, shape); }

void run_layer(const LayerCall& c) {
  const MultiHeadShape shape{.width = c.width, .heads = c.heads};
  MultiHeadViews parameters;
  parameters.in_proj_weight = bf16(c.in_proj_weight, {3 * c.width, c.width});
  parameters.in_proj_bias = bf16(c.in_proj_bias, {3 * c.width});
  parameters.out_proj_weight = bf16(c.out_proj_weight, {c.width, c.width});
  parameters.out_proj_bias = bf16(c.out_proj_bias, {c.width});
  const Dims tokens{c.batch, c.tokens, c.width};
  const MultiHeadInputs inputs{.query = bf16(c.x, tokens)};
  multihead_into(context(), shape, parameters, inputs, {}, c.training ? MultiHeadWants::training() : MultiHeadWants{},
                 layer().results);
  if (c.training == 0) return;
  multihead_backward_into(context(), shape, parameters, inputs, {}, layer().results, {.output = bf16(c.dy, tokens)}, {},
                          layer().gradients);
}

void copy_results(const LayerCall& c) {
  const auto put = [](const Tensor& from, std::int64_t to) {
    copy(context(), from, view<TensorView>(to, from.dtype(), from.shape()));
  };
  put(layer().results.output, c.output);
  if (c.training == 0) return;
  const MultiHeadTensors& d = layer().gradients.dparameters;
  put(layer().gradients.dquery, c.dx);
  put(d.in_proj_weight, c.d_in_proj_weight);
  put(d.in_proj_bias, c.d_in_proj_bias);
  put(d.out_proj_weight, c.d_out_proj_weight);
  put(d.out_proj_bias, c.d_out_proj_bias);
}

std::unique_ptr<test::TrainingRun> training;

}  // namespace
}  // namespace polyhead::bench::gpu

using namespace polyhead::bench::gpu;

extern "C" {

POLYHEAD_PUBLIC const char* polyhead_gpu_layer(const LayerCall* call) {
  return said([&] { run_layer(*call); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_layer_capture(const LayerCall* call, std::int64_t count) {
  return said([&] { capture([&] { run_layer(*call); }, count); });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_layer_results(const LayerCall* call) {
  return said([&] { copy_results(*call); });
}
// sizes: layers, width, heads, tokens, batch. operands: a polyhead::Precision.
POLYHEAD_PUBLIC const char* polyhead_gpu_training(const std::int64_t* sizes, std::int64_t operands) {
  return said([&] {
    training.reset();
    context().set_precision(static_cast<polyhead::Precision>(operands));
    training = std::make_unique<polyhead::test::TrainingRun>(
        context(), polyhead::test::TrainingSizes{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]},
        polyhead::DType::f32);
  });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_training_end() {
  return said([&] {
    training.reset();
    context().set_precision(polyhead::Precision::f32);
  });
}
POLYHEAD_PUBLIC const char* polyhead_gpu_training_step(double* loss) {
  return said([&] { *loss = training->step(); });
}

}  // extern "C"
