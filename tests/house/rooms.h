// Who may include whom: the table of rooms, and what in a tree goes against it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace polyhead::house {

// One line per #include (or file, or folder) that the table does not allow. Empty if all is well.
std::vector<std::string> violations(const std::filesystem::path& root);

}  // namespace polyhead::house
