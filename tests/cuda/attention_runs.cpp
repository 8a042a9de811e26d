#include "cuda/attention_runs.h"

#include <cmath>
#include <cstring>

#include "cuda/moved.h"
#include "support/plain.h"

namespace polyhead::test::gpu {
namespace {

AttentionOptions moved_options(const Moved& moved, AttentionOptions options) {
  for (ConstTensorView* view :
       {&options.keep, &options.bias, &options.alibi, &options.key_lengths, &options.key_start, &options.query_lengths,
        &options.first_positions, &options.cu_q, &options.cu_k, &options.sink_logit, &options.gates}) {
    *view = moved(*view);
  }
  return options;
}

// "f64 is computed on the CPU" is what should come.
template <class Call>
std::string expect_refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::unsupported ? "" : std::string("another error: ") + error.what();
  }
  return "f64 was accepted";
}

std::string same_bits(const char* what, const Tensor& a, const Tensor& b) {
  if (!a.present() || std::memcmp(a.view().data(), b.view().data(), Moved::bytes_of(a)) == 0) return {};
  return std::string(what) + ": other bits the second time";
}

// |got - exact| / |exact|, or |got| where everything is hidden and |exact| is 0.
double distance_of(const ConstTensorView& got, const ConstTensorView& exact) {
  const reference::Array<double> g(got), e(exact);
  double off = 0, size = 0;
  for (std::size_t n = 0; n < e.values().size(); ++n) {
    off = std::hypot(off, g.values()[n] - e.values()[n]);
    size = std::hypot(size, e.values()[n]);
  }
  return size > 0 ? off / size : off;
}

std::string run_backward_of(Context& context, const Case& recipe, const Materialised& m) {
  const Moved moved(context, m.memory);
  const AttentionOptions options = moved_options(moved, m.options);
  const UpstreamGradients upstream{moved(m.upstream.output), moved(m.upstream.lse), moved(m.upstream.weights)};
  const auto attempt = [&](AttentionGradients& host, const ForwardResults& forward) {
    AttentionGradients device{poisoned_like(context, host.dq),          poisoned_like(context, host.dk),
                              poisoned_like(context, host.dv),          poisoned_like(context, host.dbias),
                              poisoned_like(context, host.dsink_logit), poisoned_like(context, host.dgates)};
    attend_backward_into(context, moved(m.q), moved(m.k), moved(m.v), options, upstream, m.gradient_wants, forward,
                         views_of(device));
    bring_back(context, device.dq, host.dq);
    bring_back(context, device.dk, host.dk);
    bring_back(context, device.dv, host.dv);
    bring_back(context, device.dbias, host.dbias);
    bring_back(context, device.dsink_logit, host.dsink_logit);
    bring_back(context, device.dgates, host.dgates);
    context.synchronise();
  };
  AttentionGradients got = make_gradients(m), again = make_gradients(m);
  if (recipe.dtype == DType::f64) return expect_refusal([&] { attempt(got, {}); });
  attempt(got, {});
  const ExpectedGradients expected = expected_gradients(m);
  if (const auto judged = judge(expected, views_of(got)); !judged) return judged.message();
  // With what the forward pass left behind, by the same rule; and the same bits every time.
  const Attention forward = attend(context, moved(m.q), moved(m.k), moved(m.v), options, {.lse = true});
  attempt(again, {forward.output, forward.lse});
  if (const auto judged = judge(expected, views_of(again)); !judged) {
    return std::string("with the forward pass's results: ") + judged.message();
  }
  attempt(again, {});
  return same_bits("dq", got.dq, again.dq) + same_bits("dk", got.dk, again.dk) + same_bits("dv", got.dv, again.dv) +
         same_bits("dbias", got.dbias, again.dbias);
}

}  // namespace

std::string run_forward(Context& context, const Case& recipe) {
  const Materialised m = materialise(recipe);
  const Moved moved(context, m.memory);
  const AttentionOptions options = moved_options(moved, m.options);
  AttentionWants wants = m.wants;
  wants.marked_keys = moved(wants.marked_keys);
  wants.target_keys = moved(wants.target_keys);
  const auto attempt = [&](Attention& host) {
    Attention device;
    device.output = poisoned_like(context, host.output);
    device.lse = poisoned_like(context, host.lse);
    device.weights = poisoned_like(context, host.weights);
    device.logits = poisoned_like(context, host.logits);
    device.statistics = poisoned_like(context, host.statistics);
    device.row_statistics = poisoned_like(context, host.row_statistics);
    attend_into(context, moved(m.q), moved(m.k), moved(m.v), options, wants, views_of(device));
    bring_back(context, device.output, host.output);
    bring_back(context, device.lse, host.lse);
    bring_back(context, device.weights, host.weights);
    bring_back(context, device.logits, host.logits);
    bring_back(context, device.statistics, host.statistics);
    bring_back(context, device.row_statistics, host.row_statistics);
    context.synchronise();
  };
  Attention got = make_results(m), again = make_results(m);
  if (recipe.dtype == DType::f64) return expect_refusal([&] { attempt(got); });
  attempt(got);
  if (const auto judged = judge(m, views_of(got)); !judged) return judged.message();
  attempt(again);
  return same_bits("output", got.output, again.output) + same_bits("statistics", got.statistics, again.statistics);
}

std::string run_backward(Context& context, const Case& recipe) {
  return run_backward_of(context, recipe, materialise(recipe));
}

std::string run_backward_to_inputs(Context& context, const Case& recipe) {
  Materialised m = materialise(recipe);
  m.gradient_wants = {};
  return run_backward_of(context, recipe, m);
}

std::string run_tf32(Context& context, const Case& recipe) {
  Materialised m = materialise(recipe);
  m.wants = {};
  m.gradient_wants = {};
  const Moved moved(context, m.memory);
  const AttentionOptions options = moved_options(moved, m.options);
  const ConstTensorView q = moved(m.q), k = moved(m.k), v = moved(m.v);
  context.set_precision(Precision::tf32);
  const Attention forward = attend(context, q, k, v, options, {.lse = true});
  const AttentionGradients got = attend_backward(context, q, k, v, options, {.output = moved(m.upstream.output)}, {},
                                                 {forward.output, forward.lse});
  context.set_precision(Precision::f32);
  std::string wrong;
  const auto expect = [&](const char* what, const Tensor& x, const Tensor& y, double least, double most) {
    const double off = distance_of(to_host(context, x), y);
    if (!(off >= least && off <= most)) wrong += std::string(what) + " is off by " + std::to_string(off) + "\n";
  };
  const AttentionGradients exact = expected_gradients(m).exact;
  expect("output", forward.output, expected_results(m).exact.output, 3e-5, 1e-3);
  expect("dq", got.dq, exact.dq, 0, 2e-3);
  expect("dk", got.dk, exact.dk, 0, 2e-3);
  expect("dv", got.dv, exact.dv, 0, 2e-3);
  return wrong;
}

}  // namespace polyhead::test::gpu
