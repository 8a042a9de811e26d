// Which vector instruction set the kernels use: the best one, or the one that POLYHEAD_TARGET names.
#include "cpu/targets.h"

#include <hwy/highway.h>

#include <cstdlib>
#include <mutex>

#include "kernels/executors.h"
#include "polyhead/error.h"

namespace polyhead::cpu {
namespace {

// The place of AVX3_BF16 among Highway's targets (pairs-inl.h).
constexpr std::int64_t kPairs = HWY_AVX3_DL;

bool has_pairs() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

const std::vector<int64_t>& available() {
  static const std::vector<int64_t> targets = [] {
    std::vector<int64_t> all = hwy::SupportedAndGeneratedTargets();
    if (!has_pairs()) std::erase(all, kPairs);
    return all;
  }();
  return targets;
}

const char* name_of(int64_t target) { return target == kPairs ? "AVX3_BF16" : hwy::TargetName(target); }

// Kernels without a form of their own for pairs are those of AVX3.
void use(int64_t target) {
  hwy::SetSupportedTargetsForTest(target == kPairs ? kPairs | HWY_AVX3 : target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

void use_target(std::string_view name) {
  std::string known;
  for (const int64_t target : available()) {
    if (name == name_of(target)) return use(target);
    known += std::string(known.empty() ? "" : ", ") + name_of(target);
  }
  throw Error(ErrorCode::value, "target",
              "no vector target '" + std::string(name) + "' here; POLYHEAD_TARGET may be one of " + known);
}

void choose_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    available();  // before a choice narrows it
    const char* name = std::getenv("POLYHEAD_TARGET");
    if (name != nullptr && *name != '\0') return use_target(name);
    use(available().front());
  });
}

bool multiplies_pairs() {
  choose_target();
  return (hwy::SupportedTargets() & kPairs) != 0;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const int64_t target : available()) names.emplace_back(name_of(target));
  return names;
}

std::string target_name() {
  choose_target();
  const int64_t usable = hwy::SupportedTargets();
  for (const int64_t target : available()) {
    if ((target & usable) != 0) return name_of(target);
  }
  return "none";
}

}  // namespace polyhead::cpu
