#include "io/npy.h"

#include <string>
#include <vector>

#include "core/row_major.h"
#include "io/file.h"

namespace polyhead::io {
namespace {

std::string type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return "<f8";
    case DType::f32:
    case DType::bf16: return "<f4";
    case DType::f16: return "<f2";
    case DType::i32: return "<i4";
    case DType::i64: return "<i8";
    case DType::boolean: return "|b1";
    case DType::blocks: break;  // whose elements have no size, which the caller asks for first
  }
  return "";
}

// Magic number, version 1.0, length, a Python dict; the numbers begin at a multiple of 64.
std::string header_of(const ConstTensorView& tensor) {
  std::string dict = "{'descr': '" + type_of(tensor.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : tensor.shape()) dict += std::to_string(size) + ",";
  dict += "), }";
  constexpr std::size_t kBefore = 10;
  dict.resize((kBefore + dict.size() + 1 + 63) / 64 * 64 - kBefore - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace

void write_npy(const std::filesystem::path& path, const ConstTensorView& tensor) {
  if (!is_row_major(tensor) || tensor.device() != Device{}) {
    throw Error(ErrorCode::layout, "write_npy", "expected a row-major tensor of the host, found " + describe(tensor));
  }
  const auto count = static_cast<std::size_t>(tensor.count());
  write_atomically(path, [&](Writer& out) {
    out.write(header_of(tensor));
    if (tensor.dtype() != DType::bf16) return out.write(tensor.data(), count * size_of(tensor.dtype()));
    const bfloat16* numbers = tensor.as<bfloat16>();
    const std::vector<float> wide(numbers, numbers + count);
    out.write(wide.data(), count * sizeof(float));
  });
}

}  // namespace polyhead::io
