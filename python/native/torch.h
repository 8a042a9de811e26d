// Calls with tensors of torch's, the shortest way: what torch is doing at the moment is asked here and not in Python.
#pragma once

#include "native/objects.h"

namespace polyhead::native {

// use_torch_state(questions, forward_ad, is_grad_enabled, autocast, record): functions of torch's that all say no where
// a call may go by addresses, the module with the level of forward-mode differentiation, and what records a call.
PyObject* use_torch_state(PyObject*, PyObject* arguments);

// attend_tensors(q, k, v, options): the output, recorded if it has gradients; or None if a mode, a transform or a trace
// of torch's is active, which must see an op, or if keep or bias is no plain tensor, or has a gradient.
PyObject* attend_tensors(PyObject*, PyObject* const* arguments, Py_ssize_t count);

// sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa): the same for torch's arguments; also
// None unless they are as plain as they mostly are.
PyObject* sdpa(PyObject*, PyObject* const* arguments, Py_ssize_t count);

// record_forward(ctx, q, k, v, options = None): the forward pass of a torch.autograd.Function.
PyObject* record_forward(PyObject*, PyObject* const* arguments, Py_ssize_t count);

}  // namespace polyhead::native
