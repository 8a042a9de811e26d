// How many processors this process may use.
#pragma once

#include <filesystem>
#include <optional>

namespace polyhead {

// The processors that the scheduler may put this process on, but no more than its quota, rounded up. At least 1.
int usable_processors();

// The processor time that control groups, version 1 or 2, leave to this process: 1.5 means one and a half processors.
// Nothing if there is no limit. `root` is "/", or a folder that a test has made.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

}  // namespace polyhead
