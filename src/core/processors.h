// How many processors this process may use.
#pragma once

#include <filesystem>
#include <optional>

namespace polyhead {

// Those that the scheduler may put us on, and no more than our share of time on them. At least 1.
int usable_processors();

// The share of processor time that control groups, version 1 or 2, leave to this process: 1.5 for one processor and a
// half. Nothing where there is no limit. `root` is the file system's, or one that a test has made.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

}  // namespace polyhead
