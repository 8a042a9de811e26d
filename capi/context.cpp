#include "polyhead/context.h"

#include "capi/guard.h"
#include "capi/handles.h"
#include "polyhead/info.h"
#include "polyhead/version.h"

using namespace polyhead;
using namespace polyhead::capi;

namespace {
constexpr std::string_view kOp = "context";
}

const char* polyhead_version(void) { return version(); }

polyhead_status polyhead_info(const char** target, const char** no_cuda_reason) {
  return guarded([&] {
    const Info found = info();
    const std::string both = found.target + '\0' + found.cuda_reason;
    const char* const text = keep_text(both);
    required(target, "info", "target") = text;
    required(no_cuda_reason, "info", "no_cuda_reason") = text + found.target.size() + 1;
  });
}

polyhead_status polyhead_context_create(int threads, polyhead_context** context) {
  return guarded([&] { required(context, kOp, "context") = new polyhead_context{Context(threads)}; });
}

polyhead_status polyhead_context_create_cuda(int index, void* stream, polyhead_context** context) {
  return guarded([&] {
    required(context, kOp, "context") = new polyhead_context{Context(Device{Device::Kind::cuda, index}, stream)};
  });
}

void polyhead_context_free(polyhead_context* context) { delete context; }

int polyhead_context_threads(const polyhead_context* context) {
  return context == nullptr ? 0 : context->context.threads();
}

polyhead_status polyhead_context_set_precision(polyhead_context* context, int precision) {
  return guarded([&] {
    if (precision < POLYHEAD_PRECISION_F32 || precision > POLYHEAD_PRECISION_F16) {
      throw Error(ErrorCode::value, kOp, "precision: expected 0 (f32) to 3 (f16), found " + std::to_string(precision));
    }
    required(context, kOp, "context").context.set_precision(static_cast<Precision>(precision));
  });
}

polyhead_status polyhead_context_synchronise(polyhead_context* context) {
  return guarded([&] { required(context, kOp, "context").context.synchronise(); });
}

polyhead_status polyhead_context_release_memory(polyhead_context* context) {
  return guarded([&] { required(context, kOp, "context").context.release_memory(); });
}
