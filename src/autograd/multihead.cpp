#include "ops/multihead.h"

#include "autograd/functions.h"

namespace polyhead::autograd {
namespace {

// The parameters for an x of this type: rounded copies if that has 16 bits, except for norms.
MultiHeadViews views_of(Tape& tape, const MultiHeadParameters<Parameter*>& parameters, DType dtype) {
  MultiHeadViews views;
  const auto one = [&](const char*, ParameterKind kind, ConstTensorView& view, Parameter* parameter) {
    if (parameter == nullptr) return;
    const bool rounded = size_of(dtype) == 2 && kind != ParameterKind::norm;
    view = rounded ? tape.value_as(tape.parameter(*parameter), dtype) : ConstTensorView(parameter->value.view());
  };
  for_each_parameter(one, views, parameters);
  return views;
}

}  // namespace

Variable multihead(Tape& tape, const MultiHeadShape& shape, const MultiHeadParameters<Parameter*>& parameters,
                   Variable x, const MultiHeadOptions& options, const MultiHeadWants& wants, bool gate_gradients,
                   MultiHeadState& state, std::optional<Variable> onto) {
  MultiHeadWants all = wants;
  if (tape.recording()) all.attention.lse = all.heads = all.projections = true;  // as MultiHeadWants::training()
  const ConstTensorView in = tape.value(x);
  const MultiHeadViews views = views_of(tape, parameters, in.dtype());
  ops::PackedProjections packed;
  if (size_of(in.dtype()) != 2) {  // copies for this pass are not worth packing
    packed = {tape.packed(views.in_proj_weight), tape.packed(views.out_proj_weight)};
  }
  ops::Residual residual;
  if (onto) {
    residual.plus = tape.value(*onto);
    if (parameters.out_proj_bias != nullptr) {
      residual.bias = tape.value_as(tape.parameter(*parameters.out_proj_bias), residual.plus.dtype());
    }
  }
  ops::multihead(tape.context(), shape, views, packed, {.query = in}, options, all, residual, state.forward,
                 tape.shared());
  const Variable y = tape.result(state.forward.output);
  for_each_parameter(
      [&](const char*, ParameterKind, const Parameter* parameter) {
        if (parameter != nullptr) tape.parameter(*parameter);
      },
      parameters);
  tape.on_backward(y, [&tape, &state, shape, parameters, x, in, options, gate_gradients, onto](const TensorView& sum) {
    if (onto) tape.send_shared(*onto, sum);
    TensorView dy = sum;
    if (sum.dtype() != in.dtype()) {
      dy = tape.take(sum.shape(), in.dtype());
      copy(tape.context(), sum, dy);
    }
    // Gradients of parameters are written where the tape keeps them.
    ops::ParameterGradients learnt{.all = tape.learns()};
    const auto lend = [&](const char*, ParameterKind, const Parameter* parameter, TensorView& place) {
      if (parameter == nullptr) return;
      if (tape.gradient(tape.parameter(*parameter)).present()) {
        throw Error(ErrorCode::unsupported, "multihead", parameter->name + " serves two layers of one tape");
      }
      place = tape.place_for(tape.parameter(*parameter));
    };
    if (learnt.all) for_each_parameter(lend, parameters, learnt.into);
    ops::multihead_backward(tape.context(), shape, views_of(tape, parameters, in.dtype()), {.query = in}, options,
                            state.forward, {.output = dy}, {.gates = gate_gradients}, learnt, state.gradients,
                            tape.shared());
    const auto send = [&](const char*, ParameterKind, const Parameter* parameter, const TensorView& gradient) {
      if (parameter != nullptr) tape.send_shared(tape.parameter(*parameter), gradient);
    };
    if (learnt.all) for_each_parameter(send, parameters, learnt.into);
    if (dy.data() != sum.data()) tape.give_back(dy);
    tape.send_shared(x, state.gradients.dquery);
  });
  return y;
}

}  // namespace polyhead::autograd
