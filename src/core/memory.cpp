#include "core/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>

#include "core/control_groups.h"
#include "polyhead/error.h"

namespace polyhead {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The first number in a file; infinity if there is no such file or it says "max".
double number_in(const std::filesystem::path& path) {
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

// A field of memory.stat, or 0.
double field_in(const std::filesystem::path& stat, const std::string& name) {
  std::ifstream in(stat);
  std::string word;
  for (double number = 0; in >> word >> number;) {
    if (word == name) return number;
  }
  return 0;
}

// What one group has left: its limit minus what is in use, not counting file pages that can be reclaimed. Versions 1
// and 2 name the files differently.
std::optional<double> free_in_group(const std::filesystem::path& group) {
  const bool second = std::filesystem::exists(group / "memory.max");
  const double most = number_in(group / (second ? "memory.max" : "memory.limit_in_bytes"));
  if (most == kInfinite) return std::nullopt;
  const double used = number_in(group / (second ? "memory.current" : "memory.usage_in_bytes"));
  return most - used + field_in(group / "memory.stat", second ? "inactive_file" : "total_inactive_file");
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

double free_in_groups(const std::filesystem::path& root) {
  return least_in_groups(root, "memory", free_in_group).value_or(kInfinite);
}

double available_memory() { return std::max(0.0, std::min({free_in_machine(), free_in_groups(), free_in_limit()})); }

void expect_memory(std::string_view op, const std::string& what, double bytes, const std::string& mend) {
  const double available = available_memory();
  if (bytes <= available) return;
  throw Error(
      ErrorCode::value, op,
      what + " takes about " + size_text(bytes) + " of memory, and " + size_text(available) + " are free; " + mend);
}

}  // namespace polyhead
