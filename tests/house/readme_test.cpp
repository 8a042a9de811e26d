// Documents say nothing that is not so: the README's code is that of examples/embed.cpp, links lead somewhere, and
// sources that are named exist. The README's commands are run by readme_commands_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
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

std::string on_one_line(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string all, word;
  while (in >> word) all += (all.empty() ? "" : " ") + word;
  return all;
}

// The picture moves, is small, and says of itself what README.md says to those who do not see it.
TEST(Readme, PictureIsDescribedAsItIs) {
  std::ifstream in(kRoot / "docs/knock-out.png", std::ios::binary);
  const std::string png{std::istreambuf_iterator<char>(in), {}};
  EXPECT_LT(png.size(), 400'000u);
  const std::size_t frames = png.find("acTL"), key = png.find("iTXtDescription");
  ASSERT_TRUE(frames != png.npos && key != png.npos) << "written by tools/knock-out-picture?";
  EXPECT_GT(png[frames + 7], 5) << "frames";
  const std::size_t size = static_cast<unsigned char>(png[key - 2]) * 256u + static_cast<unsigned char>(png[key - 1]);
  const std::size_t before = std::string("Description").size() + 5;  // its end, and four fields without anything
  const std::string description = png.substr(key + 4 + before, size - before);
  EXPECT_GT(description.size(), 100u);
  EXPECT_NE(on_one_line(kRoot / "README.md").find("alt=\"" + description + "\""), std::string::npos) << description;
}

TEST(Makefile, InstallsIntoAFolderWithASpaceInItsName) {
  const std::string lines = output_of("make -n -C '" + kRoot.string() + "' install PREFIX='a b' 2>&1");
  EXPECT_NE(lines.find("--prefix \"a b\""), std::string::npos) << lines;
}

std::vector<fs::path> all_pages() {
  std::vector<fs::path> pages;
  for (const char* page : {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"})
    pages.push_back(kRoot / page);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

TEST(Documentation, LinksLeadSomewhere) {
  for (const fs::path& page : all_pages()) {
    for (const std::string& line : lines_of(page)) {
      for (std::size_t at = 0; (at = line.find("](", at)) != std::string::npos;) {
        at += 2;
        const std::string target = line.substr(at, line.find_first_of(")#", at) - at);
        if (target.empty() || target.starts_with("http")) continue;
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
      }
      for (const std::string attribute : {"src=\"", "srcset=\""}) {
        const std::size_t found = line.find(attribute), at = found + attribute.size();
        if (found == line.npos) continue;
        const std::string target = line.substr(at, line.find('"', at) - at);
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " shows " << target;
      }
    }
  }
}

// `src/cpu/gemm.cpp`, or shorter: `cpu/gemm.cpp`, `portable/decode.cuh`, `polyhead/model.h`.
TEST(Documentation, NamesSourcesThatExist) {
  const std::regex named(R"(`([\w.-]+(/[\w.-]+)+\.(h|c|cpp|cu|cuh|py|js|cmake|map))`)");
  int names = 0;
  for (const fs::path& page : all_pages()) {
    for (const std::string& line : lines_of(page)) {
      for (std::sregex_iterator at(line.begin(), line.end(), named), end; at != end; ++at, ++names) {
        const std::string name = (*at)[1];
        const auto exists = [&](const char* below) { return fs::exists(kRoot / below / name); };
        EXPECT_TRUE(exists("") || exists("src") || exists("src/cuda") || exists("include"))
            << page << " names " << name;
      }
    }
  }
  EXPECT_GT(names, 100);
}

// The map leads to every page of decisions.
TEST(Documentation, EveryDecisionIsFoundFromTheMap) {
  std::string map;
  for (const std::string& line : lines_of(kRoot / "docs/architecture.md")) map += line + "\n";
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "docs/decisions")) {
    const std::string link = "](decisions/" + entry.path().filename().string() + ")";
    EXPECT_NE(map.find(link), map.npos) << "docs/architecture.md does not link to " << entry.path();
  }
}

}  // namespace
}  // namespace polyhead::house
