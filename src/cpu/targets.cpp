// Which vector instruction set the kernels use: the best one, or the one that POLYHEAD_TARGET names.
#include "cpu/targets.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <mutex>

#include "kernels/executors.h"
#include "polyhead/error.h"

namespace polyhead::cpu {
namespace {

const std::vector<int64_t>& available() {
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

}  // namespace

void use_target(std::string_view name) {
  std::string known;
  for (const int64_t target : available()) {
    if (name == hwy::TargetName(target)) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      return;
    }
    known += std::string(known.empty() ? "" : ", ") + hwy::TargetName(target);
  }
  throw Error(ErrorCode::value, "target",
              "no vector target '" + std::string(name) + "' here; POLYHEAD_TARGET may be one of " + known);
}

void choose_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    available();  // before a choice narrows it
    const char* name = std::getenv("POLYHEAD_TARGET");
    if (name != nullptr && *name != '\0') use_target(name);
  });
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const int64_t target : available()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string target_name() {
  choose_target();
  const int64_t usable = hwy::SupportedTargets();
  for (const int64_t target : available()) {
    if ((target & usable) != 0) return hwy::TargetName(target);
  }
  return "none";
}

}  // namespace polyhead::cpu
