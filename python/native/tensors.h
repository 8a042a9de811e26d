// Arrays of NumPy's and torch's as tensors of the library, without a copy.
#pragma once

#include "native/objects.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::native {

constexpr int kMaxRank = 6;

struct Tensor {
  polyhead_tensor view;
  int64_t shape[kMaxRank], strides[kMaxRank];
  Ref kept;  // what the view looks into, beside the object that was given
};

enum class Access { read, write };

// Fills in `tensor` from an array. Whatever is not plainly an array of NumPy's or a tensor of torch's goes through
// polyhead._tensors.described, which finds a way or refuses it by name.
void describe(PyObject* array, const char* name, Access access, Tensor& tensor);

// The type, for statistics, of what comes from q: f32, or f64 for f64.
polyhead_dtype statistics_type(polyhead_dtype dtype);

// A new array of the kind, type, shape and device of `like`, and its view. Where that is torch's it lies in memory as
// `like` does, so that what is done with its axes afterwards needs no copy.
Ref make_like(PyObject* like, Tensor& made);
// One of another shape or type. `shape` has `rank` sizes.
Ref make(PyObject* like, const polyhead_tensor& as, int rank, const int64_t* shape, polyhead_dtype dtype, Tensor& made);
// An output [B,H,T,E] that lies in memory as q does where that is torch's, so that heads merge without a copy.
Ref make_output(PyObject* q, const polyhead_tensor& as, PyObject* v, int64_t value_dim, Tensor& made);

// torch's current stream on that GPU, a cudaStream_t.
void* current_stream(int32_t index);

bool is_numpy(PyObject* array);

// None: NULL. The memory of bytes, or of an array of NumPy's of any type. A number is an address.
const void* memory_of(PyObject* given);

// A tensor of torch's, with its sizes where it has them itself; false for anything else.
bool view_of_torch(PyObject* tensor, polyhead_tensor& view);

void learn_numpy();
// use_torch(types, exchange, empty_like): the classes whose tensors can be read directly, DLPack's table of functions
// as a capsule, or None, and torch.empty_like.
PyObject* use_torch(PyObject*, PyObject* arguments);

}  // namespace polyhead::native
