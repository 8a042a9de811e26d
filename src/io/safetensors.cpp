#include "io/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "core/memory.h"
#include "io/checksum.h"
#include "io/json.h"
#include "io/safetensors_format.h"

namespace polyhead::io {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::input, "safetensors", where + ": " + message);
}

// Converts integers of another width to i32; false if one does not fit.
template <class From>
bool narrow(std::span<const std::byte> from, std::int32_t* to) {
  for (; !from.empty(); from = from.subspan(sizeof(From))) {
    From number;
    std::memcpy(&number, from.data(), sizeof(From));
    if (!std::in_range<std::int32_t>(number)) return false;
    *to++ = static_cast<std::int32_t>(number);  // NOLINT(bugprone-signed-char-misuse): an I8 is a number
  }
  return true;
}

struct Format {
  std::string_view name;                                                        // in the file
  std::int64_t bytes;                                                           // of an element there
  DType dtype;                                                                  // of the tensor that it becomes
  bool (*narrow)(std::span<const std::byte> from, std::int32_t* to) = nullptr;  // where the two differ
};

constexpr Format kFormats[] = {
    {"F64", 8, DType::f64},
    {"F32", 4, DType::f32},
    {"F16", 2, DType::f16},
    {"BF16", 2, DType::bf16},
    {"I32", 4, DType::i32},
    {"BOOL", 1, DType::boolean},
    {"I8", 1, DType::i32, narrow<std::int8_t>},
    {"U8", 1, DType::i32, narrow<std::uint8_t>},
    {"I16", 2, DType::i32, narrow<std::int16_t>},
    {"U16", 2, DType::i32, narrow<std::uint16_t>},
    {"U32", 4, DType::i32, narrow<std::uint32_t>},
    {"I64", 8, DType::i32, narrow<std::int64_t>},
    {"U64", 8, DType::i32, narrow<std::uint64_t>},
};

const Format& format_called(const std::string& name, const std::string& where) {
  std::string known;
  for (const Format& format : kFormats) {
    if (format.name == name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  refuse(where, "dtype " + in_quotes(name) + " is not among those that polyhead reads (" + known +
                    "); convert the tensor to one of them");
}

// One entry of the header; the tensor's bytes are [begin, end) of the data after it.
struct Entry {
  std::string name;
  const Format* format;
  Dims shape;
  std::int64_t begin, end;
};

// Like count_of, times the bytes of an element, but an overflow is an error of the file.
std::int64_t bytes_of(const Dims& shape, const Format& format, const std::string& where) {
  std::int64_t bytes = format.bytes;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size == 0) empty = true;
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) {
      refuse(where, "the bytes of " + to_string(shape) + " overflow 64 bits");
    }
  }
  return empty ? 0 : bytes;
}

Entry read_entry(const std::string& name, const Json& json, const std::string& file) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::string where = file + ": tensor " + in_quotes(name);
  expect_known_keys(json, {"dtype", "shape", "data_offsets"}, where);
  const Format& format = format_called(read_text(json, "dtype", where), where);

  const std::vector<std::int64_t> sizes = read_integers(json, "shape", where, 0, kMost);
  if (sizes.size() > kMaxRank) {
    refuse(where, "rank " + std::to_string(sizes.size()) + "; expected at most " + std::to_string(kMaxRank));
  }
  Dims shape(static_cast<int>(sizes.size()), 0);
  for (int axis = 0; axis < shape.rank(); ++axis) shape[axis] = sizes[static_cast<std::size_t>(axis)];

  const std::vector<std::int64_t> offsets = read_integers(json, "data_offsets", where, 0, kMost);
  if (offsets.size() != 2) refuse(where, "expected two data_offsets, found " + std::to_string(offsets.size()));
  const std::int64_t begin = offsets[0], end = offsets[1], bytes = bytes_of(shape, format, where);
  if (end < begin || end - begin != bytes) {
    refuse(where, std::string(format.name) + " " + to_string(shape) + " takes " + std::to_string(bytes) +
                      " bytes, but its data_offsets are [" + std::to_string(begin) + "," + std::to_string(end) + "]");
  }
  return {name, &format, shape, begin, end};
}

Metadata read_metadata(const Json& json, const std::string& file) {
  const std::string where = file + ": " + std::string(kMetadataKey);
  if (!json.is_object()) refuse(where, "expected an object of strings");
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) refuse(where, in_quotes(key) + ": expected a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The entries in the order of their data.
std::vector<std::size_t> order_of(const std::vector<Entry>& entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(entries[a].begin, entries[a].end) < std::tie(entries[b].begin, entries[b].end);
  });
  return order;
}

// Checks that the tensors follow one another from the first byte to the last: no gap, no overlap, nothing after them.
void expect_no_gaps(const std::vector<Entry>& entries, const std::vector<std::size_t>& order, std::int64_t data_bytes,
                    const std::string& where) {
  std::int64_t at = 0;
  for (const std::size_t n : order) {
    const Entry& entry = entries[n];
    if (entry.begin != at) {
      refuse(where, "tensor " + in_quotes(entry.name) + " begins at byte " + std::to_string(entry.begin) +
                        " of the data, expected " + std::to_string(at));
    }
    at = entry.end;
  }
  if (at > data_bytes) {
    refuse(where, "the tensors take " + std::to_string(at) + " bytes, but the file holds " +
                      std::to_string(data_bytes) + "; it may have been cut short");
  }
  if (at < data_bytes) {
    refuse(where, std::to_string(data_bytes - at) + " bytes more than the tensors take; remove them from the end");
  }
}

// The header's JSON, without the length before it.
std::string read_header(const Reader& file, const std::string& where) {
  if (file.size() < kLengthBytes) {
    refuse(where, "expected at least 8 bytes, found " + std::to_string(file.size()));
  }
  std::uint64_t length = 0;
  file.read(0, &length, sizeof length);
  const std::uint64_t most = std::min(kMaxHeader, file.size() - kLengthBytes);
  if (length > most) {
    refuse(where, "a header of " + std::to_string(length) + " bytes, expected at most " + std::to_string(most) +
                      "; it may not be a safetensors file, or be cut short");
  }
  std::string header(length, ' ');
  file.read(kLengthBytes, header.data(), header.size());
  if (!header.starts_with('{')) refuse(where, "the header does not begin with '{'");
  if (const std::size_t last = header.find_last_not_of(' '); header[last] != '}') {
    refuse(where, "the header does not end with '}' and spaces");
  }
  return header;
}

// Starts the file's checksum: the header's length, then the header with zeros in the checksum's place.
void begin_checksum(std::string header, Checksum& checksum) {
  const std::uint64_t length = header.size();
  checksum.add(&length, sizeof length);
  if (const std::size_t place = checksum_place(header); place != header.npos) {
    header.replace(place, kNoChecksum.size(), kNoChecksum);
  }
  checksum.add(header);
}

Tensor read_tensor(const Reader& file, const Entry& entry, std::uint64_t data_at, const std::string& where,
                   Checksum& checksum) {
  Tensor tensor = Tensor::empty(entry.shape, entry.format->dtype);
  const auto bytes = static_cast<std::size_t>(entry.end - entry.begin);
  const std::uint64_t at = data_at + static_cast<std::uint64_t>(entry.begin);
  if (entry.format->narrow != nullptr) {
    std::vector<std::byte> stored(bytes);
    file.read(at, stored.data(), bytes);
    checksum.add(stored.data(), bytes);
    if (!entry.format->narrow(stored, tensor.as<std::int32_t>())) {
      refuse(where, "tensor " + in_quotes(entry.name) + ": a number does not fit in 32 bits");
    }
    return tensor;
  }
  const auto* stored = static_cast<const unsigned char*>(tensor.view().data());
  file.read(at, tensor.view().data(), bytes);
  checksum.add(stored, bytes);
  // A C++ bool that is neither 0 nor 1 is undefined behaviour.
  if (entry.format->dtype == DType::boolean &&
      std::any_of(stored, stored + bytes, [](auto byte) { return byte > 1; })) {
    refuse(where, "tensor " + in_quotes(entry.name) + ": a BOOL that is neither 0 nor 1");
  }
  return tensor;
}

// All that is known before the first tensor is read.
struct Header {
  std::string text;
  std::vector<Entry> entries;
  std::vector<std::size_t> order;  // of their data
  Metadata metadata;

  std::uint64_t data_at() const { return kLengthBytes + text.size(); }
};

Header checked_header(const Reader& file, const std::string& where) {
  Header header{.text = read_header(file, where), .entries = {}, .order = {}, .metadata = {}};
  const Json json = parse_json(header.text, where + ": header");
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey) {
      header.metadata = read_metadata(value, where);
    } else {
      header.entries.push_back(read_entry(name, value, where));
    }
  }
  if (header.entries.size() > kMaxTensors)
    refuse(where, std::to_string(header.entries.size()) + " tensors, expected at most " + std::to_string(kMaxTensors));
  header.order = order_of(header.entries);
  expect_no_gaps(header.entries, header.order, static_cast<std::int64_t>(file.size() - header.data_at()), where);
  return header;
}

}  // namespace

std::vector<StoredTensor> list_safetensors(const std::filesystem::path& path) {
  const Reader file(path);
  const Header header = checked_header(file, path.string());
  std::vector<StoredTensor> tensors;
  for (const Entry& entry : header.entries) {
    tensors.push_back({entry.name, std::string(entry.format->name), entry.format->dtype, entry.shape,
                       header.data_at() + static_cast<std::uint64_t>(entry.begin),
                       static_cast<std::uint64_t>(entry.end - entry.begin)});
  }
  return tensors;
}

Tensor read_safetensors_tensor(const Reader& file, const StoredTensor& stored, const std::string& where) {
  Checksum unused;
  const auto bytes = static_cast<std::int64_t>(stored.bytes);
  const Entry entry{stored.name, &format_called(stored.format, where), stored.shape, 0, bytes};
  return read_tensor(file, entry, stored.offset, where, unused);
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  Safetensors result;
  result.where = path.string();
  const Reader file(path);
  Header header = checked_header(file, result.where);
  result.metadata = std::move(header.metadata);
  expect_memory("safetensors", result.where, static_cast<double>(file.size()), "read it on a machine that has more");
  Checksum checksum;
  begin_checksum(header.text, checksum);
  for (const Entry& entry : header.entries) result.tensors.emplace_back(entry.name, Tensor());
  for (const std::size_t n : header.order) {
    result.tensors[n].second = read_tensor(file, header.entries[n], header.data_at(), result.where, checksum);
  }
  const auto promised = result.metadata.find(std::string(kChecksumKey));
  if (promised == result.metadata.end()) return result;
  if (promised->second != checksum.digits()) {
    refuse(result.where, "the file is damaged: its checksum is " + checksum.digits() + ", and it says " +
                             in_quotes(promised->second) +
                             "; get a fresh copy, or, if it was changed on purpose, remove " +
                             std::string(kChecksumKey) + " from its metadata");
  }
  result.metadata.erase(promised);
  result.checked = true;
  return result;
}

}  // namespace polyhead::io
