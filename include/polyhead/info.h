// What this build and this machine offer.
#pragma once

#include <string>
#include <vector>

namespace polyhead {

struct Info {
  std::string version;
  std::string target;  // the vector instruction set that kernels use, "AVX3"
  std::vector<std::string>
      targets;  // all that this build and machine allow, best first; POLYHEAD_TARGET picks one by name
  bool cuda = false;
  std::string cuda_reason;  // why there is no GPU path, if there is none
};

Info info();  // throws if POLYHEAD_TARGET names none of the targets

}  // namespace polyhead
