// The structs of polyhead_c.h and the tuples that Python passes for them: one table of fields for each. The compiler
// lays them out, and a field of the header that no table names does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "native/tensors.h"

namespace polyhead::native {

enum class Kind {
  input,            // a tensor, or None
  output,           // the same, written to
  number,           // double
  optional_number,  // a pointer to one, or None
  whole,            // int64_t
  natural,          // uint64_t
  flag,             // int32_t
  word,             // int32_t: which of the field's words; None is 0
  indices,          // int32_t[], from a NumPy array or None, and how many
  position,         // a pointer to an int64_t; or else a tensor
  nested            // a pointer to another struct with a table, or None
};

struct Struct;

struct Field {
  const char* name;  // in Python
  Kind kind;
  std::size_t offset, size;
  std::size_t second_offset = 0, second_size = 0;  // of a kind that fills two
  std::span<const char* const> words = {};
  const Struct* inner = nullptr;
  const char* read = nullptr;  // read(value, name) of polyhead._options makes its tuple, unless the value is one
};

struct Struct {
  const char* name;  // that of polyhead_c.h without polyhead_
  std::size_t size;
  std::span<const Field> fields;
};

inline constexpr std::size_t kStructBytes = 256;  // more than any of them has

extern const Struct kOptions, kResults, kUpstream, kGradients;
extern const Struct kLayerShape, kLayerInputs, kLayerWants;

// What the structs of one call point to, for as long as the call lasts.
class Call {
 public:
  // Of None: NULL.
  const polyhead_tensor* tensor(PyObject* array, const char* name, Access access = Access::read);
  Tensor& next_tensor(const char* name);

  // A T, whose layout is `layout`, from a tuple with one item for each of its fields, or from a dictionary with some of
  // them by name: 0 and NULL stand for the default of the others.
  template <class T>
  T filled(const Struct& layout, PyObject* given) {
    T values{};
    fill(layout, given, reinterpret_cast<std::byte*>(&values));
    return values;
  }

 private:
  void fill(const Struct& layout, PyObject* given, std::byte* values);
  void fill(const Field& field, PyObject* value, std::byte* values);
  void fill_nested(const Field& field, PyObject* value, std::byte* values);
  void fill_position(const Field& field, PyObject* value, std::byte* values);
  void fill_indices(const Field& field, PyObject* value, std::byte* values);

  static constexpr std::size_t kTensors = 32;
  std::array<Tensor, kTensors> tensors_;
  std::size_t tensor_count_ = 0;
  double number_ = 0;     // a call has one that is optional,
  int64_t position_ = 0;  // one position,
  struct alignas(8) Nested : std::array<std::byte, kStructBytes> {};
  std::array<Nested, 5> nested_;  // and of the layer options with window and origin, rotary, and another origin
  std::size_t nested_count_ = 0;
};

double number(PyObject* value, const char* name);
int64_t whole(PyObject* value, const char* name);
uint64_t natural(PyObject* value, const char* name);

// layouts(): by the name of the struct its size and, for each field in the order of Python's tuple, (name, offset,
// size, offset and size of the second field that it fills, or 0).
PyObject* layouts(PyObject*, PyObject*);

}  // namespace polyhead::native
