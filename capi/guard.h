// Where C++ ends: what a call throws becomes a status and this thread's message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "polyhead/error.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::capi {

// Of the exception that is being handled.
polyhead_status status_of_exception() noexcept;

template <class Call>
polyhead_status guarded(const Call& call) noexcept {
  try {
    call();
    return POLYHEAD_OK;
  } catch (...) {
    return status_of_exception();
  }
}

// Text of this thread, until its next one.
const char* keep_text(std::string text);

template <class T>
T& required(T* pointer, std::string_view op, std::string_view name) {
  if (pointer != nullptr) return *pointer;
  throw Error(ErrorCode::value, op, std::string(name) + " must not be NULL");
}

// A struct that begins with its size, as this version knows it: fields that an older program does not have are 0, and
// those that a newer one has must be.
template <class Struct>
Struct versioned(const Struct* given, std::string_view op, std::string_view name) {
  Struct known{};
  if (given == nullptr) return known;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (given->size < sizeof given->size || given->size > 16 * sizeof known) {  // or never set
    throw Error(
        ErrorCode::value, op,
        "expected " + std::string(name) + ".size to be the size of the struct, found " + std::to_string(given->size));
  }
  if (given->size > sizeof known &&
      std::any_of(bytes + sizeof known, bytes + given->size, [](unsigned char byte) { return byte != 0; })) {
    throw Error(ErrorCode::unsupported, op,
                std::string(name) + " has fields set that version " + polyhead_version() +
                    " of the library does not know; use the library that the program was built for");
  }
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

}  // namespace polyhead::capi
