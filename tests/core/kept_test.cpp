// What holds texts to their files.
#include "support/kept.h"

#include <gtest/gtest-spi.h>
#include <unistd.h>

namespace polyhead {
namespace {

class Kept : public ::testing::Test {
 protected:
  Kept() { unsetenv("POLYHEAD_ACCEPT"); }
  ~Kept() override {
    unsetenv("POLYHEAD_ACCEPT");
    std::filesystem::remove(file_);
  }

  // Whether the text is taken for what the file holds.
  bool passes(const std::string& text) const {
    ::testing::TestPartResultArray results;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(&results);
      expect_kept(file_, text);
    }
    return results.size() == 0;
  }
  std::string content() const {
    std::ifstream file(file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path file_ =
      std::filesystem::path(::testing::TempDir()) / ("polyhead_kept_" + std::to_string(getpid()) + ".txt");
};

TEST_F(Kept, EveryDifferenceIsFound) {
  std::ofstream(file_) << "one\ntwo\n";
  EXPECT_TRUE(passes("one\ntwo\n"));
  for (const char* other : {"one\n", "one\ntwo\nthree\n", "one\ntoo\n", "two\none\n", ""}) EXPECT_FALSE(passes(other));
  EXPECT_EQ(content(), "one\ntwo\n");
}

TEST_F(Kept, AChangeThatIsMeantIsWritten) {
  std::ofstream(file_) << "one\ntwo\nthree\n";
  setenv("POLYHEAD_ACCEPT", "1", 1);
  EXPECT_TRUE(passes("one\ntoo\n"));
  EXPECT_EQ(content(), "one\ntoo\n");
  unsetenv("POLYHEAD_ACCEPT");
  EXPECT_TRUE(passes("one\ntoo\n"));
  EXPECT_FALSE(passes("one\ntwo\nthree\n"));
  setenv("POLYHEAD_ACCEPT", "1", 1);
  std::filesystem::remove(file_);
  file_ /= "in_no_folder.txt";
  EXPECT_FALSE(passes("one\n")) << "what cannot be written is not accepted";
}

}  // namespace
}  // namespace polyhead
