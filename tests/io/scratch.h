// A folder of its own for a test, files made by hand, and errors that must come.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/error.h"

namespace polyhead::io {

// Gone with all that is in it when the test ends.
class Scratch {
 public:
  Scratch() : folder_((std::filesystem::temp_directory_path() / "polyhead-io-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path operator/(std::string_view name) const { return std::filesystem::path(folder_) / name; }
  const std::string& folder() const { return folder_; }
  int files() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }

 private:
  std::string folder_;
};

// By the standard library, so that what is tested does not test itself.
inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void spill(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::remove(path);  // some file systems wait for the disk when a file is cut to nothing and written again
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The Error that `call` throws must have this code and say all of `words`.
template <class Call>
void expect_error(ErrorCode code, const std::vector<std::string>& words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one that says " << (words.empty() ? "anything" : words.back());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << "'" << word << "' in: " << error.what();
    }
  }
}

// A safetensors file from its parts.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(data);
}

}  // namespace polyhead::io
