// Where calls run: a context of the CPU for each thread, and one for each stream of a GPU.
#pragma once

#include "native/structs.h"

namespace polyhead::native {

// Raises what a call reported, with its message.
void check(polyhead_status status);

// This thread's context.
polyhead_context* host_context();
// That of the memory that `tensor` is in; on a GPU that of torch's current stream.
polyhead_context* context_of(const polyhead_tensor& tensor);

// Runs a call without the GIL. One that takes less than a hand-over of the GIL keeps it: with another thread that
// computes in Python, getting it back takes milliseconds.
template <class Body>
polyhead_status run(bool is_long, const Body& body) {
  if (!is_long) return body();
  PyThreadState* const state = PyEval_SaveThread();
  const polyhead_status status = body();
  PyEval_RestoreThread(state);
  return status;
}

PyObject* set_threads(PyObject*, PyObject* count);
PyObject* threads(PyObject*, PyObject*);
PyObject* synchronise(PyObject*, PyObject*);
PyObject* context_address(PyObject*, PyObject*);

}  // namespace polyhead::native
