#include "native/layer.h"

#include "native/contexts.h"

namespace polyhead::native {
namespace {

constexpr const char *kLayer = "polyhead_layer", *kMadeResults = "polyhead_results";

template <class Handle>
Handle* handle_in(PyObject* capsule, const char* kind) {
  if (PyLong_Check(capsule) != 0)
    return static_cast<Handle*>(PyLong_AsVoidPtr(capsule));  // of models, which Python owns
  auto* const found = static_cast<Handle*>(PyCapsule_GetPointer(capsule, kind));
  if (found == nullptr) throw Raised{};
  return found;
}

// Owns what the library made.
template <class Handle, void (*free)(Handle*)>
Ref capsule_of(Handle* made, const char* kind) {
  PyObject* const capsule = PyCapsule_New(made, kind, [](PyObject* dying) {
    free(static_cast<Handle*>(PyCapsule_GetPointer(dying, PyCapsule_GetName(dying))));
  });
  if (capsule == nullptr) free(made);
  return own(capsule);
}

template <class... Pointers>
void parse(PyObject* arguments, const char* format, Pointers... pointers) {
  if (PyArg_ParseTuple(arguments, format, pointers...) == 0) throw Raised{};
}

Ref described(const polyhead_view& view) {
  const polyhead_tensor& tensor = view.tensor;
  const Ref shape = own(PyTuple_New(tensor.rank)), data = own(PyLong_FromVoidPtr(tensor.data));
  for (int axis = 0; axis < tensor.rank; ++axis) {
    PyTuple_SetItem(shape.get(), axis, own(PyLong_FromLongLong(view.shape[axis])).release());
  }
  return own(Py_BuildValue("(OOii)", data.get(), shape.get(), tensor.dtype.code, tensor.dtype.bits));
}

}  // namespace

PyObject* layer_create(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject *shape = nullptr, *seed = nullptr;
    int code = 0, bits = 0;
    parse(arguments, "OiiO", &shape, &code, &bits, &seed);
    Call call;
    const auto sizes = call.filled<polyhead_layer_shape>(kLayerShape, shape);
    const polyhead_dtype dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    const uint64_t drawn = natural(seed, "seed");
    polyhead_context* const context = host_context();
    polyhead_layer* made = nullptr;
    check(run(true, [&] { return polyhead_layer_create(context, &sizes, dtype, drawn, &made); }));
    return capsule_of<polyhead_layer, polyhead_layer_free>(made, kLayer);
  });
}

PyObject* layer_parameter_names(PyObject*, PyObject* layer) {
  return guarded([&] {
    const auto* const of = handle_in<polyhead_layer>(layer, kLayer);
    Ref names = own(PyList_New(0));
    int32_t n = 0;
    while (const char* const name = polyhead_layer_parameter_name(of, n++)) {
      if (PyList_Append(names.get(), text(name).get()) != 0) throw Raised{};
    }
    return names;
  });
}

PyObject* layer_parameter(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject* layer = nullptr;
    const char* name = nullptr;
    parse(arguments, "Os", &layer, &name);
    polyhead_view view;
    check(polyhead_layer_parameter(handle_in<polyhead_layer>(layer, kLayer), name, &view));
    return described(view);
  });
}

PyObject* layer_forward(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject *layer = nullptr, *inputs = nullptr, *wants = nullptr;
    parse(arguments, "OOO", &layer, &inputs, &wants);
    auto* const of = handle_in<polyhead_layer>(layer, kLayer);
    Call call;
    const auto given = call.filled<polyhead_layer_inputs>(kLayerInputs, inputs);
    const auto wanted = call.filled<polyhead_layer_wants>(kLayerWants, wants);
    polyhead_context* const context = host_context();
    polyhead_results* made = nullptr;
    check(run(true, [&] { return polyhead_layer_forward(context, of, &given, &wanted, &made); }));
    return capsule_of<polyhead_results, polyhead_results_free>(made, kMadeResults);
  });
}

PyObject* layer_backward(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject *layer = nullptr, *inputs = nullptr, *forward = nullptr, *doutput = nullptr;
    parse(arguments, "OOOO", &layer, &inputs, &forward, &doutput);
    auto* const of = handle_in<polyhead_layer>(layer, kLayer);
    auto* const before = handle_in<polyhead_results>(forward, kMadeResults);
    Call call;
    const auto given = call.filled<polyhead_layer_inputs>(kLayerInputs, inputs);
    const polyhead_tensor* const above = call.tensor(doutput, "doutput");
    polyhead_context* const context = host_context();
    polyhead_results* made = nullptr;
    check(run(true, [&] { return polyhead_layer_backward(context, of, &given, before, above, &made); }));
    return capsule_of<polyhead_results, polyhead_results_free>(made, kMadeResults);
  });
}

PyObject* results_get(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject* results = nullptr;
    const char* name = nullptr;
    parse(arguments, "Os", &results, &name);
    polyhead_view view;
    check(polyhead_results_get(handle_in<polyhead_results>(results, kMadeResults), name, &view));
    return described(view);
  });
}

}  // namespace polyhead::native
