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

ConstTensorView value_of(const Tape& tape, const std::optional<Variable>& x) {
  return x ? tape.value(*x) : ConstTensorView{};
}

}  // namespace

Variable linear(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias) {
  const ConstTensorView in = tape.value(x), w = tape.value(weight);
  const TensorView out = tape.take(with_last(in.shape(), w.shape(0)), in.dtype());
  ops::linear_into(tape.context(), in, w, tape.packed(w), value_of(tape, bias), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, weight, bias](const TensorView& dy) {
    const auto back = [&](const LinearGradientOutputs& outputs) {
      linear_backward_into(tape.context(), tape.value(x), tape.value(weight), dy, outputs);
    };
    tape.send(x, [&](const TensorView& into) { back({.dx = into}); });
    tape.send(weight, [&](const TensorView& into) { back({.dweight = into}); });
    if (bias) tape.send(*bias, [&](const TensorView& into) { back({.dbias = into}); });
  });
  return y;
}

Variable normalise(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  const std::int64_t columns = in.shape(in.rank() - 1);
  const TensorView scales = tape.take({columns == 0 ? 0 : in.count() / columns, 2}, in.dtype());
  ops::normalise(tape.context(), in, tape.value(gamma), value_of(tape, beta), epsilon, out, scales);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, gamma, beta, scales](const TensorView& dy) {
    const ConstTensorView factors = tape.value(gamma);
    const TensorView dgamma = tape.take(factors.shape(), factors.dtype());
    const TensorView dbeta = beta ? tape.take(factors.shape(), factors.dtype()) : TensorView{};
    const auto back = [&](const TensorView& into, const ConstTensorView& plus) {
      ops::normalise_backward(tape.context(), tape.value(x), factors, scales, dy, plus, into, dgamma, dbeta);
    };
    tape.needs_gradient(x) ? tape.send_onto(x, back) : back(tape.take(dy.shape(), dy.dtype()), {});
    tape.send_shared(gamma, dgamma);
    if (beta) tape.send_shared(*beta, dbeta);
  });
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
    for (const Variable x : {a, b}) tape.send_shared(x, dy);
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
