#include "autograd/functions.h"

#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemv.h"
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

// Where to write the gradient of b; absent if there is no b, or if it needs none.
TensorView place_for(Tape& tape, const std::optional<Variable>& bias) {
  return bias && tape.needs_gradient(*bias) ? tape.place_for(*bias) : TensorView{};
}

// x W^T + b, in this type.
TensorView linear_value(Tape& tape, Variable x, Variable weight, const std::optional<Variable>& bias, DType dtype,
                        ops::LinearExtras extras = {}) {
  const ConstTensorView in = tape.value(x), w = weight_beside(tape, in, weight);
  const TensorView out = tape.take(with_last(in.shape(), w.shape(0)), dtype);
  const bool copied = w.data() != tape.value(weight).data();  // only for this pass: not worth packing
  if (!copied) extras.packed = tape.packed(w);
  extras.shared = tape.shared();
  ops::linear_into(tape.context(), in, w, bias ? tape.value_as(*bias, dtype) : ConstTensorView{}, out, extras);
  return out;
}

// Sends the gradients of x and W, and of b if it is given. dy has x's type.
void send_linear_backward(Tape& tape, Variable x, Variable weight, const std::optional<Variable>& bias,
                          const ConstTensorView& dy) {
  const ConstTensorView input = tape.value(x);
  const auto back = [&](const LinearGradientOutputs& outputs) {
    ops::linear_backward_into(tape.context(), input, weight_beside(tape, input, weight), dy, outputs, tape.shared());
  };
  tape.send(x, [&](const TensorView& into) { back({.dx = into}); });
  tape.send(weight, [&](const TensorView& into) { back({.dweight = into}); });
  if (bias) tape.send(*bias, [&](const TensorView& into) { back({.dbias = into}); });
}

}  // namespace

Variable linear(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias, std::optional<DType> dtype) {
  const Variable y = tape.result(linear_value(tape, x, weight, bias, dtype.value_or(tape.value(x).dtype())));
  tape.on_backward(y, [&tape, x, weight, bias](const TensorView& dy) {
    send_linear_backward(tape, x, weight, bias, tape.as(dy, tape.value(x).dtype()));
  });
  return y;
}

Variable linear_onto(Tape& tape, Variable onto, Variable x, Variable weight, std::optional<Variable> bias) {
  const ConstTensorView plus = tape.value(onto);
  const Variable y = tape.result(linear_value(tape, x, weight, bias, plus.dtype(), {.plus = plus}));
  tape.on_backward(y, [&tape, onto, x, weight, bias](const TensorView& dy) {
    const DType dtype = tape.value(x).dtype();
    tape.send_shared(onto, dy);
    if (dy.dtype() == dtype) return send_linear_backward(tape, x, weight, bias, dy);
    const TensorView rounded = tape.take(dy.shape(), dtype), dbias = place_for(tape, bias);
    ops::round_and_sum(tape.context(), dy, rounded, dbias);
    if (dbias.present()) tape.send_shared(*bias, dbias);
    send_linear_backward(tape, x, weight, {}, rounded);
    tape.give_back(rounded);
  });
  return y;
}

Variable linear_gelu(Tape& tape, Variable x, Variable weight, std::optional<Variable> bias, ops::Elementwise f) {
  const DType dtype = tape.value(x).dtype();
  TensorView in, out;
  if (f == ops::Elementwise::gelu) {
    in = tape.take(with_last(tape.value(x).shape(), tape.value(weight).shape(0)), dtype);
    out = linear_value(tape, x, weight, bias, dtype, {.before_gelu = in});
  } else {
    in = linear_value(tape, x, weight, bias, dtype);
    out = tape.take(in.shape(), dtype);
    ops::elementwise(tape.context(), f, in, {}, out);
  }
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, weight, bias, f, in](const TensorView& dy) {
    const TensorView din = tape.take(in.shape(), in.dtype()), dbias = place_for(tape, bias);
    ops::elementwise(tape.context(), backward_of(f), in, dy, din, 1, dbias);
    if (dbias.present()) tape.send_shared(*bias, dbias);
    send_linear_backward(tape, x, weight, {}, din);
    tape.give_back(din);
  });
  return y;
}

Variable normalise(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon,
                   std::optional<DType> dtype) {
  const ConstTensorView in = tape.value(x), factors = tape.value(gamma);
  const TensorView out = tape.take(in.shape(), dtype.value_or(in.dtype()));
  const std::int64_t columns = in.shape(in.rank() - 1);
  const TensorView mean_rstd = tape.take({columns == 0 ? 0 : in.count() / columns, 2}, factors.dtype());
  ops::normalise(tape.context(), in, factors, value_of(tape, beta), epsilon, out, mean_rstd);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, in, gamma, factors, beta, mean_rstd](const TensorView& dy) {
    const TensorView dgamma = tape.place_for(gamma), dbeta = beta ? tape.place_for(*beta) : TensorView{};
    const auto back = [&](const TensorView& into, const ConstTensorView& plus) {
      ops::normalise_backward(tape.context(), in, factors, mean_rstd, dy, plus, into, dgamma, dbeta);
    };
    tape.needs_gradient(x) ? tape.send_onto(x, back) : back(tape.take(in.shape(), in.dtype()), {});
    tape.send_shared(gamma, dgamma);
    if (beta) tape.send_shared(*beta, dbeta);
  });
  return y;
}

Variable linear_of_norm(Tape& tape, Variable x, Variable gamma, std::optional<Variable> beta, double epsilon,
                        DType inner, Variable weight, std::optional<Variable> bias, std::optional<DType> dtype) {
  const ConstTensorView in = tape.value(x), w = tape.value(weight);
  if (!tape.recording() && !beta && w.dtype() == inner) {
    const DType out = dtype.value_or(inner);
    const TensorView y = tape.take(with_last(in.shape(), w.shape(0)), out);
    if (ops::gemv(tape.context(), ops::GemvInput::rms_norm, in, tape.value(gamma), epsilon, w,
                  bias ? tape.value_as(*bias, out) : ConstTensorView{}, {}, y)) {
      return tape.result(y);
    }
    tape.give_back(y);
  }
  return linear(tape, normalise(tape, x, gamma, beta, epsilon, inner), weight, bias, dtype);
}

Variable linear_of_gate_onto(Tape& tape, Variable onto, Variable x, ops::Gate kind, Variable weight,
                             std::optional<Variable> bias) {
  const ConstTensorView in = tape.value(x), w = tape.value(weight), plus = tape.value(onto);
  if (!tape.recording() && w.dtype() == in.dtype()) {
    const TensorView y = tape.take(plus.shape(), plus.dtype());
    const auto input = kind == ops::Gate::silu ? ops::GemvInput::silu_gate : ops::GemvInput::gelu_gate;
    if (ops::gemv(tape.context(), input, in, {}, 0, w, bias ? tape.value_as(*bias, y.dtype()) : ConstTensorView{}, plus,
                  y)) {
      return tape.result(y);
    }
    tape.give_back(y);
  }
  return linear_onto(tape, onto, gate(tape, x, kind), weight, bias);
}

Variable as(Tape& tape, Variable x, DType dtype) {
  if (tape.value(x).dtype() == dtype) return x;
  const TensorView out = tape.take(tape.value(x).shape(), dtype);
  copy(tape.context(), tape.value(x), out);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x](const TensorView& dy) { send_as(tape, x, dy); });
  return y;
}

Variable softcap(Tape& tape, Variable x, double cap) {
  const ConstTensorView in = tape.value(x);
  const TensorView out = tape.take(in.shape(), in.dtype());
  ops::elementwise(tape.context(), ops::Elementwise::softcap, in, {}, out, cap);
  const Variable y = tape.result(out);
  tape.on_backward(y, [&tape, x, cap](const TensorView& dy) {
    tape.send(x, [&](const TensorView& into) {
      ops::elementwise(tape.context(), ops::Elementwise::softcap_backward, tape.value(x), dy, into, cap);
    });
  });
  return y;
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
  const DType dtype = rows.dtype() == DType::f64 ? DType::f64 : DType::f32;
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

Loss cross_entropy(Tape& tape, Variable logits, const ConstTensorView& targets, ops::Share share) {
  const ConstTensorView in = tape.value(logits);
  const TensorView losses = tape.take(targets.shape(), in.dtype()), shares = tape.take(targets.shape(), in.dtype()),
                   totals = tape.take({2}, DType::f64),
                   dlogits = tape.recording() ? tape.take(in.shape(), in.dtype()) : TensorView{};
  ops::cross_entropy(tape.context(), in, targets, share, losses, shares, totals, dlogits);
  if (tape.recording()) tape.send_shared(logits, dlogits);
  return Loss(tape.context(), totals);
}

}  // namespace polyhead::autograd
