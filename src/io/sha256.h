// SHA-256 (FIPS 180-4), by which files that come from elsewhere are known.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace polyhead::io {

std::string sha256(std::string_view bytes);                // 64 digits, as sha256sum prints them
std::string sha256_of(const std::filesystem::path& file);  // of a plain file, read in pieces

}  // namespace polyhead::io
