// polyhead._native: the library's C ABI for CPython, by its limited API, so that one module serves every version.
#include "native/attention.h"
#include "native/calls.h"
#include "native/contexts.h"
#include "native/layer.h"
#include "native/records.h"
#include "native/torch.h"

namespace polyhead::native {
namespace {

PyObject* info(PyObject*, PyObject*) {
  return guarded([] {
    const char *target = nullptr, *no_cuda_reason = nullptr;
    check(polyhead_info(&target, &no_cuda_reason));
    return own(Py_BuildValue("(ss)", target, no_cuda_reason));
  });
}

Ref statistic_names() {
  Ref names = own(PyTuple_New(POLYHEAD_FULL_STATISTICS));
  for (int32_t n = 0; n < POLYHEAD_FULL_STATISTICS; ++n) {
    PyTuple_SetItem(names.get(), n, text(polyhead_statistic_name(n)).release());
  }
  return names;
}

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"attend", method(attend), METH_FASTCALL, nullptr},
    {"attend_backward", method(attend_backward), METH_FASTCALL, nullptr},
    {"explain", method(explain), METH_FASTCALL, nullptr},
    {"merge_attention", method(merge_attention), METH_FASTCALL, nullptr},
    {"attend_tensors", method(attend_tensors), METH_FASTCALL, nullptr},
    {"sdpa", method(sdpa), METH_FASTCALL, nullptr},
    {"record_forward", method(record_forward), METH_FASTCALL, nullptr},
    {"layer_create", layer_create, METH_VARARGS, nullptr},
    {"layer_parameter_names", layer_parameter_names, METH_O, nullptr},
    {"layer_parameter", layer_parameter, METH_VARARGS, nullptr},
    {"layer_forward", layer_forward, METH_VARARGS, nullptr},
    {"layer_backward", layer_backward, METH_VARARGS, nullptr},
    {"results_get", results_get, METH_VARARGS, nullptr},
    {"info", info, METH_NOARGS, nullptr},
    {"set_threads", set_threads, METH_O, nullptr},
    {"threads", threads, METH_NOARGS, nullptr},
    {"synchronise", synchronise, METH_NOARGS, nullptr},
    {"context_address", context_address, METH_NOARGS, nullptr},
    {"use_torch", use_torch, METH_VARARGS, nullptr},
    {"use_torch_state", use_torch_state, METH_VARARGS, nullptr},
    {"layouts", layouts, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "polyhead._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

void add(PyObject* module, const char* name, Ref value) {
  if (PyModule_AddObjectRef(module, name, value.get()) != 0) throw Raised{};
}

}  // namespace
}  // namespace polyhead::native

PyMODINIT_FUNC PyInit__native() {
  using namespace polyhead::native;
  return guarded([] {
    learn_numpy();
    Ref module = own(PyModule_Create(&definition));
    if (PyModule_AddFunctions(module.get(), calls) != 0) throw Raised{};
    add(module.get(), "records", records());
    add(module.get(), "version", text(polyhead_version()));
    add(module.get(), "statistic_names", statistic_names());
    add(module.get(), "light_statistics", own(PyLong_FromLong(POLYHEAD_LIGHT_STATISTICS)));
    return module;
  });
}
