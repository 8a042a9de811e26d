// README.md says nothing that is not so: its code is that of examples/embed.cpp, its commands print what it shows, and
// its links lead somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "house/shell.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
const fs::path kRoot = POLYHEAD_ROOT;

Lines lines_of(std::istream& in) {
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Lines lines_of(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << "cannot read " << file;
  return lines_of(in);
}

// The lines between the first that is `begin` and the next that is `end`.
std::vector<Lines> blocks(const Lines& lines, const std::string& begin, const std::string& end) {
  std::vector<Lines> found;
  bool inside = false;
  for (const std::string& line : lines) {
    if (!inside && line == begin) {
      inside = true;
      found.emplace_back();
    } else if (inside && line == end) {
      inside = false;
    } else if (inside) {
      found.back().push_back(line);
    }
  }
  return found;
}

TEST(Readme, CodeIsThatOfTheExample) {
  const auto shown = blocks(lines_of(kRoot / "README.md"), "```cpp", "```");
  const auto compiled = blocks(lines_of(kRoot / "examples/embed.cpp"), "// [readme]", "// [/readme]");
  ASSERT_EQ(compiled.size(), 1u) << "examples/embed.cpp needs one // [readme] and one // [/readme]";
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown[0], compiled[0]);
}

// Whether `printed` is what is `shown`, where a line "..." stands for any number of lines.
bool matches(std::span<const std::string> shown, std::span<const std::string> printed) {
  if (shown.empty()) return printed.empty();
  if (shown[0] != "...") {
    return !printed.empty() && shown[0] == printed[0] && matches(shown.subspan(1), printed.subspan(1));
  }
  for (std::size_t skipped = 0; skipped <= printed.size(); ++skipped) {
    if (matches(shown.subspan(1), printed.subspan(skipped))) return true;
  }
  return false;
}

TEST(Readme, DotsStandForAnyLines) {
  const Lines printed = {"a", "b", "c", "d"};
  EXPECT_TRUE(matches(Lines{"a", "b", "c", "d"}, printed));
  EXPECT_TRUE(matches(Lines{"a", "...", "d"}, printed));
  EXPECT_TRUE(matches(Lines{"...", "c", "..."}, printed));
  EXPECT_FALSE(matches(Lines{"a", "...", "c"}, printed));
  EXPECT_FALSE(matches(Lines{"a", "c", "..."}, printed));
  EXPECT_FALSE(matches(Lines{}, printed));
}

// Commands of this build, "$ build/release/...", are run; others are not.
TEST(Readme, CommandsPrintWhatItShows) {
  const std::string prompt = "$ build/release/";
  int commands = 0;
  for (const Lines& block : blocks(lines_of(kRoot / "README.md"), "```console", "```")) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (!block[i].starts_with(prompt)) continue;
      ++commands;
      Lines shown;
      for (std::size_t j = i + 1; j < block.size() && !block[j].starts_with("$ "); ++j) shown.push_back(block[j]);
      const std::string printed = output_of(POLYHEAD_BUILD "/" + block[i].substr(prompt.size()));
      std::istringstream in(printed);
      EXPECT_TRUE(matches(shown, lines_of(in))) << block[i] << " prints\n" << printed;
    }
  }
  EXPECT_GT(commands, 0);
}

TEST(Documentation, LinksLeadSomewhere) {
  std::vector<fs::path> pages = {kRoot / "README.md", kRoot / "CONTRIBUTING.md"};
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const fs::path& page : pages) {
    for (const std::string& line : lines_of(page)) {
      for (std::size_t at = 0; (at = line.find("](", at)) != std::string::npos;) {
        at += 2;
        const std::string target = line.substr(at, line.find_first_of(")#", at) - at);
        if (target.empty() || target.starts_with("http")) continue;
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::house
