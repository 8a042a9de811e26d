#include "native/tensors.h"

#include <cstddef>

namespace polyhead::native {
namespace {

enum DeviceType : int32_t { kHost = 1, kCuda = 2 };  // DLPack's

// DLPack's functions for whoever wants a tensor for the time of a call, `__dlpack_c_exchange_api__` of a class.
struct Exchange {
  struct {
    uint32_t major, minor;
  } version;
  Exchange* older;
  int (*allocate)(polyhead_tensor* like, void** managed, void* error,
                  void (*set_error)(void* error, const char* kind, const char* message));
  int (*managed_from_object)(void* object, void** managed);
  int (*object_from_managed)(void* managed, void** object);
  int (*tensor_from_object)(void* object, polyhead_tensor* tensor);
  int (*current_stream)(int32_t device_type, int32_t index, void** stream);
};

// NumPy's view of an array, `__array_struct__`.
struct ArrayStruct {
  int two;
  int rank;
  char kind;
  int item_size;
  int flags;
  Py_intptr_t *shape, *strides;  // in bytes
  void* data;
  PyObject* descriptor;
};
constexpr int kRowMajor = 0x1, kNativeOrder = 0x200, kWriteable = 0x400;
static_assert(sizeof(Py_intptr_t) == sizeof(int64_t));

// Kept for good: a module of a single phase belongs to one interpreter.
struct Known {
  PyObject *array_type = nullptr, *empty = nullptr;                                             // NumPy's
  PyObject *tensor_type = nullptr, *parameter_type = nullptr, *empty_like = nullptr;            // torch's
  PyObject *array_struct = nullptr, *dtype = nullptr, *is_neg = nullptr, *new_empty = nullptr;  // names
  const Exchange* exchange = nullptr;
} known;

// An array's element type, or bits 0 if the library has none like it.
polyhead_dtype numpy_type(const ArrayStruct& array) {
  const auto bits = static_cast<uint8_t>(8 * array.item_size);
  const bool is_float = array.kind == 'f' && (bits == 16 || bits == 32 || bits == 64);
  const bool is_int = array.kind == 'i' && (bits == 32 || bits == 64);
  if (is_float) return {2, bits, 1};
  if (is_int) return {0, bits, 1};
  if (array.kind == 'b' && bits == 8) return {6, bits, 1};
  return {0, 0, 1};
}

// For as long as `capsule` lives.
const ArrayStruct& array_struct(PyObject* array, Ref& capsule) {
  capsule = own(PyObject_GetAttr(array, known.array_struct));
  const auto* const found = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.get(), nullptr));
  if (found == nullptr) throw Raised{};
  return *found;
}

bool of_numpy(PyObject* array, Access access, Tensor& tensor) {
  Ref capsule;
  const ArrayStruct& found = array_struct(array, capsule);
  const polyhead_dtype dtype = numpy_type(found);
  const int needed = kNativeOrder | (access == Access::write ? kWriteable : 0);
  if (dtype.bits == 0 || found.rank > kMaxRank || (found.flags & needed) != needed) return false;
  for (int axis = 0; axis < found.rank; ++axis) {
    tensor.shape[axis] = found.shape[axis];
    tensor.strides[axis] = found.strides[axis] / found.item_size;
    if (found.strides[axis] % found.item_size != 0) return false;
  }
  int64_t* const strides = (found.flags & kRowMajor) != 0 ? nullptr : tensor.strides;
  tensor.view = {found.data, {kHost, 0}, found.rank, dtype, tensor.shape, strides, 0};
  tensor.kept = std::move(capsule);
  return true;
}

bool is_torch(PyObject* array) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(array));
  return known.exchange != nullptr && (type == known.tensor_type || type == known.parameter_type);
}

// Kernels ask for a last stride of 1, and know no tensor whose numbers are to be negated.
bool of_torch(PyObject* array, Access access, Tensor& tensor) {
  polyhead_tensor& view = tensor.view;
  if (known.exchange->tensor_from_object(array, &view) != 0) {
    PyErr_Clear();  // described() says it better
    return false;
  }
  const bool known_type = (view.dtype.code == 2 && view.dtype.bits >= 16) || view.dtype.code == 4 ||
                          view.dtype.code == 6 || (view.dtype.code == 0 && view.dtype.bits >= 32);
  if (!known_type || view.rank > kMaxRank || (view.device.type != kHost && view.device.type != kCuda)) return false;
  const int last = view.rank - 1;
  if (access == Access::read && last >= 0 && view.strides[last] != 1 && view.shape[last] > 1) return false;
  if (access == Access::read && view.dtype.code == 2) {
    const Ref negated = own(PyObject_CallMethodObjArgs(array, known.is_neg, nullptr));
    if (negated.get() != Py_False) return false;
  }
  // The shape and the strides are the tensor's own, which another thread may change once the GIL is released.
  for (int axis = 0; axis <= last; ++axis) {
    tensor.shape[axis] = view.shape[axis];
    tensor.strides[axis] = view.strides[axis];
  }
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  return true;
}

int64_t item(PyObject* tuple, Py_ssize_t n) {
  const long long value = PyLong_AsLongLong(PyTuple_GetItem(tuple, n));
  if (value == -1 && PyErr_Occurred() != nullptr) throw Raised{};
  return value;
}

// described() returns (data, device type, device index, code, bits, shape, strides or None, what to keep).
void of_description(Ref found, Tensor& tensor) {
  PyObject* const tuple = found.get();
  PyObject *const shape = PyTuple_GetItem(tuple, 5), *const strides = PyTuple_GetItem(tuple, 6);
  const auto rank = static_cast<int32_t>(PyTuple_Size(shape));
  for (int axis = 0; axis < rank; ++axis) tensor.shape[axis] = item(shape, axis);
  for (int axis = 0; axis < rank && strides != Py_None; ++axis) tensor.strides[axis] = item(strides, axis);
  void* const data = PyLong_AsVoidPtr(PyTuple_GetItem(tuple, 0));
  if (data == nullptr && PyErr_Occurred() != nullptr) throw Raised{};
  const polyhead_dtype dtype{static_cast<uint8_t>(item(tuple, 3)), static_cast<uint8_t>(item(tuple, 4)), 1};
  tensor.view = {data,
                 {static_cast<int32_t>(item(tuple, 1)), static_cast<int32_t>(item(tuple, 2))},
                 rank,
                 dtype,
                 tensor.shape,
                 strides == Py_None ? nullptr : tensor.strides,
                 0};
  tensor.kept = std::move(found);
}

bool same(polyhead_dtype a, polyhead_dtype b) { return a.code == b.code && a.bits == b.bits; }

Ref tuple_of(int rank, const int64_t* shape) {
  Ref tuple = own(PyTuple_New(rank));
  for (int axis = 0; axis < rank; ++axis) {
    PyTuple_SetItem(tuple.get(), axis, own(PyLong_FromLongLong(shape[axis])).release());
  }
  return tuple;
}

}  // namespace

bool is_numpy(PyObject* array) { return reinterpret_cast<PyObject*>(Py_TYPE(array)) == known.array_type; }

const void* memory_of(PyObject* given) {
  if (given == Py_None) return nullptr;
  if (PyBytes_Check(given) != 0) return PyBytes_AsString(given);
  if (!is_numpy(given)) {
    void* const address = PyLong_AsVoidPtr(given);
    if (address == nullptr && PyErr_Occurred() != nullptr) throw Raised{};
    return address;
  }
  Ref capsule;
  const ArrayStruct& found = array_struct(given, capsule);
  Py_intptr_t row = found.item_size;  // flags are not set for structs
  bool in_order = true;
  for (int axis = found.rank - 1; axis >= 0; --axis) {
    in_order = in_order && (found.strides[axis] == row || found.shape[axis] < 2);
    row *= found.shape[axis];
  }
  if (in_order || row == 0) return found.data;
  PyErr_SetString(PyExc_TypeError, "expected an array that lies in one piece, in order");
  throw Raised{};
}

bool view_of_torch(PyObject* tensor, polyhead_tensor& view) {
  if (!is_torch(tensor)) return false;
  if (known.exchange->tensor_from_object(tensor, &view) == 0) return true;
  PyErr_Clear();
  return false;
}

void describe(PyObject* array, const char* name, Access access, Tensor& tensor) {
  if (is_numpy(array) ? of_numpy(array, access, tensor) : is_torch(array) && of_torch(array, access, tensor)) return;
  const Ref described = python("polyhead._tensors", "described"), called = text(name);
  of_description(call(described.get(), array, called.get(), access == Access::write ? Py_True : Py_False), tensor);
}

polyhead_dtype statistics_type(polyhead_dtype dtype) {
  return {2, static_cast<uint8_t>(dtype.code == 2 && dtype.bits == 64 ? 64 : 32), 1};
}

Ref make_like(PyObject* like, Tensor& made) {
  Ref array;
  if (is_torch(like)) {
    array = call(known.empty_like, like);
    describe(array.get(), "a result", Access::write, made);
    const int last = made.view.rank - 1;
    if (last < 0 || made.view.strides[last] == 1 || made.view.shape[last] < 2) return array;
  }
  array = call(python("polyhead._tensors", "empty_like").get(), like);
  describe(array.get(), "a result", Access::write, made);
  return array;
}

Ref make(PyObject* like, const polyhead_tensor& as, int rank, const int64_t* shape, polyhead_dtype dtype,
         Tensor& made) {
  Ref array;
  const bool same_type = same(dtype, as.dtype);
  if (is_torch(like) && same_type && rank == 3) {  // lse; by numbers, which takes half as long as by a tuple
    const Ref sizes[] = {own(PyLong_FromLongLong(shape[0])), own(PyLong_FromLongLong(shape[1])),
                         own(PyLong_FromLongLong(shape[2]))};
    array =
        own(PyObject_CallMethodObjArgs(like, known.new_empty, sizes[0].get(), sizes[1].get(), sizes[2].get(), nullptr));
  } else {
    const Ref empty = python("polyhead._tensors", "empty"), sizes = tuple_of(rank, shape), stat = text("stat");
    array = call(empty.get(), like, sizes.get(), same_type ? Py_None : stat.get());
  }
  describe(array.get(), "a result", Access::write, made);
  return array;
}

Ref make_output(PyObject* q, const polyhead_tensor& as, PyObject* v, int64_t value_dim, Tensor& made) {
  const int64_t shape[] = {as.shape[0], as.shape[1], as.shape[2], value_dim};
  if (is_numpy(q)) {
    const Ref sizes = tuple_of(4, shape), dtype = own(PyObject_GetAttr(q, known.dtype));
    Ref array(PyObject_CallFunctionObjArgs(known.empty, sizes.get(), dtype.get(), nullptr));
    if (array.get() != nullptr) {
      describe(array.get(), "a result", Access::write, made);
      return array;
    }
    PyErr_Clear();  // make() says which memory was missing
    return make(q, as, 4, shape, as.dtype, made);
  }
  if (is_torch(q) && value_dim == as.shape[3]) return make_like(q, made);
  Ref array = call(python("polyhead._autograd", "output_like").get(), q, v);
  describe(array.get(), "a result", Access::write, made);
  return array;
}

void* current_stream(int32_t index) {
  void* stream = nullptr;
  if (known.exchange != nullptr) {
    if (known.exchange->current_stream(kCuda, index, &stream) != 0) throw Raised{};
    return stream;
  }
  const Ref number = own(PyLong_FromLong(index));
  const Ref found = call(python("polyhead._tensors", "current_stream").get(), number.get());
  stream = PyLong_AsVoidPtr(found.get());
  if (stream == nullptr && PyErr_Occurred() != nullptr) throw Raised{};
  return stream;
}

void learn_numpy() {
  const Ref numpy = own(PyImport_ImportModule("numpy"));
  known.array_type = own(PyObject_GetAttrString(numpy.get(), "ndarray")).release();
  known.empty = own(PyObject_GetAttrString(numpy.get(), "empty")).release();
  known.array_struct = own(PyUnicode_InternFromString("__array_struct__")).release();
  known.dtype = own(PyUnicode_InternFromString("dtype")).release();
  known.new_empty = own(PyUnicode_InternFromString("new_empty")).release();
  known.is_neg = own(PyUnicode_InternFromString("is_neg")).release();
}

PyObject* use_torch(PyObject*, PyObject* arguments) {
  return guarded([&] {
    PyObject *tensor = nullptr, *parameter = nullptr, *exchange = nullptr, *empty_like = nullptr;
    if (PyArg_ParseTuple(arguments, "OOOO", &tensor, &parameter, &exchange, &empty_like) == 0) throw Raised{};
    known.tensor_type = share(tensor).release();
    known.parameter_type = share(parameter).release();
    known.empty_like = share(empty_like).release();
    const auto* table = static_cast<const Exchange*>(PyCapsule_GetPointer(exchange, "dlpack_exchange_api"));
    if (table == nullptr) throw Raised{};
    while (table != nullptr && table->version.major > 1) table = table->older;
    if (table != nullptr && table->tensor_from_object != nullptr) known.exchange = table;
    return share(Py_None);
  });
}

}  // namespace polyhead::native
