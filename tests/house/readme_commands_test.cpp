// Every command of README.md works as it stands there, one after the other, in a fresh copy of the tree, and prints
// what is shown. A line "..." stands for any number of lines, "…" within a line for what differs from machine to
// machine.
#include <gtest/gtest.h>

#include <span>
#include <sstream>

#include "house/pages.h"
#include "house/shell.h"
#include "io/scratch.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = POLYHEAD_ROOT;

// Whether the line is what is shown; spaces at its end are not.
bool same_line(std::string_view shown, std::string_view printed) {
  printed = printed.substr(0, printed.find_last_not_of(' ') + 1);
  constexpr std::string_view kAnything = "…";
  const std::size_t at = shown.find(kAnything);
  if (at == shown.npos) return shown == printed;
  if (!printed.starts_with(shown.substr(0, at))) return false;
  const std::string_view rest = shown.substr(at + kAnything.size());
  for (std::size_t begin = at; begin <= printed.size(); ++begin) {
    if (same_line(rest, printed.substr(begin))) return true;
  }
  return false;
}

bool matches(std::span<const std::string> shown, std::span<const std::string> printed) {
  if (shown.empty()) return printed.empty();
  if (shown[0] != "...") {
    return !printed.empty() && same_line(shown[0], printed[0]) && matches(shown.subspan(1), printed.subspan(1));
  }
  for (std::size_t skipped = 0; skipped <= printed.size(); ++skipped) {
    if (matches(shown.subspan(1), printed.subspan(skipped))) return true;
  }
  return false;
}

TEST(Readme, DotsStandForAnything) {
  const Lines printed = {"a", "b 12 c", "c  ", "d"};
  EXPECT_TRUE(matches(Lines{"a", "b 12 c", "c", "d"}, printed));
  EXPECT_TRUE(matches(Lines{"a", "...", "d"}, printed));
  EXPECT_TRUE(matches(Lines{"...", "c", "..."}, printed));
  EXPECT_TRUE(matches(Lines{"a", "b … c", "..."}, printed));
  EXPECT_TRUE(matches(Lines{"a", "b…", "..."}, printed));
  EXPECT_FALSE(matches(Lines{"a", "b … d", "..."}, printed));
  EXPECT_FALSE(matches(Lines{"a", "…x", "..."}, printed));
  EXPECT_FALSE(matches(Lines{"a", "...", "c"}, printed));
  EXPECT_FALSE(matches(Lines{"a", "c", "..."}, printed));
  EXPECT_FALSE(matches(Lines{}, printed));
}

struct Command {
  std::string line;
  Lines shown;
};

std::vector<Command> commands_of(const Lines& page) {
  std::vector<Command> commands;
  for (const Lines& block : blocks(page, "```console", "```")) {
    for (const std::string& line : block) {
      if (line.starts_with("$ "))
        commands.push_back({line.substr(2), {}});
      else if (!commands.empty())
        commands.back().shown.push_back(line);
    }
  }
  return commands;
}

// What a clone has, with this build in the place of the one that `make` makes.
void lay_out(const io::Scratch& scratch) {
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    if (name != "build" && !name.starts_with(".")) fs::create_symlink(entry.path(), scratch / name);
  }
  fs::create_directory(scratch / "build");
  fs::create_directory_symlink(POLYHEAD_BUILD, scratch / "build/release");
}

// In one shell, so that what a command sets holds for the next. Targets of make are looked at, not made: they are what
// runs this test.
TEST(Readme, EveryCommandWorksAsItStandsThere) {
  const io::Scratch scratch;
  lay_out(scratch);
  const std::vector<Command> commands = commands_of(lines_of(kRoot / "README.md"));
  ASSERT_GT(commands.size(), 8u);
  const std::string mark = "=== command ";
  std::string script = "cd '" + scratch.folder() + "' || exit\n";
  for (std::size_t n = 0; n < commands.size(); ++n) {
    const bool target = commands[n].line.starts_with("make ");
    script += "echo '" + mark + std::to_string(n) + "'\n";
    script += target ? "make -n " + commands[n].line.substr(5) + " >/dev/null" : commands[n].line;
    script += " || echo \"failed with $?\"\n";
  }
  io::spill(scratch / "script.sh", script);
  std::vector<Lines> printed;
  std::istringstream in(output_of("sh '" + (scratch / "script.sh").string() + "' 2>/dev/null"));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(mark))
      printed.emplace_back();
    else if (!printed.empty())
      printed.back().push_back(line);
  }
  ASSERT_EQ(printed.size(), commands.size());
  for (std::size_t n = 0; n < commands.size(); ++n) {
    std::string all;
    for (const std::string& line : printed[n]) all += line + "\n";
    if (commands[n].line.starts_with("make "))
      EXPECT_EQ(all, "") << commands[n].line;
    else
      EXPECT_TRUE(matches(commands[n].shown, printed[n])) << commands[n].line << " prints\n" << all;
  }
}

}  // namespace
}  // namespace polyhead::house
