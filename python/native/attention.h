#pragma once

#include "native/objects.h"

namespace polyhead::native {

// attend(q, k, v, options = None, results = None): the output, which is made unless `results` has one. If `results` is
// True, whatever the backward pass will need is made: (output, lse), or the output alone, if it needs neither.
PyObject* attend(PyObject*, PyObject* const* arguments, Py_ssize_t count);
// attend_backward(q, k, v, options, upstream, gradients): (dq, dk, dv), which are made.
PyObject* attend_backward(PyObject*, PyObject* const* arguments, Py_ssize_t count);
// explain(q, k, v, options, results): which path the call would take.
PyObject* explain(PyObject*, PyObject* const* arguments, Py_ssize_t count);
// merge_attention(((output, lse, row_statistics), ..), results): fills the results.
PyObject* merge_attention(PyObject*, PyObject* const* arguments, Py_ssize_t count);

}  // namespace polyhead::native
