// Reads npy files of float64, row-major, as torch-fixtures and torch-losses write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "polyhead/tensor.h"

namespace polyhead::test {

inline Tensor read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[8];
  std::uint16_t length = 0;
  if (!file.read(magic, 8) || !file.read(reinterpret_cast<char*>(&length), 2)) {
    throw std::runtime_error("cannot read " + path.string());
  }
  std::string header(length, ' ');
  file.read(header.data(), length);
  if (header.find("'<f8'") == header.npos || header.find("'fortran_order': False") == header.npos) {
    throw std::runtime_error(path.string() + ": expected row-major float64, found " + header);
  }
  const std::size_t begin = header.find('(', header.find("'shape'")) + 1;
  std::istringstream sizes(header.substr(begin, header.find(')', begin) - begin));
  std::vector<std::int64_t> shape;
  for (std::string size; std::getline(sizes, size, ',');) {
    if (size.find_first_not_of(' ') != size.npos) shape.push_back(std::stoll(size));
  }
  Dims dims(static_cast<int>(shape.size()), 0);
  for (std::size_t i = 0; i < shape.size(); ++i) dims[static_cast<int>(i)] = shape[i];
  Tensor tensor = Tensor::empty(dims, DType::f64);
  file.read(reinterpret_cast<char*>(tensor.as<double>()), count_of(dims) * std::int64_t{8});
  if (!file) throw std::runtime_error(path.string() + ": shorter than its header says");
  return tensor;
}

}  // namespace polyhead::test
