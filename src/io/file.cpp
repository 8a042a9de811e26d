#include "io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <random>
#include <system_error>

#include "polyhead/error.h"

namespace polyhead::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view op, const fs::path& path, std::string_view what, int code = errno) {
  throw Error(ErrorCode::io, op,
              path.string() + ": cannot " + std::string(what) + ": " + std::generic_category().message(code));
}

// Makes a system call, again if a signal interrupts it.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// What a path leads to; not_found if nothing is there.
fs::file_status status_at(std::string_view op, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    if (!fs::is_symlink(path, error)) return status;
    throw Error(ErrorCode::io, op,
                path.string() + ": a link to " + fs::read_symlink(path, error).string() +
                    ", where nothing is; fix the link or remove it");
  }
  if (!fs::status_known(status)) fail(op, path, "look at it", error.value());
  return status;
}

Descriptor open_file(std::string_view op, const fs::path& path, int flags) {
  const int file = uninterrupted([&] { return open(path.c_str(), flags | O_CLOEXEC); });
  if (file < 0) {
    const int code = errno;
    if (code == ENOENT) status_at(op, path);  // if it is a dangling link, say so
    fail(op, path, "open it", code);
  }
  return Descriptor(file);
}

struct stat status_of(std::string_view op, const fs::path& path, const Descriptor& file) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0) fail(op, path, "look at it");
  return status;
}

constexpr std::string_view kDigits = "0123456789abcdef", kPrefix = ".polyhead-", kSuffix = ".tmp";
constexpr std::size_t kRandomDigits = 16;

// ".polyhead-0123456789abcdef.tmp"
std::string temporary_name() {
  std::random_device random;
  std::string name(kPrefix);
  for (std::size_t i = 0; i < kRandomDigits; ++i) name += kDigits[random() % kDigits.size()];
  return name.append(kSuffix);
}

bool is_temporary(std::string_view name) {
  if (name.size() != kPrefix.size() + kRandomDigits + kSuffix.size()) return false;
  const std::string_view middle = name.substr(kPrefix.size(), kRandomDigits);
  return name.starts_with(kPrefix) && name.ends_with(kSuffix) && middle.find_first_not_of(kDigits) == middle.npos;
}

// A new file in the target's folder; the destructor removes it unless place() has given it the target's name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target)
      : target_(target),
        folder_(open_file("write_file", target.has_parent_path() ? target.parent_path() : ".", O_RDONLY | O_DIRECTORY)),
        name_(temporary_name()),
        file_(uninterrupted(
            [&] { return openat(folder_.number(), name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); })) {
    if (file_.number() < 0) fail("write_file", target_, "make a file beside it");
  }
  TemporaryFile(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!placed_ && file_.number() >= 0) unlinkat(folder_.number(), name_.c_str(), 0);
  }

  int file() const { return file_.number(); }
  void take_mode(mode_t mode) const {
    if (fchmod(file(), mode & 0777) != 0) fail("write_file", target_, "keep its permissions");
  }

  // Contents first, then the name, then the folder: after a crash the name never refers to half a file.
  void place() {
    if (uninterrupted([&] { return fsync(file()); }) != 0) fail("write_file", target_, "write it to the disk");
    const int folder = folder_.number();
    if (renameat(folder, name_.c_str(), folder, target_.filename().c_str()) != 0) {
      fail("write_file", target_, "put it in place");
    }
    placed_ = true;
    // Some file systems cannot fsync a folder.
    if (uninterrupted([&] { return fsync(folder); }) != 0 && errno != EINVAL) {
      fail("write_file", target_, "write its folder to the disk");
    }
  }

 private:
  fs::path target_;
  Descriptor folder_;
  std::string name_;
  Descriptor file_;
  bool placed_ = false;
};

// The file that a path leads to, and its mode if it is there. Only a plain file may be replaced: never /dev/null.
struct Target {
  fs::path path;
  std::optional<mode_t> mode;

  explicit Target(const fs::path& asked) : path(asked) {
    std::error_code error;
    if (fs::is_symlink(asked, error)) path = fs::weakly_canonical(asked, error);
    if (path.empty()) fail("write_file", asked, "follow the link", error.value());
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
      if (errno != ENOENT) fail("write_file", asked, "look at it");
      return;
    }
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::io, "write_file",
                  asked.string() + ": expected a regular file or none, found something else");
    }
    mode = status.st_mode;
  }
};

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

bool is_there(const fs::path& path) { return fs::exists(status_at("read_file", path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_at("read_file", path)); }

std::string read_file(const fs::path& path, std::size_t limit) {
  const Descriptor file = open_file("read_file", path, O_RDONLY);
  const auto size = static_cast<std::size_t>(std::max<off_t>(status_of("read_file", path, file).st_size, 0));
  std::string text;
  text.reserve(std::min(size, limit));
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t got = uninterrupted([&] { return read(file.number(), part.data(), part.size()); });
    if (got < 0) fail("read_file", path, "read it");
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) {
      throw Error(ErrorCode::input, "read_file",
                  path.string() + ": expected at most " + std::to_string(limit) + " bytes, found more");
    }
  }
}

// Non-blocking: opening a pipe would otherwise wait for a writer before we can refuse it.
Reader::Reader(const fs::path& path) : path_(path), file_(open_file("read_file", path, O_RDONLY | O_NONBLOCK)) {
  const struct stat status = status_of("read_file", path, file_);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::input, "read_file", path.string() + ": expected a regular file, found something else");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void Reader::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = uninterrupted([&] { return pread(file_.number(), at, bytes, static_cast<off_t>(offset)); });
    if (got < 0) fail("read_file", path_, "read it");
    if (got == 0) {
      throw Error(ErrorCode::input, "read_file",
                  path_.string() + ": ends at byte " + std::to_string(offset) + ", expected " + std::to_string(bytes) +
                      " more");
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

void Writer::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kBuffer = 1 << 16;
  const auto* from = static_cast<const char*>(data);
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes > kBuffer) return write_through(from, bytes);
  buffer_.append(from, bytes);
}

void Writer::flush() {
  write_through(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void Writer::write_through(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = uninterrupted([&] { return ::write(file_, data, bytes); });
    if (put <= 0) fail("write_file", path_, "write it", put == 0 ? EIO : errno);
    data += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void write_atomically(const fs::path& path, const std::function<void(Writer&)>& fill) {
  const Target target(path);
  TemporaryFile temporary(target.path);
  if (target.mode) temporary.take_mode(*target.mode);
  Writer writer(temporary.file(), path);
  fill(writer);
  writer.flush();
  temporary.place();
}

void expect_writable(const fs::path& path) {
  const Target target(path);
  const TemporaryFile probe(target.path);
}

Appender::Appender(const fs::path& path)
    : path_(path),
      file_(uninterrupted([&] { return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); })) {
  if (file_.number() < 0) fail("write_file", path, "open it");
}

void Appender::append(std::string_view text) {
  Writer writer(file_.number(), path_);
  writer.write(text);
  writer.flush();
}

void Appender::sync() {
  if (uninterrupted([&] { return fsync(file_.number()); }) != 0) fail("write_file", path_, "write it to the disk");
}

FolderLock::FolderLock(const fs::path& folder) : folder_(open_file("lock_folder", folder, O_RDONLY | O_DIRECTORY)) {
  if (uninterrupted([&] { return flock(folder_.number(), LOCK_EX | LOCK_NB); }) == 0) return;
  if (errno != EWOULDBLOCK) return;  // some file systems have no locks
  throw Error(ErrorCode::io, "lock_folder", folder.string() + ": another process is using this folder");
}

void sweep_temporaries(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (!is_temporary(entries->path().filename().string())) continue;
    std::error_code ignored;  // one that stays does no harm
    fs::remove(entries->path(), ignored);
  }
  if (error) fail("sweep_temporaries", folder, "look into it", error.value());
}

void make_folder(const fs::path& path) {
  for (fs::path at = path; at.has_relative_path(); at = at.parent_path()) status_at("make_folder", at);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail("make_folder", path, "make the folder", error.value());
  const TemporaryFile probe(path / "probe");  // removed at once; better to fail now than after hours of work
}

void expect_new_folder(const fs::path& path, bool force) {
  const fs::file_status status = status_at("make_folder", path);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) {
    throw Error(ErrorCode::input, "make_folder", path.string() + ": expected a folder or nothing, found a file");
  }
  std::error_code error;
  const bool empty = fs::is_empty(path, error);
  if (error) fail("make_folder", path, "look into it", error.value());
  if (!empty && !force) {
    throw Error(ErrorCode::input, "make_folder",
                path.string() + ": the folder is not empty; name another one, or write into it with --force");
  }
}

}  // namespace polyhead::io
