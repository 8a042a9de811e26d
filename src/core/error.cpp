#include "polyhead/error.h"

namespace polyhead {

Error::Error(ErrorCode code, std::string_view op, const std::string& message)
    : std::runtime_error(std::string("[").append(op).append("] ").append(message)), code_(code) {}

}  // namespace polyhead
