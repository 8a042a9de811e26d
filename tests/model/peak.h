// The most memory that a call takes, as the system counts it. The sanitizers keep books of their own: not under them.
#pragma once

#include <fstream>
#include <optional>
#include <string>

namespace polyhead::test {

// Bytes of a field of /proc/self/status.
inline double status(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field + ":")) return 1024 * std::stod(line.substr(field.size() + 1));
  }
  return 0;
}

// Bytes beyond what there was before; nothing where the system does not let its count begin anew.
template <class Call>
std::optional<double> peak_of(const Call& call) {
  if (!(std::ofstream("/proc/self/clear_refs") << "5" << std::flush)) return std::nullopt;
  const double before = status("VmRSS");
  call();
  return status("VmHWM") - before;
}

}  // namespace polyhead::test
