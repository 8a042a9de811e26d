#include "capi/guard.h"

#include <exception>
#include <new>
#include <utility>

namespace polyhead::capi {
namespace {

thread_local std::string last_error, last_text;

polyhead_status fail(polyhead_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {  // no memory even for the message
    last_error.clear();
  }
  return status;
}

}  // namespace

static_assert(POLYHEAD_SHAPE == static_cast<int>(ErrorCode::shape) + 1);
static_assert(POLYHEAD_IO == static_cast<int>(ErrorCode::io) + 1);

polyhead_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return fail(static_cast<polyhead_status>(static_cast<int>(error.code()) + 1), error.what());
  } catch (const std::bad_alloc&) {
    return fail(POLYHEAD_MEMORY, "not enough memory");
  } catch (const std::exception& error) {
    return fail(POLYHEAD_INTERNAL, error.what());
  } catch (...) {
    return fail(POLYHEAD_INTERNAL, "an exception of unknown type");
  }
}

const char* keep_text(std::string text) {
  last_text = std::move(text);
  return last_text.c_str();
}

}  // namespace polyhead::capi

const char* polyhead_last_error(void) { return polyhead::capi::last_error.c_str(); }
