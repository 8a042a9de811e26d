// Every #include of the tree against the table of rooms; and the table against trees that break it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "house/rooms.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;

const Table& table() {
  static const Table table = table_in(fs::path(POLYHEAD_ROOT) / "docs/architecture.md");
  return table;
}

TEST(Includes, FollowTheTableOfRooms) {
  const fs::path root = POLYHEAD_ROOT;
  ASSERT_TRUE(fs::exists(root / "src/core/team.h")) << "is this the tree? " << root;
  for (const std::string& line : violations(root, table())) ADD_FAILURE() << line;
}

TEST(Table, IsReadFromThePage) {
  EXPECT_GE(table().rooms.size(), 19u);
  EXPECT_EQ(table().levels.front(), Names{"export"});
  EXPECT_EQ(*table().level_of("heads") + 1, *table().level_of("polyhead"));
  EXPECT_EQ(table().room("cpu")->may_include, (Names{"core", "kernels"}));
  EXPECT_EQ(table().room("native")->may_include, Names{});
  EXPECT_EQ(table().room("core")->up_to, "context");
  EXPECT_EQ(table().room("viewer"), nullptr);
}

// The backends have names in one file of ops, and views are derived, not rebuilt from their data: a rebuilt one would
// lie about its device.
TEST(Sources, KnowNeitherBackendsNorRawViews) {
  const fs::path root = POLYHEAD_ROOT;
  const auto expect_none = [&](const fs::path& room, const std::regex& words, std::string_view but) {
    for (const fs::path& file : sources_below(root / "src" / room)) {
      if (file.filename() == but) continue;
      std::ifstream in(file);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        EXPECT_FALSE(std::regex_search(line.substr(0, line.find("//")), words))
            << file.lexically_relative(root) << ":" << number << ": " << line;
      }
    }
  };
  const std::regex rebuilt(R"(View\(\w+(\.view\(\))?\.data\(\), *\w)"), backends(R"(\b(cpu|cuda)::|\bteam\(\))");
  EXPECT_TRUE(std::regex_search("return TensorView(x.data(), x.dtype(), {M, C}, {C, 1});", rebuilt));
  for (const char* room : {"ops", "autograd", "model", "train", "heads"}) {
    expect_none(room, backends, "executors.cpp");
    expect_none(room, rebuilt, "");
  }
}

// PTX has a name where it stands; an empty asm, which only tells the compiler what it may not move, is none.
TEST(Sources, HavePtxInOnePlace) {
  const fs::path root = POLYHEAD_ROOT;
  const std::regex ptx(R"(\basm( volatile)?\(\s*"[^"])");
  EXPECT_FALSE(std::regex_search(R"(asm volatile("" ::: "memory");)", ptx));
  std::size_t named = 0;
  for (const fs::path& file : sources_below(root / "src/cuda")) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!std::regex_search(text, ptx)) continue;
    named += file.parent_path().filename() == "device" ? 1 : 0;
    EXPECT_EQ(file.parent_path().filename(), "device") << file.lexically_relative(root) << " has PTX";
  }
  EXPECT_GT(named, 0u);
}

// A tree that is made for one test and goes with it.
class FakeTree : public testing::Test {
 protected:
  FakeTree() { add("src/core/team.h", "#include <thread>\n#include <sys/types.h>\n"); }
  ~FakeTree() override { fs::remove_all(root_); }

  void add(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::vector<std::string> found() const { return violations(root_, table()); }

  void expect_found(const std::string& file, const std::string& text, const std::string& why) const {
    add(file, text);
    const std::vector<std::string> lines = found();
    ASSERT_EQ(lines.size(), 1u) << file << ": " << text;
    EXPECT_TRUE(file.starts_with(lines[0].substr(0, lines[0].find(':')))) << lines[0];
    EXPECT_NE(lines[0].find(why), std::string::npos) << lines[0];
    fs::remove(root_ / file);
    if (fs::is_empty((root_ / file).parent_path())) fs::remove((root_ / file).parent_path());
  }

 private:
  fs::path root_ = fs::temp_directory_path() / ("polyhead_house_" + std::to_string(getpid()));
};

TEST_F(FakeTree, AllowedOnesPass) {
  add("include/polyhead/tensor.h", "#include <array>\n#include \"polyhead/error.h\"\n");
  add("include/polyhead/polyhead.h", "#include \"polyhead/heads.h\"\n#include \"polyhead/attention.h\"\n");
  add("src/cpu/attention.cpp",
      "#include \"kernels/attention.h\"\n#include <hwy/highway.h>\n#include \"core/team.h\"\n");
  add("src/cpu/kernel-inl.h", "#include \"cpu/attention.cpp\"\n#include \"attention.cpp\"\n");
  add("src/ops/attention.cpp", "#include \"kernels/attention.h\"\n  #  include \"polyhead/layer.h\"  // why\n");
  add("src/serve/server.cpp", "#include <microhttpd.h>\n#include \"report/page.h\"\n");
  add("cli/main.cpp", "#include <CLI/CLI.hpp>\n#include \"study/study.h\"\n#include \"polyhead/polyhead.h\"\n");
  add("src/core/other.cpp", "// #include \"cpu/attention.h\"\n");
  EXPECT_EQ(found(), std::vector<std::string>{});
}

TEST_F(FakeTree, EveryKindOfViolationIsFound) {
  // Rooms.
  expect_found("src/core/x.cpp", "#include \"kernels/attention.h\"\n", "may not include kernels/");
  expect_found("src/cpu/x.cpp", "#include \"reference/attention.h\"\n", "may not include reference/");
  expect_found("src/cpu/x.cpp", "#include \"cuda/attention.h\"\n", "may not include cuda/");
  expect_found("src/cuda/x.cu", "#include \"cpu/attention.h\"\n", "may not include cpu/");
  expect_found("src/no_cuda/x.cpp", "#include \"cuda/attention.h\"\n", "may not include cuda/");
  expect_found("src/reference/x.cpp", "#include \"kernels/mask.h\"\n", "may not include kernels/");
  expect_found("src/ops/x.cpp", "#include \"cpu/attention.h\"\n", "may not include cpu/");
  expect_found("src/ops/x.cpp", "#include \"reference/attention.h\"\n", "may not include reference/");
  expect_found("src/io/x.cpp", "#include \"model/gpt.h\"\n", "may not include model/");
  expect_found("src/heads/x.cpp", "#include \"train/loop.h\"\n", "may not include train/");
  expect_found("cli/x.cpp", "#include \"reference/attention.h\"\n", "may not include reference/");
  expect_found("capi/x.cpp", "#include \"core/team.h\"\n", "may not include core/");
  expect_found("python/native/x.cpp", "#include \"capi/guard.h\"\n", "may not include capi/");
  expect_found("capi/x.cpp", "#include <Python.h>\n", "Python.h is not for this room");
  expect_found("src/attic/x.cpp", "", "no such room");
  expect_found("src/cuda/device/x.cuh", "#include \"cuda/launch.h\"\n", "nothing outside itself");
  // Ways around the table.
  expect_found("src/core/x.cpp", "#include <cpu/attention.h>\n", "may not include cpu/");
  expect_found("src/core/x.cpp", "#include \"../cpu/attention.h\"\n", "do not climb");
  expect_found("src/core/x.cpp", "\t#\tinclude \"cpu/attention.h\"\n", "may not include cpu/");
  expect_found("src/core/x.cpp", "#include \"nowhere.h\"\n", "no such file");
  // Public headers.
  expect_found("src/core/x.cpp", "#include \"polyhead/attention.h\"\n", "up to context.h");
  expect_found("src/cpu/x.cpp", "#include \"polyhead/polyhead.h\"\n", "up to attention.h");
  expect_found("src/cpu/x.cpp", "#include \"polyhead/secrets.h\"\n", "no such public header");
  expect_found("include/polyhead/tensor.h", "#include \"polyhead/attention.h\"\n", "not a lower level");
  expect_found("include/polyhead/layer.h", "#include \"polyhead/layer.h\"\n", "not a lower level");
  expect_found("include/polyhead/tensor.h", "#include \"core/team.h\"\n", "public and standard");
  expect_found("include/polyhead/tensor.h", "#include <hwy/highway.h>\n", "public and standard");
  expect_found("include/polyhead/secrets.h", "", "no level");
  // Libraries of others.
  expect_found("src/core/x.cpp", "#include <hwy/highway.h>\n", "not for this room");
  expect_found("src/core/x.cpp", "#include <Eigen/Dense>\n", "does not know");
}

}  // namespace
}  // namespace polyhead::house
