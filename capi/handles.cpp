#include "capi/handles.h"

#include "capi/tensors.h"

using namespace polyhead;
using namespace polyhead::capi;

void polyhead_results_free(polyhead_results* results) { delete results; }

polyhead_status polyhead_results_get(const polyhead_results* results, const char* name, polyhead_view* view) {
  return guarded([&] {
    constexpr std::string_view op = "results";
    fill_by_name(required(results, op, "results").tensors, name, view, op);
  });
}
