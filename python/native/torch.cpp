#include "native/torch.h"

#include "native/attention.h"
#include "native/tensors.h"

namespace polyhead::native {
namespace {

// Kept for good, as in tensors.cpp; NULL where torch is too old for the module.
struct State {
  PyObject *questions = nullptr, *forward_ad = nullptr, *is_grad_enabled = nullptr, *autocast = nullptr,
           *record = nullptr;
  PyObject *current_level, *requires_grad, *to_save, *options, *keep, *bias;  // names
  PyObject* causal;  // options that are causal and nothing else
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

bool wants_gradient(PyObject* tensor) { return own(PyObject_GetAttr(tensor, state.requires_grad)).get() == Py_True; }

bool has_gradient(PyObject* const* qkv) {
  const bool wanted = wants_gradient(qkv[0]) || wants_gradient(qkv[1]) || wants_gradient(qkv[2]);
  return wanted && truth(own(PyObject_CallNoArgs(state.is_grad_enabled)));
}

// That of the name among the options, or NULL.
PyObject* mask_of(PyObject* options, PyObject* name) {
  if (options == Py_None) return nullptr;
  PyObject* const found = PyDict_GetItemWithError(options, name);
  if (found == nullptr && PyErr_Occurred() != nullptr) throw Raised{};
  return found;
}

// Whether keep and bias, where there are such, are tensors of torch's without a gradient.
bool has_plain_masks(PyObject* options) {
  polyhead_tensor view;
  for (PyObject* const name : {state.keep, state.bias}) {
    PyObject* const mask = mask_of(options, name);
    if (mask != nullptr && (!view_of_torch(mask, view) || wants_gradient(mask))) return false;
  }
  return true;
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
    polyhead_tensor view;
    if (!view_of_torch(qkv[n], view) || view.rank != 4) return false;
    heads[n] = view.shape[1];
  }
  return heads[0] == heads[1] && heads[1] == heads[2];
}

// The name of the option that a mask is for, NULL for one that Python looks at.
PyObject* option_of(PyObject* mask) {
  constexpr int kFloat = 2, kBfloat = 4, kBool = 6;
  polyhead_tensor view;
  if (!view_of_torch(mask, view) || view.rank > 4 || wants_gradient(mask)) return nullptr;
  if (view.dtype.code == kBool) return state.keep;
  return view.dtype.code == kFloat || view.dtype.code == kBfloat ? state.bias : nullptr;
}

Ref sdpa_options(PyObject* is_causal, PyObject* scale, PyObject* name, PyObject* mask) {
  if (scale == Py_None && name == nullptr) return share(is_causal == Py_True ? state.causal : Py_None);
  Ref options = own(is_causal == Py_True ? PyDict_Copy(state.causal) : PyDict_New());
  if (scale != Py_None && PyDict_SetItemString(options.get(), "scale", scale) != 0) throw Raised{};
  if (name != nullptr && PyDict_SetItem(options.get(), name, mask) != 0) throw Raised{};
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
    state.to_save = name("to_save");  // which is all that save_for_backward() sets
    state.options = name("options");
    state.keep = name("keep");
    state.bias = name("bias");
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
    if (!is_ordinary() || !has_plain_masks(arguments[3])) return share(Py_None);
    return own(attend_or_record(arguments, arguments[3]));
  });
}

PyObject* sdpa(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  return guarded([&] {
    PyObject *const mask = arguments[3], *const dropout = arguments[4];
    PyObject *const is_causal = arguments[5], *const scale = arguments[6];
    const bool no_dropout = PyFloat_CheckExact(dropout) && PyFloat_AsDouble(dropout) == 0;
    const bool flags = is_causal == Py_False || (is_causal == Py_True && mask == Py_None);
    if (!no_dropout || !flags || arguments[7] != Py_False || (scale != Py_None && !PyFloat_CheckExact(scale)) ||
        !is_ordinary() || !is_plain(arguments) || truth(own(PyObject_CallNoArgs(state.autocast)))) {
      return share(Py_None);
    }
    PyObject* const name = mask == Py_None ? nullptr : option_of(mask);
    if (mask != Py_None && name == nullptr) return share(Py_None);
    return own(attend_or_record(arguments, sdpa_options(is_causal, scale, name, mask).get()));
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
    const auto saved = [&](PyObject* mask) {
      return mask == nullptr ? Py_None : mask;
    };  // torch sees whether it is changed
    PyObject *const keep = saved(mask_of(options, state.keep)), *const bias = saved(mask_of(options, state.bias));
    const Ref all = own(alone ? PyTuple_Pack(5, call[0], call[1], call[2], keep, bias)
                              : PyTuple_Pack(7, call[0], call[1], call[2], keep, bias, output.get(), lse));
    if (PyObject_SetAttr(context, state.to_save, all.get()) != 0) throw Raised{};
    return output;
  });
}

}  // namespace polyhead::native
