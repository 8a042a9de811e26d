// What this build and this machine offer.
#pragma once

#include <string>
#include <vector>

#include "polyhead/export.h"

namespace POLYHEAD_PUBLIC polyhead {

struct Info {
  std::string version;
  std::string target;                // the vector instruction set that kernels use, "AVX3"
  std::vector<std::string> targets;  // all that this build and machine offer, best first; POLYHEAD_TARGET picks one
  bool cuda = false;
  std::string cuda_reason;  // why there is no GPU path, if so
};

Info info();  // throws if POLYHEAD_TARGET names none of the targets

}  // namespace polyhead
