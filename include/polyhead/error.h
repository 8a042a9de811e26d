// Errors: what is wrong, where, what was expected and found, and how to fix it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "polyhead/export.h"

namespace POLYHEAD_PUBLIC polyhead {

enum class ErrorCode {
  shape,        // sizes that do not match, or overflow
  dtype,        // an element type the op does not take here
  layout,       // strides, alignment, overlapping or missing memory
  value,        // a number out of range: a NaN scale, a length beyond the tensor, a dropout of 1
  unsupported,  // a combination that no backend offers
  device,       // no such device in this build or machine
  memory,       // a tensor or scratch for which there is not enough
  input,        // a file that is not what it should be
  io,           // the file system refused: no such file, no space, no permission
};

// What every public function throws, before it has written anything. The library never prints, exits or aborts.
class Error : public std::runtime_error {
 public:
  // what() reads "[op] message".
  Error(ErrorCode code, std::string_view op, const std::string& message);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace polyhead
