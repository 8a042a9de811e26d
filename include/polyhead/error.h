// Errors: what is wrong, where, what was expected and found, how to mend it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace polyhead {

enum class ErrorCode {
  shape,        // sizes that do not fit together, or overflow
  dtype,        // an element type the op does not take here
  layout,       // strides, alignment, overlapping or missing memory
  value,        // a number out of its range: NaN scale, length beyond the tensor, dropout of 1
  unsupported,  // a combination that no backend offers
  device,       // no such device in this build or machine
  input,        // a file that is not what it should be
  io,           // the file system refused: no such file, no space, no permission
};

// Thrown by every public function; nothing has been written by then. The library never prints, exits or aborts.
class Error : public std::runtime_error {
 public:
  // what() reads "[op] message".
  Error(ErrorCode code, std::string_view op, const std::string& message);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace polyhead
