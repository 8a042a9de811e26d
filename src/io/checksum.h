// XXH64, the checksum of the files that we write; it detects any flipped bit.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "polyhead/tensor.h"

namespace polyhead::io {

class Checksum {
 public:
  Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  ~Checksum();

  void add(const void* data, std::size_t bytes);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(const Tensor& tensor);  // its numbers, on whichever device they are
  std::string digits() const;      // sixteen, as xxh64sum prints them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace polyhead::io
