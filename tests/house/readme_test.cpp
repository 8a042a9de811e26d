// README.md says nothing that is not so: its code is that of examples/embed.cpp, and its links lead somewhere. Its
// commands are run by readme_commands_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "house/pages.h"
#include "house/shell.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = POLYHEAD_ROOT;

TEST(Readme, CodeIsThatOfTheExample) {
  const auto shown = blocks(lines_of(kRoot / "README.md"), "```cpp", "```");
  const auto compiled = blocks(lines_of(kRoot / "examples/embed.cpp"), "// [readme]", "// [/readme]");
  ASSERT_EQ(compiled.size(), 1u) << "examples/embed.cpp needs one // [readme] and one // [/readme]";
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown[0], compiled[0]);
}

TEST(Makefile, InstallsIntoAFolderWithASpaceInItsName) {
  const std::string lines = output_of("make -n -C '" + kRoot.string() + "' install PREFIX='a b' 2>&1");
  EXPECT_NE(lines.find("--prefix \"a b\""), std::string::npos) << lines;
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
      if (const std::size_t at = line.find("src=\""); at != line.npos) {
        const std::string target = line.substr(at + 5, line.find('"', at + 5) - at - 5);
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " shows " << target;
      }
    }
  }
}

}  // namespace
}  // namespace polyhead::house
