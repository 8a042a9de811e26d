#include "native/attention.h"

#include <deque>
#include <vector>

#include "native/contexts.h"

namespace polyhead::native {
namespace {

constexpr double kShort = 1 << 16;  // products: some ten microseconds

// q [B,H,T,D], k [B,G,S,D] and v [B,G,S,E].
struct Inputs {
  Inputs(Call& call, PyObject* const* arguments)
      : q(call.tensor(required(arguments[0], "q"), "q")),
        k(call.tensor(required(arguments[1], "k"), "k")),
        v(call.tensor(required(arguments[2], "v"), "v")) {}

  static PyObject* required(PyObject* array, const char* name) {
    if (array != Py_None) return array;
    native::call(python("polyhead._tensors", "expect_array").get(), array, text(name).get());
    throw Raised{};
  }

  bool has_four_axes() const { return q->rank == 4 && k->rank == 4 && v->rank == 4; }
  // On the CPU rows up to this long are made anew; for other devices it is not known.
  bool backward_needs_lse() const { return q->device.type != 1 || k->shape[2] > 128; }
  bool is_long() const {
    if (q->device.type != 1 || !has_four_axes()) return true;
    double products = static_cast<double>(q->shape[3] + v->shape[3]);
    for (const int64_t size : {q->shape[0], q->shape[1], q->shape[2], k->shape[2]}) {
      products *= static_cast<double>(size);
    }
    return products > kShort;
  }

  const polyhead_tensor *q, *k, *v;
};

void expect_four_axes(const Inputs& inputs, PyObject* const* arguments) {
  if (inputs.has_four_axes()) return;
  call(python("polyhead._attention", "expect_four_axes").get(), arguments[0], arguments[1], arguments[2]);
  throw Raised{};
}

PyObject* item(PyObject* tuple, Py_ssize_t n) { return tuple == Py_None ? Py_None : PyTuple_GetItem(tuple, n); }

}  // namespace

PyObject* attend(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    expect_arguments(count, 3, 5);
    Call call;
    const Inputs inputs(call, arguments);
    PyObject *const options = count > 3 ? arguments[3] : Py_None, *const wanted = count > 4 ? arguments[4] : Py_None;
    polyhead_attention_options given;
    if (options != Py_None) given = call.filled<polyhead_attention_options>(kOptions, options);
    polyhead_attention_results into{};
    into.size = sizeof into;
    Ref output, lse;
    if (wanted != Py_None && PyTuple_Check(wanted) != 0) {
      into = call.filled<polyhead_attention_results>(kResults, wanted);
      output = share(item(wanted, 0));
    }
    if (into.output == nullptr) {
      expect_four_axes(inputs, arguments);
      Tensor& made = call.next_tensor("out");
      output = make_output(arguments[0], *inputs.q, arguments[2], inputs.v->shape[3], made);
      into.output = &made.view;
    }
    if (wanted == Py_True && inputs.backward_needs_lse()) {
      Tensor& made = call.next_tensor("lse");
      lse = make(arguments[0], *inputs.q, 3, inputs.q->shape, statistics_type(inputs.q->dtype), made);
      into.lse = &made.view;
    }
    polyhead_context* const context = context_of(*inputs.q);
    check(run(inputs.is_long(), [&] {
      return polyhead_attend(context, inputs.q, inputs.k, inputs.v, options == Py_None ? nullptr : &given, &into);
    }));
    return lse.get() == nullptr ? std::move(output) : own(PyTuple_Pack(2, output.get(), lse.get()));
  });
}

PyObject* attend_backward(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    expect_arguments(count, 6, 6);
    Call call;
    const Inputs inputs(call, arguments);
    polyhead_attention_options given;
    if (arguments[3] != Py_None) given = call.filled<polyhead_attention_options>(kOptions, arguments[3]);
    const auto above = call.filled<polyhead_attention_upstream>(kUpstream, arguments[4]);
    polyhead_attention_gradients into{};
    into.size = sizeof into;
    if (arguments[5] != Py_None) into = call.filled<polyhead_attention_gradients>(kGradients, arguments[5]);
    const auto like = [&](int n, const polyhead_tensor*& view) {
      Tensor& made = call.next_tensor("a gradient");
      view = &made.view;
      return make_like(arguments[n], made);
    };
    const Ref dq = like(0, into.dq), dk = like(1, into.dk), dv = like(2, into.dv);
    polyhead_context* const context = context_of(*inputs.q);
    check(run(inputs.is_long(), [&] {
      return polyhead_attend_backward(context, inputs.q, inputs.k, inputs.v, arguments[3] == Py_None ? nullptr : &given,
                                      &above, &into);
    }));
    return own(PyTuple_Pack(3, dq.get(), dk.get(), dv.get()));
  });
}

PyObject* merge_attention(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    expect_arguments(count, 2, 2);
    Call merged;
    const auto into = merged.filled<polyhead_attention_results>(kResults, arguments[1]);
    std::deque<Call> calls;
    std::vector<polyhead_attention_results> parts;
    for (Py_ssize_t n = 0; n < PyTuple_Size(arguments[0]); ++n) {
      PyObject* const part = PyTuple_GetItem(arguments[0], n);  // (output, lse, row_statistics)
      Call& call = calls.emplace_back();
      polyhead_attention_results& given = parts.emplace_back();
      given.size = sizeof given;
      given.output = call.tensor(PyTuple_GetItem(part, 0), "output");
      given.lse = call.tensor(PyTuple_GetItem(part, 1), "lse");
      given.row_statistics = call.tensor(PyTuple_GetItem(part, 2), "row_statistics");
    }
    check(run(true, [&] { return polyhead_merge_attention(parts.data(), parts.size(), &into); }));
    return share(Py_None);
  });
}

PyObject* explain(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    expect_arguments(count, 5, 5);
    Call call;
    const Inputs inputs(call, arguments);
    const auto given = call.filled<polyhead_attention_options>(kOptions, arguments[3]);
    const auto into = call.filled<polyhead_attention_results>(kResults, arguments[4]);
    const char* words = nullptr;
    check(polyhead_explain(context_of(*inputs.q), inputs.q, inputs.k, inputs.v, &given, &into, &words));
    return text(words);
  });
}

}  // namespace polyhead::native
