// Files are whole or not there: under failures of the disk, of the one who fills them, and of the power supply.
#include "io/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "io/scratch.h"

namespace polyhead::io {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, std::string_view text) {
  write_atomically(path, [&](Writer& out) { out.write(text); });
}

// Files may not grow beyond this many bytes while it lives.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) : signal_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  SizeLimit(const SizeLimit&) = delete;
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, signal_);
  }

 private:
  void (*signal_)(int);
  rlimit before_{};
};

TEST(ReadFile, WholeAndLimited) {
  const Scratch scratch;
  const std::string text(200'000, 'x');
  spill(scratch / "a", text);
  spill(scratch / "empty", "");
  EXPECT_EQ(read_file(scratch / "a", text.size()), text);
  EXPECT_EQ(read_file(scratch / "empty", 0), "");
  EXPECT_NE(read_file("/proc/self/status", 1 << 20), "");  // a file whose size the system gives as 0
  expect_error(ErrorCode::input, {"at most 199999 bytes"}, [&] { return read_file(scratch / "a", text.size() - 1); });
  expect_error(ErrorCode::input, {"at most 10 bytes"}, [&] { return read_file("/dev/zero", 10); });
  expect_error(ErrorCode::io, {"[read_file]", "missing", "No such file"},
               [&] { return read_file(scratch / "missing", 10); });
  expect_error(ErrorCode::io, {"Is a directory"}, [&] { return read_file(scratch.folder(), 10); });
}

TEST(Reader, PiecesOfPlainFiles) {
  const Scratch scratch;
  spill(scratch / "a", "0123456789");
  const Reader file(scratch / "a");
  EXPECT_EQ(file.size(), 10u);
  char part[4] = {};
  file.read(6, part, 4);
  EXPECT_EQ(std::string_view(part, 4), "6789");
  file.read(10, part, 0);
  expect_error(ErrorCode::input, {"ends at byte 10, expected 2 more"}, [&] { file.read(8, part, 4); });
  fs::resize_file(scratch / "a", 3);  // shrinks while it is open
  expect_error(ErrorCode::input, {"ends at byte 3"}, [&] { file.read(1, part, 4); });

  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  expect_error(ErrorCode::input, {"regular file"}, [&] { Reader{scratch / "pipe"}; });
  expect_error(ErrorCode::input, {"regular file"}, [&] { Reader{scratch.folder()}; });
  expect_error(ErrorCode::io, {"No such file"}, [&] { Reader{scratch / "missing"}; });
}

TEST(WriteAtomically, MakesAndReplaces) {
  const Scratch scratch;
  write_text(scratch / "a", "first");
  EXPECT_EQ(slurp(scratch / "a"), "first");
  std::string large;
  write_atomically(scratch / "a", [&](Writer& out) {
    for (int i = 0; i < 300; ++i) {
      const std::string piece(static_cast<std::size_t>(i * i), static_cast<char>('a' + i % 26));  // up to 89 kB
      out.write(piece);
      large += piece;
    }
  });
  EXPECT_EQ(slurp(scratch / "a"), large);
  write_text(scratch / "a", "");
  EXPECT_EQ(slurp(scratch / "a"), "");
  write_text(scratch / std::string(255, 'n'), "a long name");
  EXPECT_EQ(scratch.files(), 2);
}

TEST(WriteAtomically, KeepsPermissionsAndLinks) {
  const Scratch scratch;
  write_text(scratch / "a", "old");
  fs::permissions(scratch / "a", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", scratch / "link");
  write_text(scratch / "link", "new");
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_EQ(slurp(scratch / "a"), "new");
  EXPECT_EQ(fs::status(scratch / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("loop", scratch / "loop");
  expect_error(ErrorCode::io, {"loop"}, [&] { write_text(scratch / "loop", "x"); });
}

// It is there, which "No such file" would deny.
TEST(Links, ThatLeadNowhereAreNamed) {
  const Scratch scratch;
  fs::create_symlink("nothing", scratch / "link");
  const std::vector<std::string> says{"link: a link to nothing, where nothing is"};
  expect_error(ErrorCode::io, says, [&] { read_file(scratch / "link", 10); });
  expect_error(ErrorCode::io, says, [&] { Reader reader(scratch / "link"); });
  expect_error(ErrorCode::io, says, [&] { make_folder(scratch / "link"); });
  expect_error(ErrorCode::io, says, [&] { make_folder(scratch / "link" / "below" / "that"); });
}

TEST(WriteAtomically, RefusesWhatIsNoPlainFile) {
  const Scratch scratch;
  fs::create_directory(scratch / "folder");
  expect_error(ErrorCode::io, {"regular file"}, [&] { write_text(scratch / "folder", "x"); });
  expect_error(ErrorCode::io, {"regular file"}, [&] { write_text("/dev/null", "x"); });
  expect_error(ErrorCode::io, {"No such file"}, [&] { write_text(scratch / "missing" / "a", "x"); });
  spill(scratch / "file", "");
  expect_error(ErrorCode::io, {"Not a directory"}, [&] { write_text(scratch / "file" / "a", "x"); });
  EXPECT_EQ(scratch.files(), 2);
}

TEST(WriteAtomically, AFailedFillLeavesTheOldFile) {
  const Scratch scratch;
  write_text(scratch / "a", "old");
  EXPECT_THROW(write_atomically(scratch / "a",
                                [](Writer& out) {
                                  out.write(std::string(1 << 20, 'n'));
                                  throw std::runtime_error("no more");
                                }),
               std::runtime_error);
  EXPECT_EQ(slurp(scratch / "a"), "old");
  EXPECT_EQ(scratch.files(), 1);
}

// The limit falls inside a write, which comes back short, and the next one fails: as on a full disk.
TEST(WriteAtomically, AFullDiskLeavesTheOldFile) {
  const Scratch scratch;
  write_text(scratch / "a", "old");
  for (const std::size_t size : {10'000, 1'000'000}) {
    const SizeLimit limit(5'000);
    expect_error(ErrorCode::io, {"[write_file]", "cannot write it: File too large"},
                 [&] { write_text(scratch / "a", std::string(size, 'n')); });
  }
  EXPECT_EQ(slurp(scratch / "a"), "old");
  EXPECT_EQ(scratch.files(), 1);
}

// A child that writes version after version is killed at any moment: the file is one of them, and all of it.
TEST(WriteAtomically, AKillLeavesAWholeFile) {
  constexpr std::size_t kSize = 300'000;
  const Scratch scratch;
  const fs::path path = scratch / "a";
  std::string before(kSize, 'a');
  write_text(path, before);
  std::minstd_rand random(1);
  int changed = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int i = 0; i < 100'000; ++i) write_text(path, std::string(kSize, static_cast<char>('a' + (round + i) % 26)));
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string found = slurp(path);
    if (found != before) ++changed;
    before = found;
    ASSERT_EQ(found.size(), kSize);
    ASSERT_EQ(found.find_first_not_of(found[0]), std::string::npos);
  }
  EXPECT_GT(changed, 0);
}

TEST(Folders, AreMadeAndExpectedNew) {
  const Scratch scratch;
  const fs::path folder = scratch / "one" / "two";
  EXPECT_NO_THROW(expect_new_folder(folder, false));
  make_folder(folder);
  make_folder(folder);
  EXPECT_TRUE(fs::is_directory(folder));
  EXPECT_NO_THROW(expect_new_folder(folder, false));
  spill(folder / "file", "x");
  expect_error(ErrorCode::input, {"two", "not empty"}, [&] { expect_new_folder(folder, false); });
  EXPECT_NO_THROW(expect_new_folder(folder, true));
  expect_error(ErrorCode::input, {"found a file"}, [&] { expect_new_folder(folder / "file", true); });
  expect_error(ErrorCode::io, {"[make_folder]", "file"}, [&] { make_folder(folder / "file" / "below"); });
}

TEST(Folders, AreLockedForOneAtATime) {
  const Scratch scratch;
  {
    const FolderLock lock(scratch.folder());
    expect_error(ErrorCode::io, {scratch.folder(), "another process"}, [&] { FolderLock second(scratch.folder()); });
  }
  EXPECT_NO_THROW(FolderLock(scratch.folder()));
  EXPECT_EQ(scratch.files(), 0) << "a lock leaves nothing behind";
  expect_error(ErrorCode::io, {"none"}, [&] { FolderLock lock(scratch / "none"); });
}

TEST(Folders, AreSweptOfTemporariesOnly) {
  const Scratch scratch;
  const std::string name = ".polyhead-0123456789abcdef.tmp";
  for (const std::string& kept :
       {name + "x", "x" + name, std::string(".polyhead-0123456789ABCDEF.tmp"), std::string("file")}) {
    spill(scratch / kept, "x");
  }
  spill(scratch / name, "x");
  sweep_temporaries(scratch.folder());
  EXPECT_FALSE(fs::exists(scratch / name));
  EXPECT_EQ(scratch.files(), 4);
  expect_error(ErrorCode::io, {"none"}, [&] { sweep_temporaries(scratch / "none"); });
}

TEST(Appender, AddsAtTheEnd) {
  const Scratch scratch;
  const fs::path path = scratch / "log";
  Appender(path).append("one\n");
  Appender again(path);
  again.append("two\n");
  again.sync();
  EXPECT_EQ(slurp(path), "one\ntwo\n");
  expect_error(ErrorCode::io, {"none"}, [&] { Appender(scratch / "none" / "log"); });
}

}  // namespace
}  // namespace polyhead::io
