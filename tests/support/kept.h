// A text that is held to a file of tests/fixtures, line by line. A change that is meant is taken over by running the
// test once more with POLYHEAD_ACCEPT=1, which writes the file; its diff is there to be read.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace polyhead {

inline void expect_kept(const std::filesystem::path& file, const std::string& found) {
  if (std::getenv("POLYHEAD_ACCEPT") != nullptr) {
    std::ofstream out(file);
    out << found << std::flush;
    EXPECT_TRUE(out) << file << " cannot be written";
    return;
  }
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
  EXPECT_TRUE(same) << file << " differs from what there is now; if that is meant, POLYHEAD_ACCEPT=1 writes it";
}

}  // namespace polyhead
