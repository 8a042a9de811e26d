#include "core/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>

#include "polyhead/error.h"

namespace polyhead {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The first number of a file, or infinity: there is no such file, or it says "max".
double number_in(const std::string& path) {
  std::ifstream in(path);
  double number = 0;
  return in >> number ? number : kInfinite;
}

double free_in_machine() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    if (word != "MemAvailable:") continue;
    double kilobytes = 0;
    return in >> kilobytes ? 1024 * kilobytes : kInfinite;
  }
  return kInfinite;
}

// Version 2 of control groups: "0::/user.slice/..." in /proc/self/cgroup. The limits of the groups above hold, too; in
// a container the files of its group lie at the top.
double free_in_groups() {
  std::string path;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  for (double least = kInfinite;; path.resize(path.find_last_of('/'))) {
    const std::string folder = "/sys/fs/cgroup" + path;
    const double most = number_in(folder + "/memory.max");
    if (most < kInfinite) least = std::min(least, most - number_in(folder + "/memory.current"));
    if (path.empty()) return least;
  }
}

double free_in_limit() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kInfinite;
  const double pages = number_in("/proc/self/statm");
  const double used = pages < kInfinite ? pages * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
  return static_cast<double>(limit.rlim_cur) - used;
}

// "1.5 GB"
std::string size_text(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (bytes /= 1e3; bytes >= 999.5 && unit + 1 < kUnits.size(); bytes /= 1e3) ++unit;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes, kUnits[unit]);
  return text.data();
}

}  // namespace

double available_memory() { return std::max(0.0, std::min({free_in_machine(), free_in_groups(), free_in_limit()})); }

void expect_memory(std::string_view op, const std::string& what, double bytes, const std::string& mend) {
  const double available = available_memory();
  if (bytes <= available) return;
  throw Error(
      ErrorCode::value, op,
      what + " takes about " + size_text(bytes) + " of memory, and " + size_text(available) + " are free; " + mend);
}

}  // namespace polyhead
