// The multi-head layer, and results that the library allocates; both are capsules.
#pragma once

#include "native/objects.h"

namespace polyhead::native {

// layer_create(shape, code, bits, seed): a layer.
PyObject* layer_create(PyObject*, PyObject* arguments);
// layer_parameter_names(layer): a list.
PyObject* layer_parameter_names(PyObject*, PyObject* layer);
// layer_parameter(layer, name): as results_get().
PyObject* layer_parameter(PyObject*, PyObject* arguments);
// layer_forward(layer, inputs, wants): results.
PyObject* layer_forward(PyObject*, PyObject* arguments);
// layer_backward(layer, inputs, forward, doutput): results.
PyObject* layer_backward(PyObject*, PyObject* arguments);
// results_get(results, name): (address, shape, code, bits). Results may be an address, too.
PyObject* results_get(PyObject*, PyObject* arguments);

}  // namespace polyhead::native
