// Weights that are finite, or not, and make a model that computes no numbers.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "io/scratch.h"

namespace polyhead::cli {

// Writes an f32 number over element 4 of a tensor, without the file's checksum.
inline void plant(const std::filesystem::path& file, const std::string& tensor, float number) {
  std::string bytes = io::slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  nlohmann::ordered_json header = nlohmann::ordered_json::parse(bytes.substr(8, length));
  const std::size_t begin = 8 + length + header[tensor]["data_offsets"][0].get<std::size_t>();
  std::memcpy(bytes.data() + begin + 4 * sizeof number, &number, sizeof number);
  header.erase("__metadata__");
  io::spill(file, io::safetensors_bytes(header.dump(), bytes.substr(8 + length)));
}

}  // namespace polyhead::cli
