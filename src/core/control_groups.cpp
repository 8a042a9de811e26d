#include "core/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace polyhead {
namespace {

namespace fs = std::filesystem;

bool has_item(const std::string& list, const std::string& item) {
  return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// Where a file system of control groups is mounted, and which of its groups is seen there.
struct Mount {
  fs::path at, group;
};

// A line of mountinfo: id, parent, device, group, place, options ... - type, source, options of the file system.
std::optional<Mount> mount_of(const fs::path& root, bool second_version, const std::string& controller) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string word, group, place, type, source, options;
    before >> word >> word >> word >> group >> place;
    after >> type >> source >> options;
    const bool fits = second_version ? type == "cgroup2" : type == "cgroup" && has_item(options, controller);
    if (fits) return Mount{place, group};
  }
  return std::nullopt;
}

// The least limit of a group and of those above it.
std::optional<double> limit_up_from(const fs::path& root, const Mount& mount, const fs::path& group,
                                    const LimitOfGroup& limit_of) {
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

std::optional<double> least_in_groups(const fs::path& root, const std::string& controller,
                                      const LimitOfGroup& limit_of) {
  std::ifstream file(root / "proc/self/cgroup");
  std::optional<double> least;
  // "4:cpu,cpuacct:/group" of version 1, "0::/group" of version 2.
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_item(controllers, controller)) continue;
    if (const auto mount = mount_of(root, controllers.empty(), controller)) {
      least = smaller(least, limit_up_from(root, *mount, line.substr(second + 1), limit_of));
    }
  }
  return least;
}

}  // namespace polyhead
