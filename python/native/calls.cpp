#include "native/calls.h"

#include <concepts>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "native/contexts.h"

namespace polyhead::native {
namespace {

// What a parameter of C takes of an object, for as long as the call lasts.
template <class T>
struct Argument {
  static_assert(std::is_pointer_v<T>);
  explicit Argument(PyObject* given) : value(static_cast<T>(const_cast<void*>(memory_of(given)))) {}
  T value;
};

template <std::integral T>
struct Argument<T> {
  explicit Argument(PyObject* given) {
    if constexpr (std::is_unsigned_v<T>) {
      value = natural(given, "a number");
    } else {
      const int64_t found = whole(given, "a number");
      value = static_cast<T>(found);
      if (value == found) return;
      PyErr_Format(PyExc_OverflowError, "expected a number of %zu bits, found %R", 8 * sizeof(T), given);
      throw Raised{};
    }
  }
  T value;
};

template <>
struct Argument<double> {
  explicit Argument(PyObject* given) : value(number(given, "a number")) {}
  double value;
};

template <>
struct Argument<const polyhead_tensor*> {
  explicit Argument(PyObject* given) : value(call.tensor(given, "an array")) {}
  Call call;
  const polyhead_tensor* value;
};

template <auto function>
struct Bound;

template <class... Parameters, polyhead_status (*function)(Parameters...)>
struct Bound<function> {
  static PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    return guarded([&] {
      expect_arguments(count, sizeof...(Parameters), sizeof...(Parameters));
      return with(arguments, std::index_sequence_for<Parameters...>{});
    });
  }

 private:
  template <std::size_t... n>
  static Ref with(PyObject* const* arguments, std::index_sequence<n...>) {
    const std::tuple<Argument<Parameters>...> taken{arguments[n]...};
    check(run(true, [&] { return function(std::get<n>(taken).value...); }));
    return share(Py_None);
  }
};

template <class T, void (*free)(T*)>
struct Bound<free> {
  static PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    return guarded([&] {
      expect_arguments(count, 1, 1);
      const Argument<T*> taken(arguments[0]);
      run(true, [&] {
        free(taken.value);
        return polyhead_status{POLYHEAD_OK};
      });
      return share(Py_None);
    });
  }
};

template <auto function>
constexpr PyMethodDef method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Bound<function>::call)), METH_FASTCALL,
          nullptr};
}

}  // namespace

#define POLYHEAD_CALL(name) method<polyhead_##name>(#name)
PyMethodDef calls[] = {
    POLYHEAD_CALL(context_create),  POLYHEAD_CALL(context_free),
    POLYHEAD_CALL(results_free),    POLYHEAD_CALL(tokenizer_load),
    POLYHEAD_CALL(tokenizer_free),  POLYHEAD_CALL(tokenizer_size),
    POLYHEAD_CALL(encode),          POLYHEAD_CALL(decode),
    POLYHEAD_CALL(token_text),      POLYHEAD_CALL(chat),
    POLYHEAD_CALL(tokens_of_kind),  POLYHEAD_CALL(model_load),
    POLYHEAD_CALL(model_save),      POLYHEAD_CALL(model_free),
    POLYHEAD_CALL(model_tokenizer), POLYHEAD_CALL(model_examples),
    POLYHEAD_CALL(model_describe),  POLYHEAD_CALL(model_heads),
    POLYHEAD_CALL(model_forward),   POLYHEAD_CALL(model_embed),
    POLYHEAD_CALL(model_weights),   POLYHEAD_CALL(generation_create),
    POLYHEAD_CALL(generation_next), POLYHEAD_CALL(generation_free),
    POLYHEAD_CALL(model_score),     POLYHEAD_CALL(survey_heads),
    POLYHEAD_CALL(patch_heads),     POLYHEAD_CALL(importance),
    POLYHEAD_CALL(prune),           POLYHEAD_CALL(without_heads),
    POLYHEAD_CALL(survey_texts),    {nullptr, nullptr, 0, nullptr},
};

}  // namespace polyhead::native
