#include "ops/multihead.h"

#include <utility>

#include "autograd/functions.h"

namespace polyhead::autograd {
namespace {

// visit(parameter, its gradient's place) for every parameter that there is.
template <class Visit>
void for_each_parameter(const MultiHeadParameters<Parameter*>& parameters, MultiHeadTensors& tensors,
                        const Visit& visit) {
  const auto one = [&](Parameter* parameter, Tensor& tensor) {
    if (parameter != nullptr) visit(*parameter, tensor);
  };
  one(parameters.in_proj_weight, tensors.in_proj_weight);
  one(parameters.q_proj_weight, tensors.q_proj_weight);
  one(parameters.k_proj_weight, tensors.k_proj_weight);
  one(parameters.v_proj_weight, tensors.v_proj_weight);
  one(parameters.in_proj_bias, tensors.in_proj_bias);
  one(parameters.out_proj_weight, tensors.out_proj_weight);
  one(parameters.out_proj_bias, tensors.out_proj_bias);
  one(parameters.q_norm_weight, tensors.q_norm_weight);
  one(parameters.k_norm_weight, tensors.k_norm_weight);
}

// The parameters for an x of this type: rounded copies if that has 16 bits, except for norms.
MultiHeadViews views_of(Tape& tape, const MultiHeadParameters<Parameter*>& parameters, DType dtype) {
  const auto one = [&](Parameter* parameter) -> ConstTensorView {
    if (parameter == nullptr) return {};
    return size_of(dtype) == 2 ? tape.value_as(tape.parameter(*parameter), dtype) : parameter->value.view();
  };
  const auto norm = [](const Parameter* gamma) {
    return gamma == nullptr ? ConstTensorView{} : ConstTensorView(gamma->value.view());
  };
  return {one(parameters.in_proj_weight), one(parameters.q_proj_weight),  one(parameters.k_proj_weight),
          one(parameters.v_proj_weight),  one(parameters.in_proj_bias),   one(parameters.out_proj_weight),
          one(parameters.out_proj_bias),  norm(parameters.q_norm_weight), norm(parameters.k_norm_weight)};
}

}  // namespace

Variable multihead(Tape& tape, const MultiHeadShape& shape, const MultiHeadParameters<Parameter*>& parameters,
                   Variable x, const MultiHeadOptions& options, const MultiHeadWants& wants, bool gate_gradients,
                   MultiHeadMemory& memory, std::optional<Variable> onto) {
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
  ops::multihead(tape.context(), shape, views, packed, {.query = in}, options, all, residual, memory.forward);
  const Variable y = tape.result(memory.forward.output);
  for_each_parameter(parameters, memory.gradients.dparameters, [&](Parameter& p, Tensor&) { tape.parameter(p); });
  tape.on_backward(y, [&tape, &memory, shape, parameters, x, in, options, gate_gradients, onto](const TensorView& sum) {
    if (onto) tape.send_shared(*onto, sum);
    TensorView dy = sum;
    if (sum.dtype() != in.dtype()) {
      dy = tape.take(sum.shape(), in.dtype());
      copy(tape.context(), sum, dy);
    }
    MultiHeadGradients& gradients = memory.gradients;
    // The tape lends the memory of the parameters' gradients, so that they are written where they belong.
    const auto lend = [&](const Parameter& parameter, Tensor& place) {
      if (tape.gradient(tape.parameter(parameter)).present()) {
        throw Error(ErrorCode::unsupported, "multihead", parameter.name + " serves two layers of one tape");
      }
      place = std::move(tape.gradients().of(parameter));
    };
    struct Lent {  // given back whatever happens
      Tape& tape;
      const MultiHeadParameters<Parameter*>& parameters;
      MultiHeadTensors& tensors;
      ~Lent() {
        for_each_parameter(parameters, tensors, [&](const Parameter& parameter, Tensor& place) {
          if (place.present()) tape.gradients().of(parameter) = std::move(place);
        });
      }
    };
    const auto back = [&] {
      std::optional<DType> learnt;
      if (tape.learns()) learnt = size_of(in.dtype()) == 2 ? DType::f32 : in.dtype();
      ops::multihead_backward(tape.context(), shape, views_of(tape, parameters, in.dtype()), {.query = in}, options,
                              memory.forward, {.output = dy}, {.gates = gate_gradients}, learnt, gradients);
    };
    if (tape.learns()) {
      {
        const Lent lent{tape, parameters, gradients.dparameters};
        for_each_parameter(parameters, gradients.dparameters, lend);
        back();
      }
      for_each_parameter(parameters, gradients.dparameters, [&](const Parameter& parameter, Tensor&) {
        tape.send(tape.parameter(parameter), [](const TensorView&) {});  // it is there already
      });
    } else {
      back();
    }
    if (dy.data() != sum.data()) tape.give_back(dy);
    tape.send_shared(x, gradients.dquery);
  });
  return y;
}

}  // namespace polyhead::autograd
