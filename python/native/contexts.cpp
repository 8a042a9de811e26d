#include "native/contexts.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace polyhead::native {
namespace {

struct Free {
  void operator()(polyhead_context* context) const { polyhead_context_free(context); }
};
using Context = std::unique_ptr<polyhead_context, Free>;

int thread_count = 0;                                // guarded by the GIL
thread_local std::map<int, Context> of_this_thread;  // by number of threads

// By GPU and stream, for good. Threads share them, since the work of a stream is in one order anyway; the GIL guards
// the map.
std::map<std::pair<int32_t, void*>, polyhead_context*>& of_streams() {
  static auto* const made = new std::map<std::pair<int32_t, void*>, polyhead_context*>;
  return *made;
}

polyhead_context* cuda_context(int32_t index, void* stream) {
  polyhead_context*& context = of_streams()[{index, stream}];
  if (context == nullptr) check(polyhead_context_create_cuda(index, stream, &context));
  return context;
}

}  // namespace

void check(polyhead_status status) {
  if (status == POLYHEAD_OK) return;
  const Ref number = own(PyLong_FromLong(status));
  const Ref message = own(
      PyUnicode_DecodeUTF8(polyhead_last_error(),
                           static_cast<Py_ssize_t>(std::char_traits<char>::length(polyhead_last_error())), "replace"));
  call(python("polyhead._errors", "raise_for").get(), number.get(), message.get());
  throw Raised{};
}

polyhead_context* host_context() {
  Context& context = of_this_thread[thread_count];
  if (context == nullptr) {
    polyhead_context* made = nullptr;
    check(polyhead_context_create(thread_count, &made));
    context.reset(made);
  }
  return context.get();
}

polyhead_context* context_of(const polyhead_tensor& tensor) {
  constexpr int32_t cuda = 2;
  if (tensor.device.type != cuda) return host_context();
  return cuda_context(tensor.device.index, current_stream(tensor.device.index));
}

PyObject* set_threads(PyObject*, PyObject* count) {
  return guarded([&] {
    thread_count = static_cast<int>(whole(count, "threads"));
    return share(Py_None);
  });
}

PyObject* threads(PyObject*, PyObject*) {
  return guarded([] { return own(PyLong_FromLong(polyhead_context_threads(host_context()))); });
}

PyObject* context_address(PyObject*, PyObject*) {
  return guarded([] { return own(PyLong_FromVoidPtr(host_context())); });
}

PyObject* synchronise(PyObject*, PyObject*) {
  return guarded([] {
    for (const auto& [_, context] : std::map(of_streams())) {  // a copy: others may add to it meanwhile
      if (context != nullptr) check(run(true, [&] { return polyhead_context_synchronise(context); }));
    }
    return share(Py_None);
  });
}

}  // namespace polyhead::native
