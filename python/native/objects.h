// Objects of Python's, which own their references; and the way out where Python's error is set.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace polyhead::native {

struct Raised {};  // Python's error is set

class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

// What a function of Python's returned.
inline Ref own(PyObject* made) {
  if (made == nullptr) throw Raised{};
  return Ref(made);
}

inline Ref share(PyObject* object) {
  Py_INCREF(object);
  return Ref(object);
}

inline Ref text(const char* words) { return own(PyUnicode_FromString(words)); }

template <class... Objects>
Ref call(PyObject* function, Objects... arguments) {
  return own(PyObject_CallFunctionObjArgs(function, arguments..., nullptr));
}

// A function of the package's own Python, for whatever is rare: it is looked up anew.
inline Ref python(const char* module, const char* function) {
  const Ref found = own(PyImport_ImportModule(module));
  return own(PyObject_GetAttrString(found.get(), function));
}

inline void expect_arguments(Py_ssize_t count, Py_ssize_t least, Py_ssize_t most) {
  if (count >= least && count <= most) return;
  PyErr_Format(PyExc_TypeError, "expected %zd to %zd arguments, found %zd", least, most, count);
  throw Raised{};
}

// What a function that Python calls returns; a C++ exception ends here.
template <class Body>
PyObject* guarded(const Body& body) noexcept {
  try {
    return body().release();
  } catch (const Raised&) {
    return nullptr;
  } catch (...) {
    return PyErr_NoMemory();
  }
}

}  // namespace polyhead::native
