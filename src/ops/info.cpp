#include "polyhead/info.h"

#include "backend/attention.h"
#include "polyhead/version.h"

namespace polyhead {

Info info() { return {version(), cpu::target_name(), cpu::target_names(), cuda::available(), cuda::reason()}; }

}  // namespace polyhead
