// What control groups, version 1 or 2, leave to this process.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace polyhead {

using LimitOfGroup = std::function<std::optional<double>(const std::filesystem::path& folder)>;

// The least that `limit_of` finds in the folder of the group that this process is in, for a controller ("cpu",
// "memory"), and in those of the groups above; nothing where there is no limit. `root` is the file system's, or one
// that a test has made.
std::optional<double> least_in_groups(const std::filesystem::path& root, const std::string& controller,
                                      const LimitOfGroup& limit_of);

}  // namespace polyhead
