#include "native/structs.h"

#include <cstring>

namespace polyhead::native {
namespace {

constexpr std::array<const char*, 3> kAlign = {nullptr, "top_left", "bottom_right"};
constexpr std::array<const char*, 4> kStages = {nullptr, "scaled", "capped", "biased"};
constexpr std::array<const char*, 3> kSets = {nullptr, "light", "full"};

#define POLYHEAD_FIELD(name, kind, member) \
  { name, Kind::kind, offsetof(T, member), sizeof(T::member) }
#define POLYHEAD_FIELDS(name, kind, member, second) \
  { name, Kind::kind, offsetof(T, member), sizeof(T::member), offsetof(T, second), sizeof(T::second) }
#define POLYHEAD_WORD(name, member, words) \
  { name, Kind::word, offsetof(T, member), sizeof(T::member), 0, 0, words }
#define POLYHEAD_INNER(name, member, ...) \
  { name, Kind::nested, offsetof(T, member), sizeof(T::member), 0, 0, {}, __VA_ARGS__ }

// Whether fields fill all of a struct but its size, and gaps of 4 bytes after a field of 4.
template <class Fields>
consteval bool complete() {
  const auto within = [](std::size_t at) {
    for (const Field& field : Fields::fields) {
      if (at >= field.offset && at < field.offset + field.size) return true;
      if (at >= field.second_offset && at < field.second_offset + field.second_size) return true;
    }
    return false;
  };
  for (std::size_t at = sizeof(std::size_t); at < sizeof(typename Fields::T); at += 4) {
    const bool gap = at % 8 == 4 && within(at - 4) && [&] {
      for (const Field& field : Fields::fields) {
        if (field.offset == at - 4 && field.size == 4) return true;
      }
      return false;
    }();
    if (!within(at) && !gap) return false;
  }
  return true;
}

template <class Fields>
constexpr Struct table(const char* name) {
  static_assert(complete<Fields>(), "a field of polyhead_c.h is in no table");
  static_assert(sizeof(typename Fields::T) <= kStructBytes);
  return {name, sizeof(typename Fields::T), Fields::fields};
}

struct Window {
  using T = polyhead_window;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("window", whole, left),
      POLYHEAD_FIELD("window", whole, right),
      POLYHEAD_FIELD("window.always_first", whole, always_first),
  };
};
constexpr Struct kWindow = table<Window>("window");

struct Origin {
  using T = polyhead_origin;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("origin.sequence", whole, sequence),
      POLYHEAD_FIELD("origin.head", whole, head),
      POLYHEAD_FIELD("origin.row", whole, row),
      POLYHEAD_FIELD("origin.key", whole, key),
  };
};
constexpr Struct kOrigin = table<Origin>("origin");

struct Options {
  using T = polyhead_attention_options;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("scale", optional_number, scale),
      POLYHEAD_FIELD("softcap", number, softcap),
      POLYHEAD_WORD("align", align, kAlign),
      POLYHEAD_FIELDS("first_position", position, first_position, first_positions),
      POLYHEAD_FIELD("causal", flag, causal),
      POLYHEAD_INNER("window", window, &kWindow, "limits"),
      POLYHEAD_FIELD("keep", input, keep),
      POLYHEAD_FIELD("bias", input, bias),
      POLYHEAD_FIELD("alibi", input, alibi),
      POLYHEAD_FIELD("key_lengths", input, key_lengths),
      POLYHEAD_FIELD("key_start", input, key_start),
      POLYHEAD_FIELD("query_lengths", input, query_lengths),
      POLYHEAD_FIELD("cu_q", input, cu_q),
      POLYHEAD_FIELD("cu_k", input, cu_k),
      POLYHEAD_FIELD("sink_logit", input, sink_logit),
      POLYHEAD_FIELD("gates", input, gates),
      POLYHEAD_FIELD("dropout", number, dropout),
      POLYHEAD_FIELD("seed", natural, dropout_seed),
      POLYHEAD_INNER("origin", dropout_origin, &kOrigin, "origin_of"),
  };
};

struct Results {
  using T = polyhead_attention_results;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("out", output, output),
      POLYHEAD_FIELD("lse", output, lse),
      POLYHEAD_FIELD("weights", output, weights),
      POLYHEAD_FIELD("logits", output, logits),
      POLYHEAD_FIELD("statistics", output, statistics),
      POLYHEAD_FIELD("row_statistics", output, row_statistics),
      POLYHEAD_FIELDS("heads", indices, weight_heads, weight_head_count),
      POLYHEAD_FIELDS("rows", indices, weight_rows, weight_row_count),
      POLYHEAD_WORD("logit_stage", logit_stage, kStages),
      POLYHEAD_FIELD("marked_keys", input, marked_keys),
      POLYHEAD_FIELD("target_keys", input, target_keys),
  };
};

struct Upstream {
  using T = polyhead_attention_upstream;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("output", input, output),     POLYHEAD_FIELD("lse", input, lse),
      POLYHEAD_FIELD("doutput", input, doutput),   POLYHEAD_FIELD("dlse", input, dlse),
      POLYHEAD_FIELD("dweights", input, dweights), POLYHEAD_FIELD("merged", flag, merged),
  };
};

struct Gradients {
  using T = polyhead_attention_gradients;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("dq", output, dq),
      POLYHEAD_FIELD("dk", output, dk),
      POLYHEAD_FIELD("dv", output, dv),
      POLYHEAD_FIELD("dbias", output, dbias),
      POLYHEAD_FIELD("dsink_logit", output, dsink_logit),
      POLYHEAD_FIELD("dgates", output, dgates),
  };
};

struct LayerShape {
  using T = polyhead_layer_shape;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("width", whole, width),         POLYHEAD_FIELD("heads", whole, heads),
      POLYHEAD_FIELD("kv_heads", whole, kv_heads),   POLYHEAD_FIELD("head_dim", whole, head_dim),
      POLYHEAD_FIELD("key_width", whole, key_width), POLYHEAD_FIELD("value_width", whole, value_width),
      POLYHEAD_FIELD("no_bias", flag, no_bias),      POLYHEAD_FIELD("qk_norm", flag, qk_norm),
  };
};

struct Rotary {
  using T = polyhead_rotary;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("dim", whole, dim),
      POLYHEAD_FIELD("base", number, base),
      POLYHEAD_FIELD("interleaved", flag, interleaved),
      POLYHEAD_FIELD("scaling_factor", number, scaling_factor),
      POLYHEAD_FIELD("scaling_slow", number, scaling_slow),
      POLYHEAD_FIELD("scaling_fast", number, scaling_fast),
      POLYHEAD_FIELD("scaling_context", whole, scaling_context),
      POLYHEAD_FIELD("factors", input, factors),
  };
};

constexpr Struct kRotary = table<Rotary>("rotary");

}  // namespace

constexpr Struct kOptions = table<Options>("attention_options");
constexpr Struct kResults = table<Results>("attention_results");
constexpr Struct kUpstream = table<Upstream>("attention_upstream");
constexpr Struct kGradients = table<Gradients>("attention_gradients");
constexpr Struct kLayerShape = table<LayerShape>("layer_shape");

namespace {

struct LayerInputs {
  using T = polyhead_layer_inputs;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("query", input, query),
      POLYHEAD_FIELD("key", input, key),
      POLYHEAD_FIELD("value", input, value),
      POLYHEAD_INNER("attention", attention, &kOptions),
      POLYHEAD_FIELD("output_dropout", number, output_dropout),
      POLYHEAD_FIELD("output_seed", natural, output_dropout_seed),
      POLYHEAD_FIELD("qk_norm_epsilon", number, qk_norm_epsilon),
      POLYHEAD_INNER("rotary", rotary, &kRotary),
      POLYHEAD_FIELD("query_positions", input, query_positions),
      POLYHEAD_FIELD("key_positions", input, key_positions),
      POLYHEAD_INNER("output_origin", output_dropout_origin, &kOrigin, "origin_of"),
  };
};

struct LayerWants {
  using T = polyhead_layer_wants;
  static constexpr Field fields[] = {
      POLYHEAD_FIELD("training", flag, training),
      POLYHEAD_FIELD("weights", flag, weights),
      POLYHEAD_WORD("statistics", statistics, kSets),
      POLYHEAD_FIELD("heads", flag, heads),
      POLYHEAD_FIELD("lse", flag, lse),
      POLYHEAD_FIELD("row_statistics", flag, row_statistics),
      POLYHEAD_FIELD("weights_f32", flag, weights_f32),
      POLYHEAD_WORD("logits", logit_stage, kStages),
      POLYHEAD_FIELDS("weight_heads", indices, weight_heads, weight_head_count),
      POLYHEAD_FIELDS("weight_rows", indices, weight_rows, weight_row_count),
      POLYHEAD_FIELD("marked_keys", input, marked_keys),
      POLYHEAD_FIELD("target_keys", input, target_keys),
  };
};

template <class T>
void put(std::byte* values, std::size_t offset, T value) {
  std::memcpy(values + offset, &value, sizeof value);
}

// What a function of polyhead._numbers makes of a value that is not plainly a number.
Ref checked(const char* function, PyObject* value, const char* name) {
  return call(python("polyhead._numbers", function).get(), value, text(name).get());
}

int32_t flag(PyObject* value, const char* name) {
  if (value == Py_True || value == Py_False) return value == Py_True ? 1 : 0;
  return checked("flag", value, name).get() == Py_True ? 1 : 0;
}

int32_t word(PyObject* value, const Field& field) {
  if (value == Py_None) return 0;
  for (std::size_t n = 1; n < field.words.size(); ++n) {
    if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, field.words[n]) == 0) {
      return static_cast<int32_t>(n);
    }
  }
  const Ref words = own(PyTuple_New(static_cast<Py_ssize_t>(field.words.size())));
  PyTuple_SetItem(words.get(), 0, share(Py_None).release());
  for (std::size_t n = 1; n < field.words.size(); ++n) {
    PyTuple_SetItem(words.get(), static_cast<Py_ssize_t>(n), text(field.words[n]).release());
  }
  call(python("polyhead._options", "refuse_word").get(), words.get(), value, text(field.name).get());
  throw Raised{};
}

const Field& field_called(const Struct& layout, PyObject* name) {
  for (const Field& field : layout.fields) {
    if (PyUnicode_CompareWithASCIIString(name, field.name) == 0) return field;
  }
  PyErr_Format(PyExc_TypeError, "%s: no field %R", layout.name, name);
  throw Raised{};
}

int64_t int64_of(PyObject* number) {
  const long long found = PyLong_AsLongLong(number);
  if (found == -1 && PyErr_Occurred() != nullptr) throw Raised{};
  return found;
}

}  // namespace

constexpr Struct kLayerInputs = table<LayerInputs>("layer_inputs");
constexpr Struct kLayerWants = table<LayerWants>("layer_wants");

double number(PyObject* value, const char* name) {
  if (PyFloat_CheckExact(value)) return PyFloat_AsDouble(value);
  return PyFloat_AsDouble(checked("number", value, name).get());
}

int64_t whole(PyObject* value, const char* name) {
  if (!PyLong_CheckExact(value)) return int64_of(checked("whole", value, name).get());
  const long long found = PyLong_AsLongLong(value);
  if (found != -1 || PyErr_Occurred() == nullptr) return found;
  PyErr_Clear();
  return int64_of(checked("whole", value, name).get());  // which says its bounds
}

uint64_t natural(PyObject* value, const char* name) {
  const bool plain = PyLong_CheckExact(value);
  unsigned long long seed = plain ? PyLong_AsUnsignedLongLong(value) : 0;
  if (!plain || (seed == ~0ULL && PyErr_Occurred() != nullptr)) {
    PyErr_Clear();
    seed = PyLong_AsUnsignedLongLong(checked("seed", value, name).get());
  }
  return seed;
}

Tensor& Call::next_tensor(const char* name) {
  if (tensor_count_ == kTensors) {
    PyErr_Format(PyExc_MemoryError, "%s: more tensors than a call has", name);
    throw Raised{};
  }
  return tensors_[tensor_count_++];
}

const polyhead_tensor* Call::tensor(PyObject* array, const char* name, Access access) {
  if (array == Py_None) return nullptr;
  Tensor& made = next_tensor(name);
  describe(array, name, access, made);
  return &made.view;
}

void Call::fill(const Struct& layout, PyObject* given, std::byte* values) {
  put(values, 0, layout.size);
  if (PyDict_Check(given) != 0) {
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(given, &at, &name, &value) != 0;)
      fill(field_called(layout, name), value, values);
    return;
  }
  if (PyTuple_Check(given) == 0 || PyTuple_Size(given) != static_cast<Py_ssize_t>(layout.fields.size())) {
    PyErr_Format(PyExc_TypeError, "%s: expected a tuple of %zu, found %R", layout.name, layout.fields.size(), given);
    throw Raised{};
  }
  for (std::size_t n = 0; n < layout.fields.size(); ++n) {
    fill(layout.fields[n], PyTuple_GetItem(given, static_cast<Py_ssize_t>(n)), values);
  }
}

void Call::fill(const Field& field, PyObject* value, std::byte* values) {
  switch (field.kind) {
    case Kind::input: put(values, field.offset, tensor(value, field.name)); break;
    case Kind::output: put(values, field.offset, tensor(value, field.name, Access::write)); break;
    case Kind::number: put(values, field.offset, number(value, field.name)); break;
    case Kind::whole: put(values, field.offset, whole(value, field.name)); break;
    case Kind::natural: put(values, field.offset, natural(value, field.name)); break;
    case Kind::flag: put(values, field.offset, flag(value, field.name)); break;
    case Kind::word: put(values, field.offset, word(value, field)); break;
    case Kind::indices: fill_indices(field, value, values); break;
    case Kind::position: fill_position(field, value, values); break;
    case Kind::optional_number:
      if (value == Py_None) break;
      number_ = number(value, field.name);
      put(values, field.offset, &number_);
      break;
    case Kind::nested: fill_nested(field, value, values); break;
  }
}

void Call::fill_nested(const Field& field, PyObject* value, std::byte* values) {
  if (value == Py_None) return;
  std::byte* const inner = nested_.at(nested_count_++).data();
  std::memset(inner, 0, field.inner->size);
  const Ref given = field.read == nullptr
                        ? share(value)
                        : call(python("polyhead._options", field.read).get(), value, text(field.name).get());
  fill(*field.inner, given.get(), inner);
  put(values, field.offset, inner);
}

void Call::fill_position(const Field& field, PyObject* value, std::byte* values) {
  if (value == Py_None) return;
  if (!PyLong_CheckExact(value) && call(python("polyhead._options", "has_axes").get(), value).get() == Py_True) {
    put(values, field.second_offset, tensor(value, field.name));
    return;
  }
  position_ = whole(value, field.name);
  put(values, field.offset, &position_);
}

void Call::fill_indices(const Field& field, PyObject* value, std::byte* values) {
  if (value == Py_None) return;
  const polyhead_tensor& found = *tensor(value, field.name);  // made by polyhead._attention, i32 [n] and dense
  put(values, field.offset, static_cast<const int32_t*>(found.data));
  put(values, field.second_offset, static_cast<std::size_t>(found.shape[0]));
}

PyObject* layouts(PyObject*, PyObject*) {
  return guarded([] {
    Ref found = own(PyDict_New());
    for (const Struct* layout : {&kOptions, &kResults, &kUpstream, &kGradients, &kLayerShape, &kLayerInputs,
                                 &kLayerWants, &kRotary, &kWindow, &kOrigin}) {
      const Ref fields = own(PyList_New(0));
      for (const Field& field : layout->fields) {
        const Ref entry =
            own(Py_BuildValue("(snnnn)", field.name, field.offset, field.size, field.second_offset, field.second_size));
        if (PyList_Append(fields.get(), entry.get()) != 0) throw Raised{};
      }
      const Ref both = own(Py_BuildValue("(nO)", layout->size, fields.get()));
      if (PyDict_SetItemString(found.get(), layout->name, both.get()) != 0) throw Raised{};
    }
    return found;
  });
}

}  // namespace polyhead::native
