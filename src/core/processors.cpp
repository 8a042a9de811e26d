#include "core/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace polyhead {
namespace {

namespace fs = std::filesystem;

bool has_item(const std::string& list, const std::string& item) {
  return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// A group's own limit: version 2 has "QUOTA PERIOD" in one file, version 1 has two files. "max" and -1 are no limit.
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

// Where a file system of control groups is mounted, and which of its groups is seen there.
struct Mount {
  fs::path at, group;
};

// A line of mountinfo: id, parent, device, group, place, options ... - type, source, options of the file system.
std::optional<Mount> mount_of(const fs::path& root, bool second_version) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string word, group, place, type, source, options;
    before >> word >> word >> word >> group >> place;
    after >> type >> source >> options;
    if (second_version ? type == "cgroup2" : type == "cgroup" && has_item(options, "cpu")) return Mount{place, group};
  }
  return std::nullopt;
}

// The least limit of a group and of those above it.
std::optional<double> limit_up_from(const fs::path& root, const Mount& mount, const fs::path& group) {
  // A container may see its own group as the top one, or be told a path that lies outside of what it sees.
  fs::path inside = group.lexically_relative(mount.group);
  if (inside.empty() || *inside.begin() == "..") inside = ".";
  const fs::path top = root / mount.at.relative_path();
  std::optional<double> least = limit_of(top);
  fs::path at = top;
  for (const fs::path& part : inside) least = smaller(least, limit_of(at /= part));
  return least;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::optional<double> least;
  // "4:cpu,cpuacct:/group" of version 1, "0::/group" of version 2.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_item(controllers, "cpu")) continue;
    if (const auto mount = mount_of(root, controllers.empty())) {
      least = smaller(least, limit_up_from(root, *mount, line.substr(second + 1)));
    }
  }
  return least;
}

int usable_processors() {
  cpu_set_t set;
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  if (const auto quota = processor_quota()) count = std::min(count, static_cast<int>(std::ceil(std::min(*quota, 1e6))));
  return std::max(count, 1);
}

}  // namespace polyhead
