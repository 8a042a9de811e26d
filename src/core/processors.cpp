#include "core/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "core/control_groups.h"

namespace polyhead {
namespace {

namespace fs = std::filesystem;

// A group's own limit: version 2 has "QUOTA PERIOD" in one file, version 1 has two files. "max" and -1 mean no limit.
std::optional<double> limit_of(const fs::path& group) {
  double quota = -1, period = 0;
  if (std::ifstream both(group / "cpu.max"); both) {
    both >> quota >> period;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& root) { return least_in_groups(root, "cpu", limit_of); }

int usable_processors() {
  cpu_set_t set;
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (const auto quota = processor_quota()) count = std::min(count, static_cast<int>(std::ceil(std::min(*quota, 1e6))));
  return std::max(count, 1);
}

}  // namespace polyhead
