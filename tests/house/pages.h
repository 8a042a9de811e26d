// The lines of documents, and the blocks in them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace polyhead::house {

using Lines = std::vector<std::string>;

inline Lines lines_of(std::istream& in) {
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline Lines lines_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << "cannot read " << file;
  return lines_of(in);
}

// The lines between the first that is `begin` and the next that is `end`.
inline std::vector<Lines> blocks(const Lines& lines, const std::string& begin, const std::string& end) {
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

}  // namespace polyhead::house
