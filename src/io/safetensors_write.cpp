#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_format.h"

namespace polyhead::io {
namespace {

std::string_view format_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return "F64";
    case DType::f32: return "F32";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    case DType::i32: return "I32";
    case DType::i64: return "I64";
    case DType::boolean: return "BOOL";
    case DType::blocks: break;
  }
  return "";
}

std::uint64_t bytes_of(const ConstTensorView& tensor) {
  return static_cast<std::uint64_t>(tensor.count()) * size_of(tensor.dtype());
}

void expect_writable(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names = {kMetadataKey};
  for (const auto& [name, tensor] : tensors) {
    const auto refuse = [&, &own = name](ErrorCode code, const std::string& message) {
      throw Error(code, "write_safetensors", "tensor " + in_quotes(own) + ": " + message);
    };
    if (!names.insert(name).second) refuse(ErrorCode::value, "the name is taken; expected each name once");
    if (!tensor.present()) refuse(ErrorCode::value, "expected a tensor, found nothing");
    if (tensor.dtype() == DType::blocks) refuse(ErrorCode::dtype, "expected numbers, found blocks; widen them first");
    if (tensor.device() != Device{}) refuse(ErrorCode::device, "expected memory of the host");
    if (tensor.data() == nullptr && tensor.count() > 0) refuse(ErrorCode::layout, "its data pointer is null");
  }
}

// The order of the bytes: wide elements first, so that all are aligned; otherwise as given.
std::vector<std::size_t> order_of_data(const std::vector<NamedTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto width = [&](std::size_t i) { return size_of(tensors[i].tensor.dtype()); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return width(a) > width(b); });
  return order;
}

Json entry_of(const ConstTensorView& tensor, std::uint64_t begin) {
  Json shape = Json::array();
  for (const std::int64_t size : tensor.shape()) shape.push_back(size);
  Json entry;
  entry["dtype"] = format_of(tensor.dtype());
  entry["shape"] = std::move(shape);
  entry["data_offsets"] = {begin, begin + bytes_of(tensor)};
  return entry;
}

// JSON, and spaces until the data begin at a multiple of 8; no checksum yet.
std::string header_of(const std::vector<NamedTensor>& tensors, const std::vector<std::size_t>& order,
                      const Metadata& metadata) {
  std::vector<std::uint64_t> begin(tensors.size());
  std::uint64_t at = 0;
  for (const std::size_t i : order) begin[i] = std::exchange(at, at + bytes_of(tensors[i].tensor));

  Json header = Json::object();
  auto& fields = header.get_ref<Json::object_t&>();
  Metadata all = metadata;
  all[std::string(kChecksumKey)] = kNoChecksum;
  fields.emplace_back(kMetadataKey, std::move(all));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    fields.emplace_back(tensors[i].name, entry_of(tensors[i].tensor, begin[i]));
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::value, "write_safetensors", "names and metadata: expected UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeader) {
    throw Error(ErrorCode::value, "write_safetensors",
                "names and metadata make a header of " + std::to_string(text.size()) + " bytes, expected at most " +
                    std::to_string(kMaxHeader));
  }
  return text;
}

// Elements in row-major order, from the given axis on: put(pointer, bytes).
template <class Put>
void put_elements(const Put& put, const ConstTensorView& tensor, int axis, const std::byte* at) {
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype()));
  if (axis == tensor.rank()) return put(at, size_of(tensor.dtype()));
  if (axis == tensor.rank() - 1 && tensor.stride(axis) == 1) {
    return put(at, static_cast<std::size_t>(tensor.shape(axis) * element));
  }
  for (std::int64_t i = 0; i < tensor.shape(axis); ++i) {
    put_elements(put, tensor, axis + 1, at + i * tensor.stride(axis) * element);
  }
}

// The whole file, from front to back.
template <class Put>
void put_file(const Put& put, const std::string& header, const std::vector<NamedTensor>& tensors,
              const std::vector<std::size_t>& order) {
  const std::uint64_t length = header.size();
  put(&length, sizeof length);
  put(header.data(), header.size());
  for (const std::size_t i : order) {
    const ConstTensorView& tensor = tensors[i].tensor;
    if (tensor.count() > 0) put_elements(put, tensor, 0, static_cast<const std::byte*>(tensor.data()));
  }
}

}  // namespace

std::uint64_t safetensors_bytes(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  std::uint64_t bytes = sizeof(std::uint64_t) + header_of(tensors, order_of_data(tensors), metadata).size();
  for (const NamedTensor& named : tensors) bytes += bytes_of(named.tensor);
  return bytes;
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata) {
  expect_writable(tensors);
  const std::vector<std::size_t> order = order_of_data(tensors);
  std::string header = header_of(tensors, order, metadata);
  Checksum checksum;
  put_file([&](const void* data, std::size_t bytes) { checksum.add(data, bytes); }, header, tensors, order);
  header.replace(checksum_place(header), kNoChecksum.size(), checksum.digits());
  write_atomically(path, [&](Writer& out) {
    put_file([&](const void* data, std::size_t bytes) { out.write(data, bytes); }, header, tensors, order);
  });
}

}  // namespace polyhead::io
