// Where C++ ends: what a call throws becomes a status and this thread's message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/error.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::capi {

// The status of the exception that is being handled.
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

// Keeps a text for this thread until its next one.
const char* keep_text(std::string text);

template <class T>
T& required(T* pointer, std::string_view op, std::string_view name) {
  if (pointer != nullptr) return *pointer;
  throw Error(ErrorCode::value, op, std::string(name) + " must not be NULL");
}

// `size` is that of the struct in the version that the caller was built with.
template <class Struct>
void expect_size(std::size_t size, std::string_view op, const std::string& name) {
  if (size >= sizeof size && size <= 16 * sizeof(Struct) && size % alignof(Struct) == 0) return;  // else never set
  throw Error(ErrorCode::value, op,
              "expected " + name + " to be the size of the struct, found " + std::to_string(size));
}

// A struct that begins with its size, in this version's form: fields that an older program lacks are 0, and fields that
// only a newer one has must be 0.
template <class Struct>
Struct versioned(const Struct* given, std::string_view op, std::string_view name) {
  Struct known{};
  if (given == nullptr) return known;
  expect_size<Struct>(given->size, op, std::string(name) + ".size");
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (given->size > sizeof known &&
      std::any_of(bytes + sizeof known, bytes + given->size, [](unsigned char byte) { return byte != 0; })) {
    throw Error(ErrorCode::unsupported, op,
                std::string(name) + " has fields set that version " + polyhead_version() +
                    " of the library does not know; use the library that the program was built for");
  }
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

// An array of such structs; the size of the first is the distance between them.
template <class Struct>
std::vector<Struct> versioned(const Struct* first, std::size_t count, std::string_view op, std::string_view name) {
  std::vector<Struct> known;
  for (std::size_t n = 0; n < count; ++n) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&required(first, op, name)) + n * first->size;
    known.push_back(versioned(reinterpret_cast<const Struct*>(bytes), op, name));
    if (known[n].size != known[0].size) {
      throw Error(ErrorCode::value, op,
                  "expected " + std::string(name) + "[" + std::to_string(n) + "].size to be that of the first, " +
                      std::to_string(known[0].size) + ", found " + std::to_string(known[n].size));
    }
  }
  return known;
}

// The caller's array to fill, whose structs have the size that the caller was built with.
template <class Struct>
class Room {
 public:
  Room(Struct* first, std::size_t size, std::string_view op, std::string_view name, const std::string& size_name)
      : next_(reinterpret_cast<unsigned char*>(&required(first, op, name))), size_(size) {
    expect_size<Struct>(size, op, size_name);
  }
  void add(const Struct& made) {
    std::memset(next_, 0, size_);
    std::memcpy(next_, &made, std::min(size_, sizeof made));
    next_ += size_;
  }

 private:
  unsigned char* next_;
  std::size_t size_;
};

}  // namespace polyhead::capi
