// The GPU's symbols in a build without CUDA.
#include "backend/attention.h"

namespace polyhead::cuda {

bool available() noexcept { return false; }
std::string reason() { return "no GPU support in this build"; }

}  // namespace polyhead::cuda
