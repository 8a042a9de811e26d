// A text that is held to a file of tests/fixtures, line by line. A change that is meant is made in the file too: where
// they differ, what there is now is written to the working folder, to be read and put in the file's place.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace polyhead {

inline void expect_kept(const std::filesystem::path& file, const std::string& found) {
  std::ifstream then(file);
  std::istringstream now(found);
  std::string line, expected;
  bool same = true;
  for (int number = 1; same && std::getline(now, line); ++number) {
    expected.clear();
    std::getline(then, expected);
    same = line == expected;
    EXPECT_EQ(line, expected) << file << ", line " << number;
  }
  same = same && !std::getline(then, expected);
  const std::filesystem::path to = std::filesystem::absolute(file.filename());
  EXPECT_TRUE(same) << file << " differs from what there is now, " << to;
  if (!same) std::ofstream(to) << found;
}

}  // namespace polyhead
