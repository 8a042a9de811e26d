// Who may include whom: the table of docs/architecture.md, and what in a tree goes against it.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace polyhead::house {

using Names = std::set<std::string, std::less<>>;

struct Room {
  std::string name;
  Names may_include;  // rooms beside itself
  std::string up_to;  // the highest public header
};

struct Table {
  std::vector<Names> levels;  // of public headers, lowest first; a header may include those of lower levels
  std::vector<Room> rooms;

  const Room* room(std::string_view name) const;
  std::optional<std::size_t> level_of(std::string_view header) const;
};

Table table_in(const std::filesystem::path& page);

// All C++ and CUDA files below a folder, in order.
std::vector<std::filesystem::path> sources_below(const std::filesystem::path& folder);

// One line per #include (or file, or folder) that the table does not allow. Empty if all is well.
std::vector<std::string> violations(const std::filesystem::path& root, const Table& table);

// The first part of every path that the files of a room include.
Names rooms_included_by(const std::filesystem::path& root, const std::string& room);

}  // namespace polyhead::house
