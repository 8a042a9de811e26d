// The limits that control groups, version 1 or 2, set on this process.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace polyhead {

using LimitOfGroup = std::function<std::optional<double>(const std::filesystem::path& folder)>;

// The least limit that `limit_of` finds in the folders of this process's group and of all groups above it, for a
// controller ("cpu", "memory"); nothing if there is no limit. `root` is "/", or a folder that a test has made.
std::optional<double> least_in_groups(const std::filesystem::path& root, const std::string& controller,
                                      const LimitOfGroup& limit_of);

}  // namespace polyhead
