// The symbols of ranks in a build without MPI.
#include "core/ranks.h"

#include <cstdlib>

#include "polyhead/error.h"

namespace polyhead::ranks {

bool available() noexcept { return false; }
std::string reason() { return "no ranks in this build: CMake found no MPI"; }
std::string library() { return {}; }
std::unique_ptr<Ranks> join(std::size_t) { throw Error(ErrorCode::device, "ranks", reason()); }
void abandon(int code) { std::_Exit(code); }

}  // namespace polyhead::ranks
