// What rooms link against the table of rooms: a header of a third room may bring a use that no #include shows.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "house/rooms.h"
#include "house/shell.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;
using Uses = std::map<std::string, std::map<std::string, std::string>>;  // room, other room: a symbol, for the message

struct Symbols {
  Names defined, undefined;
};

// Of all objects below a folder. Functions that every object brings along (inline ones, templates) are weak, and not
// counted as defined.
Symbols symbols_below(const fs::path& folder) {
  Symbols found;
  std::istringstream lines(output_of("find '" + folder.string() + "' -name '*.o' -print0 | xargs -0 '" +
                                     std::string(POLYHEAD_NM) + "' --format=posix"));
  std::string line, name, type;
  while (std::getline(lines, line)) {
    if (std::istringstream words(line); words >> name >> type) {
      if (type == "U") found.undefined.insert(name);
      if (type == "T" || type == "D" || type == "B" || type == "R") found.defined.insert(name);
    }
  }
  return found;
}

Uses links_of(const fs::path& build, const Table& table) {
  std::map<std::string, Symbols> rooms;
  for (const Room& room : table.rooms) {
    const fs::path folder = fs::exists(build / "src" / room.name) ? build / "src" / room.name : build / room.name;
    if (fs::exists(folder)) rooms[room.name] = symbols_below(folder);
  }
  std::map<std::string, std::string, std::less<>> home;
  for (const auto& [room, symbols] : rooms) {
    for (const std::string& name : symbols.defined) home[name] = room;
  }
  Uses uses;
  for (const auto& [room, symbols] : rooms) {
    for (const std::string& name : symbols.undefined) {
      if (const auto at = home.find(name); at != home.end() && at->second != room) uses[room][at->second] = name;
    }
  }
  return uses;
}

const Table& table() {
  static const Table table = table_in(fs::path(POLYHEAD_ROOT) / "docs/architecture.md");
  return table;
}
const Uses& links() {
  static const Uses uses = links_of(POLYHEAD_BUILD, table());
  return uses;
}

TEST(Links, FollowTheTableOfRooms) {
  ASSERT_TRUE(links().contains("serve") && links().at("autograd").contains("ops")) << "no objects in " POLYHEAD_BUILD;
  for (const auto& [name, others] : links()) {
    const Room& room = *table().room(name);
    if (room.up_to == "polyhead") continue;  // the contract's users link whichever room implements it
    for (const auto& [other, symbol] : others) {
      // executors.cpp alone names the backends; includes_test.cpp makes sure of it.
      if (name == "ops" && (other == "cpu" || other == "cuda" || other == "no_cuda")) continue;
      EXPECT_TRUE(room.may_include.contains(other)) << name << " links " << other << ": " << symbol;
    }
  }
}

// Every edge of the table is there because somebody needs it.
TEST(Links, OrIncludesUseTheWholeTable) {
  for (const Room& room : table().rooms) {
    const Names included = rooms_included_by(fs::path(POLYHEAD_ROOT), room.name);
    const auto linked = links().find(room.name);
    for (const std::string& other : room.may_include) {
      EXPECT_TRUE(included.contains(other) || (linked != links().end() && linked->second.contains(other)))
          << room.name << " may include " << other << ", and neither includes nor links it";
    }
  }
}

}  // namespace
}  // namespace polyhead::house
