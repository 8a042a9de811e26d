// Bytes as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace polyhead::report {

std::string base64(std::span<const std::uint8_t> bytes);

// "0fa9" -> {0x0f, 0xa9} in base64: browsers expect digests so, and CMake writes them in hexadecimal.
std::string base64_of_hex(std::string_view hex);

}  // namespace polyhead::report
