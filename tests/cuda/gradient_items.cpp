// Gradients that are small differences of large numbers: rows in which one key has nearly all the weight. The rule of
// the contract does not see them, since a plain implementation in 16 bits loses them too. Here every row is held to its
// own size.
#include <cmath>

#include "cuda/items.h"
#include "cuda/moved.h"
#include "support/cases.h"
#include "support/plain.h"

namespace polyhead::test::gpu {
namespace {

struct Gradients {
  Tensor dq, dk, dv, dsink, dgates;  // on the host
};

Gradients gradients_of(Context& context, const Materialised& m) {
  const Moved moved(context, m.memory);
  AttentionOptions options = m.options;
  for (ConstTensorView* view : {&options.sink_logit, &options.gates}) *view = moved(*view);
  const ConstTensorView q = moved(m.q), k = moved(m.k), v = moved(m.v);
  const Attention forward = attend(context, q, k, v, options, {.lse = true});
  const AttentionGradients got = attend_backward(context, q, k, v, options, {.output = moved(m.upstream.output)},
                                                 m.gradient_wants, {forward.output, forward.lse});
  const auto home = [&](const Tensor& tensor) { return tensor.present() ? to_host(context, tensor) : Tensor{}; };
  return {home(got.dq), home(got.dk), home(got.dv), home(got.dsink_logit), home(got.dgates)};
}

// The largest |got - exact| / |exact| of a row of `width` numbers; |exact| counts as no less than `least`.
double worst_row(const Tensor& got, const Tensor& exact, std::int64_t width, double least) {
  const std::vector<double> g = reference::Array<double>(got).values(), e = reference::Array<double>(exact).values();
  double worst = 0;
  for (std::size_t begin = 0; begin < e.size(); begin += static_cast<std::size_t>(width)) {
    double off = 0, size = least;
    for (std::size_t n = begin; n < begin + static_cast<std::size_t>(width); ++n) {
      off = std::hypot(off, g[n] - e[n]);
      size = std::hypot(size, e[n]);
    }
    if (!(off <= worst * size)) worst = off / size;
  }
  return worst;
}

Case one_key_case(DType dtype, std::int64_t width) {
  Case c;
  c.name = "small_gradients";
  c.dtype = dtype;
  c.head_dim = c.value_dim = width;
  c.heads = 2;
  c.kv_heads = 1;
  c.gates = Gates::none;
  return c;
}

// Queries become `factor` times the key that has their number, counted around, and sinks `sink`.
void concentrate(Materialised& m, double factor, double sink) {
  const reference::Array<double> keys(m.k);
  const std::int64_t heads_per_kv = m.q.shape(1) / m.k.shape(1), rows = m.q.shape(2), width = m.q.shape(3);
  std::int64_t n = 0;
  test::fill_with(m.q, [&] {
    const std::int64_t d = n % width, t = n / width % rows, h = n / width / rows % m.q.shape(1),
                       b = n / width / rows / m.q.shape(1);
    ++n;
    return factor * keys(b, h / heads_per_kv, t % m.k.shape(2), d);
  });
  if (m.sink_logit.present()) test::fill_with(m.sink_logit, [&] { return sink; });
}

std::string judge_rows(Context& context, const Materialised& m) {
  const Gradients got = gradients_of(context, m);
  const AttentionGradients exact = test::expected_gradients(m).exact;
  // ds below 2^-14 has fewer bits in f16.
  const double least = m.q.dtype() == DType::f16 ? 0x1p-12 : 0;
  std::string wrong;
  const auto expect = [&](const char* what, const Tensor& x, const Tensor& y, double most) {
    if (!y.present()) return;
    const double off = worst_row(x, y, y.shape()[y.shape().rank() - 1], least);
    if (!(off <= most)) wrong += std::string(what) + ": a row is off by " + std::to_string(off) + " of its size\n";
  };
  // Of f32, weights lose what logits of 13 or so lose; 16-bit operands and results are rounded.
  const double unit = m.q.dtype() == DType::f32 ? 0x1p-14 : m.q.dtype() == DType::f16 ? 0x1p-10 : 0x1p-7;
  expect("dq", got.dq, exact.dq, 8 * unit);
  expect("dk", got.dk, exact.dk, 8 * unit);
  expect("dsink_logit", got.dsink, exact.dsink_logit, 1e-4);
  expect("dgates", got.dgates, exact.dgates, 1e-4);
  return wrong;
}

// One key beside a sink: p = 0.999.
std::string beside_a_sink(Context& context, DType dtype, std::int64_t width) {
  Case c = one_key_case(dtype, width);
  c.batch = 7;
  c.queries = c.keys = 1;
  c.sink_logit = true;
  Materialised m = test::materialise(c);
  concentrate(m, 0.1, -6);
  return judge_rows(context, m);
}

// More keys than a block has, each of which is nearly all that one query sees.
std::string among_many_keys(Context& context, DType dtype, std::int64_t width, bool sink) {
  Case c = one_key_case(dtype, width);
  c.queries = c.keys = 150;
  c.sink_logit = sink;
  Materialised m = test::materialise(c);
  concentrate(m, 12.8 / std::sqrt(static_cast<double>(width)), 0);  // a logit of about 12.8
  return judge_rows(context, m);
}

// A row that sees one key sends nothing back to q and k.
std::string sees_itself_alone(Context& context, DType dtype, std::int64_t width) {
  Case c = one_key_case(dtype, width);
  c.queries = c.keys = 150;
  c.options.window = {0, 0, 0};
  const Materialised m = test::materialise(c);
  const Gradients got = gradients_of(context, m);
  for (const Tensor* gradient : {&got.dq, &got.dk}) {
    const reference::Array<double> numbers(*gradient);
    for (const double x : numbers.values()) {
      if (x != 0) return (gradient == &got.dq ? "dq" : "dk") + std::string(" has ") + ::testing::PrintToString(x);
    }
  }
  return {};
}

}  // namespace

std::vector<Item> gradient_items() {
  std::vector<Item> items;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t width : {64, 128, 256}) {
      const auto add = [&](const std::string& name, auto run) {
        items.push_back({"gradients/" + name + "_" + std::string(name_of(dtype)) + "_" + std::to_string(width),
                         [=](Context& context) { return run(context, dtype, width); }});
      };
      add("beside_a_sink", beside_a_sink);
      add("sees_itself_alone", sees_itself_alone);
      if (dtype == DType::f32 && width > 128) continue;  // by kernels that take delta as it is
      add("among_many_keys", [](Context& c, DType t, std::int64_t w) { return among_many_keys(c, t, w, false); });
      add("among_many_keys_and_a_sink",
          [](Context& c, DType t, std::int64_t w) { return among_many_keys(c, t, w, true); });
    }
  }
  return items;
}

}  // namespace polyhead::test::gpu
