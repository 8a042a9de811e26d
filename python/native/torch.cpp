#include "native/torch.h"

#include "native/attention.h"
#include "native/tensors.h"

namespace polyhead::native {
namespace {

// Kept for good, as in tensors.cpp; NULL where torch is too old for the module.
struct State {
  PyObject *questions = nullptr, *forward_ad = nullptr, *is_grad_enabled = nullptr, *autocast = nullptr,
           *record = nullptr;
  PyObject *current_level, *requires_grad, *save_for_backward, *options;  // names
  PyObject* causal;                                                       // options that are causal and nothing else
} state;

bool truth(const Ref& answer) { return answer.get() != Py_False && PyObject_IsTrue(answer.get()) != 0; }

bool is_ordinary() {
  if (state.record == nullptr) return false;
  const Py_ssize_t count = PyTuple_Size(state.questions);
  for (Py_ssize_t n = 0; n < count; ++n) {
    if (truth(own(PyObject_CallNoArgs(PyTuple_GetItem(state.questions, n))))) return false;
  }
  const Ref level = own(PyObject_GetAttr(state.forward_ad, state.current_level));
  return PyLong_AsLong(level.get()) < 0;
}

bool has_gradient(PyObject* const* qkv) {
  for (int n = 0; n < 3; ++n) {
    const Ref wanted = own(PyObject_GetAttr(qkv[n], state.requires_grad));
    if (wanted.get() == Py_True) return truth(own(PyObject_CallNoArgs(state.is_grad_enabled)));
  }
  return false;
}

PyObject* attend_or_record(PyObject* const* qkv, PyObject* options) {
  PyObject* arguments[] = {qkv[0], qkv[1], qkv[2], options};
  const Py_ssize_t count = options == Py_None ? 3 : 4;
  if (!has_gradient(qkv)) return attend(nullptr, arguments, count);
  return PyObject_CallFunctionObjArgs(state.record, qkv[0], qkv[1], qkv[2], count == 4 ? options : nullptr, nullptr);
}

// Four axes each, and as many heads in all.
bool is_plain(PyObject* const* qkv) {
  int64_t heads[3];
  for (int n = 0; n < 3; ++n) {
    int rank = 0;
    const int64_t* const shape = shape_of_tensor(qkv[n], rank);
    if (shape == nullptr || rank != 4) return false;
    heads[n] = shape[1];
  }
  return heads[0] == heads[1] && heads[1] == heads[2];
}

Ref sdpa_options(PyObject* is_causal, PyObject* scale) {
  if (scale == Py_None) return share(is_causal == Py_True ? state.causal : Py_None);
  Ref options = own(is_causal == Py_True ? PyDict_Copy(state.causal) : PyDict_New());
  if (PyDict_SetItemString(options.get(), "scale", scale) != 0) throw Raised{};
  return options;
}

}  // namespace

PyObject* use_torch_state(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject *questions = nullptr, *forward_ad = nullptr, *grad = nullptr, *autocast = nullptr, *record = nullptr;
    if (PyArg_ParseTuple(arguments, "OOOOO", &questions, &forward_ad, &grad, &autocast, &record) == 0) throw Raised{};
    const auto name = [](const char* word) { return own(PyUnicode_InternFromString(word)).release(); };
    state.current_level = name("_current_level");
    state.requires_grad = name("requires_grad");
    state.save_for_backward = name("save_for_backward");
    state.options = name("options");
    state.causal = own(Py_BuildValue("{s:O,s:s}", "causal", Py_True, "align", "top_left")).release();
    state.questions = share(questions).release();
    state.forward_ad = share(forward_ad).release();
    state.is_grad_enabled = share(grad).release();
    state.autocast = share(autocast).release();
    state.record = share(record).release();
    return share(Py_None);
  });
}

PyObject* attend_tensors(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  return guarded([&] {
    if (!is_ordinary()) return share(Py_None);
    return own(attend_or_record(arguments, arguments[3]));
  });
}

PyObject* sdpa(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  return guarded([&] {
    PyObject *const dropout = arguments[3], *const is_causal = arguments[4], *const scale = arguments[5];
    const bool no_dropout = PyFloat_CheckExact(dropout) && PyFloat_AsDouble(dropout) == 0;
    const bool flags = (is_causal == Py_True || is_causal == Py_False) && arguments[6] == Py_False;
    if (!no_dropout || !flags || (scale != Py_None && !PyFloat_CheckExact(scale)) || !is_ordinary() ||
        !is_plain(arguments) || truth(own(PyObject_CallNoArgs(state.autocast)))) {
      return share(Py_None);
    }
    return own(attend_or_record(arguments, sdpa_options(is_causal, scale).get()));
  });
}

PyObject* record_forward(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return guarded([&] {
    PyObject *const context = arguments[0], *const options = count > 4 ? arguments[4] : Py_None;
    if (options != Py_None && PyObject_SetAttr(context, state.options, options) != 0) throw Raised{};
    PyObject* call[] = {arguments[1], arguments[2], arguments[3], options, Py_True};
    Ref made = own(attend(nullptr, call, 5));
    const bool alone = PyTuple_Check(made.get()) == 0;  // the backward pass of short rows needs neither it nor lse
    Ref output = alone ? std::move(made) : share(PyTuple_GetItem(made.get(), 0));
    PyObject* const lse = alone ? nullptr : PyTuple_GetItem(made.get(), 1);
    const Ref saved = own(PyObject_CallMethodObjArgs(context, state.save_for_backward, call[0], call[1], call[2],
                                                     alone ? nullptr : output.get(), lse, nullptr));
    return output;
  });
}

}  // namespace polyhead::native
