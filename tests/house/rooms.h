// Who may include whom: the table of rooms, and what in a tree goes against it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polyhead::house {

// All C++ and CUDA files below a folder, in order.
std::vector<std::filesystem::path> sources_below(const std::filesystem::path& folder);

// One line per #include (or file, or folder) that the table does not allow. Empty if all is well.
std::vector<std::string> violations(const std::filesystem::path& root);

}  // namespace polyhead::house
