// Files: read whole or in pieces, and written so that others find the old file or the new one, never a part of it. If
// the system refuses, the error has the code `io` and names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace polyhead::io {

// An open file descriptor, closed by its owner's destructor.
class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int number() const noexcept { return number_; }

 private:
  int number_;
};

// Whether anything, or a folder, is there. If that cannot be known, an error says why: no permission, a dangling link.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The bytes of a file, or of a pipe; more than `limit` are an error (input).
std::string read_file(const std::filesystem::path& path, std::size_t limit);

// A file to be read in pieces. Nothing is mapped: a file that shrinks meanwhile causes an error, not a signal.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path);  // anything but a plain file is an error (input)
  std::uint64_t size() const noexcept { return size_; }
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

// Where the bytes of a new file go.
class Writer {
 public:
  Writer(int file, std::filesystem::path path) : file_(file), path_(std::move(path)) {}
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void flush();

 private:
  void write_through(const char* data, std::size_t bytes);

  int file_;
  std::filesystem::path path_;  // for messages
  std::string buffer_;
};

// Makes or replaces the file with what `fill` writes. It is on the disk before it takes the name; if anything fails,
// `fill` included, the old file is as it was and nothing is left behind. A link stays a link: its target is replaced.
void write_atomically(const std::filesystem::path& path, const std::function<void(Writer&)>& fill);

// Refuses a path where write_atomically could put no file, before the work for it is done.
void expect_writable(const std::filesystem::path& path);

// A file that grows at its end. What was appended is on the disk after sync.
class Appender {
 public:
  explicit Appender(const std::filesystem::path& path);
  void append(std::string_view text);
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

// A lock on a folder: one process at a time works in it, and a second one gets an error (io). The lock leaves no file
// behind and ends with the process, however that ends.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  Descriptor folder_;
};

// Removes the temporary files of processes that were killed in write_atomically. Nobody may be writing in the folder:
// lock it first.
void sweep_temporaries(const std::filesystem::path& folder);

// Makes the folder and its parents where they are missing. Refuses a folder in which no file can be made.
void make_folder(const std::filesystem::path& path);

// Refuses (input) a path that holds a file or, unless forced, a folder that is not empty.
void expect_new_folder(const std::filesystem::path& path, bool force);

}  // namespace polyhead::io
