#include "autograd/functions.h"

#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/norm.h"

namespace polyhead::autograd {
namespace {

Dims with_last(const Dims& shape, std::int64_t last) {
  Dims result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

// A 16-bit x needs weights of its own type; an f32 x takes them as they are stored.
ConstTensorView weight_beside(Tape& tape, const ConstTensorView& x, Variable weight) {
  return size_of(x.dtype()) == 2 ? tape.value_as(weight, x.dtype()) : tape.value(weight);
}

ConstTensorView value_of(const Tape& tape, const std::optional<Variable>& x) {
  return x ? tape.value(*x) : ConstTensorView{};
}

// Sends a gradient to x, in x's type.
void send_as(Tape& tape, Variable x, const TensorView& gradient) {
  if (gradient.dtype() == tape.value(x).dtype()) return tape.send_shared(x, gradient);
  tape.send(x, [&](const TensorView& into) { copy(tape.context(), gradient, into); });
}

}  // namespace

Variable linear(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias, std::optional<DType> dtype) {
  const ConstTensorView in = tape.value(x), w = weight_beside(tape, in, weight);
  const TensorView out = tape.take(with_last(in.shape(), w.shape(0)), dtype.value_or(in.dtype()));
  const bool copied = w.data() != tape.value(weight).data();  // only for this pass: not worth packing
  ops::linear_into(tape.context(), in, w, copied ? nullptr : tape.packed(w),
                   bias ? tape.value_as(*bias, out.dtype()) : ConstTensorView{}, out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, weight, bias](const TensorView& gradient) {
    const ConstTensorView input = tape.value(x), dy = tape.as(gradient, input.dtype());
    const auto back = [&](const LinearGradientOutputs& outputs) {
      linear_backward_into(tape.context(), input, weight_beside(tape, input, weight), dy, outputs);
    };
    tape.send(x, [&](const TensorView& into) { back({.dx = into}); });
    tape.send(weight, [&](const TensorView& into) { back({.dweight = into}); });
    if (bias) tape.send(*bias, [&](const TensorView& into) { back({.dbias = into}); });
  });
  return y;
}

Variable normalise(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon,
                   std::optional<DType> dtype) {
  const ConstTensorView in = tape.value(x), factors = tape.value(gamma);
  const TensorView out = tape.take(in.shape(), dtype.value_or(in.dtype()));
  const std::int64_t columns = in.shape(in.rank() - 1);
  const TensorView scales = tape.take({columns == 0 ? 0 : in.count() / columns, 2}, factors.dtype());
  ops::normalise(tape.context(), in, factors, value_of(tape, beta), epsilon, out, scales);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, in, gamma, factors, beta, scales](const TensorView& dy) {
    const TensorView dgamma = tape.take(factors.shape(), factors.dtype());
    const TensorView dbeta = beta ? tape.take(factors.shape(), factors.dtype()) : TensorView{};
    const auto back = [&](const TensorView& into, const ConstTensorView& plus) {
      ops::normalise_backward(tape.context(), in, factors, scales, dy, plus, into, dgamma, dbeta);
    };
    tape.needs_gradient(x) ? tape.send_onto(x, back) : back(tape.take(in.shape(), in.dtype()), {});
    tape.send_shared(gamma, dgamma);
    if (beta) tape.send_shared(*beta, dbeta);
  });
  return y;
}

Variable as(Tape& tape, Variable x, DType dtype) {
  if (tape.value(x).dtype() == dtype) return x;
  const TensorView out = tape.take(tape.value(x).shape(), dtype);
  copy(tape.context(), tape.value(x), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x](const TensorView& dy) { send_as(tape, x, dy); });
  return y;
}

namespace {

Variable activation(Tape& tape, Variable x, ops::Elementwise forward, ops::Elementwise backward, double factor = 1) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  ops::elementwise(tape.context(), forward, in, {}, out, factor);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, backward, factor](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) {
      ops::elementwise(tape.context(), backward, tape.value(x), dy, into, factor);
    });
  });
  return y;
}

}  // namespace

Variable gelu(Tape& tape, Variable x) {
  return activation(tape, x, ops::Elementwise::gelu, ops::Elementwise::gelu_backward);
}
Variable erf_gelu(Tape& tape, Variable x) {
  return activation(tape, x, ops::Elementwise::erf_gelu, ops::Elementwise::erf_gelu_backward);
}

Variable softcap(Tape& tape, Variable x, double cap) {
  return activation(tape, x, ops::Elementwise::softcap, ops::Elementwise::softcap_backward, cap);
}

Variable scale(Tape& tape, Variable x, double factor) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  ops::elementwise(tape.context(), ops::Elementwise::scale, in, {}, out, factor);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, factor](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) {
      ops::elementwise(tape.context(), ops::Elementwise::scale, dy, {}, into, factor);
    });
  });
  return y;
}

Variable gate(Tape& tape, Variable x, ops::Gate kind) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(with_last(in.shape(), in.shape(in.rank() - 1) / 2), in.dtype());
  ops::gate(tape.context(), kind, in, out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, kind](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) { ops::gate_backward(tape.context(), kind, tape.value(x), dy, into); });
  });
  return y;
}

Variable add(Tape& tape, Variable a, Variable b) {
  const ConstTensorView left = tape.value(a);
  const TensorView out = tape.take(left.shape(), left.dtype());
  ops::elementwise(tape.context(), ops::Elementwise::add, left, tape.value(b), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, a, b](const TensorView& dy) {
    for (const Variable x : {a, b}) send_as(tape, x, dy);
  });
  return y;
}

Variable add_to_rows(Tape& tape, Variable x, Variable row) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  ops::add_row(tape.context(), in, tape.value(row), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, row](const TensorView& dy) {
    tape.send_shared(x, dy);
    tape.send(row, [&](const TensorView& into) { ops::add_row_backward(tape.context(), dy, into); });
  });
  return y;
}

Variable drop(Tape& tape, Variable x, const Dropout& dropout) {
  if (dropout.p == 0) return x;
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  ops::drop(tape.context(), in, dropout, out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, dropout](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) { ops::drop(tape.context(), dy, dropout, into); });
  });
  return y;
}

Variable embed(Tape& tape, Variable table, const ConstTensorView& tokens, std::optional<Variable> positions) {
  const ConstTensorView rows = tape.value(table);
  const DType dtype = size_of(rows.dtype()) == 2 ? DType::f32 : rows.dtype();
  const TensorView out = tape.take({tokens.shape(0), tokens.shape(1), rows.shape(1)}, dtype);
  ops::embed(tape.context(), rows, tokens, value_of(tape, positions), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, table, tokens, positions](const TensorView& dy) {
    tape.send_added(table, [&](const TensorView& into) { ops::embed_backward(tape.context(), dy, tokens, into); });
    if (!positions) return;
    tape.send(*positions, [&](const TensorView& into) { ops::positions_backward(tape.context(), dy, into); });
  });
  return y;
}

Variable pool(Tape& tape, Variable x, const ConstTensorView& lengths) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take({in.shape(0), in.shape(2)}, in.dtype());
  ops::pool(tape.context(), in, lengths, out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, lengths](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) { ops::pool_backward(tape.context(), dy, lengths, into); });
  });
  return y;
}

ops::CrossEntropy cross_entropy(Tape& tape, Variable logits, const ConstTensorView& targets, ops::Share share) {
  const ConstTensorView in = tape.value(logits);
  const TensorView losses = tape.take(targets.shape(), in.dtype()), shares = tape.take(targets.shape(), in.dtype());
  if (!tape.recording()) return ops::cross_entropy(tape.context(), in, targets, share, losses, shares);
  const TensorView dlogits = tape.take(in.shape(), in.dtype());
  const ops::CrossEntropy found = ops::cross_entropy(tape.context(), in, targets, share, losses, shares, dlogits);
  tape.send_shared(logits, dlogits);
  return found;
}

}  // namespace polyhead::autograd
