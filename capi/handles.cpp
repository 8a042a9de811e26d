#include "capi/handles.h"

#include "capi/tensors.h"

using namespace polyhead;
using namespace polyhead::capi;

void polyhead_results_free(polyhead_results* results) { delete results; }

polyhead_status polyhead_results_get(const polyhead_results* results, const char* name, polyhead_view* view) {
  return guarded([&] {
    constexpr std::string_view op = "results";
    const std::string_view wanted(&required(name, op, "name"));
    std::string names;
    for (const auto& [known, tensor] : required(results, op, "results").tensors) {
      if (known == wanted) return fill(required(view, op, "view"), tensor);
      names += (names.empty() ? "" : ", ") + known;
    }
    throw Error(ErrorCode::value, op, "expected one of " + names + ", found '" + std::string(wanted) + "'");
  });
}
