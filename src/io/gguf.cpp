#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "core/memory.h"

namespace polyhead::io {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // metadata and the list of tensors
constexpr std::uint64_t kMaxTensors = std::uint64_t{1} << 17;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMaxAlignment = 1 << 20;
// The fewest bytes that an item takes: lengths, counts and offsets have 8, ranks and types 4.
constexpr std::uint64_t kLeastKey = 13, kLeastTensor = 24;

[[noreturn]] void refuse(const std::string& where, const std::string& message) {
  throw Error(ErrorCode::input, "gguf", where + ": " + message);
}

// Walks over the header, a window of the file at a time. Everything it reads must lie within the file and the limit.
class Scanner {
 public:
  Scanner(const Reader& file, std::string where)
      : file_(file), where_(std::move(where)), end_(std::min(file.size(), kMaxHeader)) {}

  std::uint64_t at() const { return at_; }

  [[noreturn]] void refuse(const std::string& what, const std::string& message) const {
    io::refuse(where_, "byte " + std::to_string(at_) + ": " + what + ": " + message);
  }

  // `count` items of at least `bytes` each must follow.
  void expect(std::uint64_t count, std::uint64_t bytes, const std::string& what) const {
    if (count <= (end_ - at_) / bytes) return;
    refuse(what,
           "expected " + std::to_string(count) + (bytes == 1 ? "" : " times at least " + std::to_string(bytes)) +
               " bytes more, found " + std::to_string(end_ - at_) +
               (end_ < file_.size() ? " before the longest header that is read ends" : " before the end of the file") +
               "; it may be cut short or damaged");
  }

  template <class Number>
  Number number(const std::string& what) {
    Number value;
    std::memcpy(&value, bytes(sizeof value, what), sizeof value);
    return value;
  }

  std::string text(const std::string& what) {
    const auto length = number<std::uint64_t>(what);
    const char* from = bytes(length, what);
    return {from, static_cast<std::size_t>(length)};
  }

 private:
  // The next `count` bytes; valid until the next call.
  const char* bytes(std::uint64_t count, const std::string& what) {
    expect(count, 1, what);
    if (at_ + count > window_at_ + window_.size()) {
      constexpr std::uint64_t kWindow = 1 << 16;
      window_.resize(std::min(std::max(count, kWindow), end_ - at_));
      window_at_ = at_;
      file_.read(at_, window_.data(), window_.size());
    }
    return window_.data() + (std::exchange(at_, at_ + count) - window_at_);
  }

  const Reader& file_;
  std::string where_;
  std::uint64_t end_, at_ = 0, window_at_ = 0;
  std::string window_;
};

template <class Number>
Json scan_number(Scanner& scan, const std::string& what) {
  return scan.number<Number>(what);
}
Json scan_flag(Scanner& scan, const std::string& what) {
  const auto flag = scan.number<std::uint8_t>(what);
  if (flag > 1) scan.refuse(what, "expected a bool of 0 or 1, found " + std::to_string(flag));
  return flag == 1;
}
Json scan_text(Scanner& scan, const std::string& what) { return scan.text(what); }

// By type number: how a value is read, and the fewest bytes that it takes. Lists (9) have no reader here: they do not
// nest.
struct ValueType {
  Json (*scan)(Scanner&, const std::string& what);
  std::uint64_t least;
};
constexpr std::uint32_t kList = 9;
constexpr ValueType kValueTypes[] = {
    {scan_number<std::uint8_t>, 1},
    {scan_number<std::int8_t>, 1},
    {scan_number<std::uint16_t>, 2},
    {scan_number<std::int16_t>, 2},
    {scan_number<std::uint32_t>, 4},
    {scan_number<std::int32_t>, 4},
    {scan_number<float>, 4},
    {scan_flag, 1},
    {scan_text, 8},
    {nullptr, 0},
    {scan_number<std::uint64_t>, 8},
    {scan_number<std::int64_t>, 8},
    {scan_number<double>, 8},
};

const ValueType& scan_type(std::uint32_t type, const Scanner& scan, const std::string& what) {
  if (type == kList) scan.refuse(what, "a list of lists, which no model has");
  if (type >= std::size(kValueTypes)) {
    scan.refuse(what, "type " + std::to_string(type) + " of a value; expected 0 to 12");
  }
  return kValueTypes[type];
}

Json scan_value(Scanner& scan, const std::string& what) {
  const auto type = scan.number<std::uint32_t>(what);
  if (type != kList) return scan_type(type, scan, what).scan(scan, what);
  const ValueType& item = scan_type(scan.number<std::uint32_t>(what), scan, what);
  const auto count = scan.number<std::uint64_t>(what);
  scan.expect(count, item.least, what);
  Json list = Json::array();
  list.get_ref<Json::array_t&>().reserve(static_cast<std::size_t>(count));
  for (std::uint64_t n = 0; n < count; ++n) list.push_back(item.scan(scan, what));
  return list;
}

Json scan_metadata(Scanner& scan, std::uint64_t count) {
  scan.expect(count, kLeastKey, "metadata");
  Json metadata = Json::object();
  auto& fields = metadata.get_ref<Json::object_t&>();
  std::set<std::string> keys;
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::string key = scan.text("key " + std::to_string(n) + " of " + std::to_string(count));
    const std::string what = "key " + in_quotes(key);
    if (!keys.insert(key).second) scan.refuse(what, "found twice");
    fields.emplace_back(key, scan_value(scan, what));
  }
  return metadata;
}

// The element types: numbers as they are, and blocks.
struct Format {
  std::uint32_t id;
  std::string_view name;
  std::int64_t elements, bytes;  // of a block, or 1 and those of a number
  DType dtype;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = [] {
    std::vector<Format> known{
        {0, "F32", 1, 4, DType::f32}, {1, "F16", 1, 2, DType::f16}, {30, "BF16", 1, 2, DType::bf16}};
    for (const BlockFormat& blocks : block_formats()) {
      known.push_back(
          {static_cast<std::uint32_t>(blocks.type), blocks.name, blocks.elements, blocks.bytes, DType::blocks});
    }
    return known;
  }();
  return all;
}

const Format& format_numbered(std::uint32_t id, const Scanner& scan, const std::string& what) {
  std::string known;
  for (const Format& format : formats()) {
    if (format.id == id) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  scan.refuse(what, "type " + std::to_string(id) + " is not among those that polyhead reads (" + known +
                        "); convert the file to one of them, for instance with llama-quantize");
}

std::int64_t bytes_of(const Dims& shape, const Format& format, const Scanner& scan, const std::string& what) {
  const std::int64_t row = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  if (row % format.elements != 0) {
    scan.refuse(what, std::string(format.name) + " " + to_string(shape) + ": expected rows of a multiple of " +
                          std::to_string(format.elements) + " elements");
  }
  std::int64_t blocks = row / format.elements, bytes = 0;
  bool overflow = false;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) overflow |= __builtin_mul_overflow(blocks, shape[axis], &blocks);
  if (overflow || __builtin_mul_overflow(blocks, format.elements * 8, &bytes)) {  // enough for any type in memory
    scan.refuse(what, "the bytes of " + to_string(shape) + " overflow 64 bits");
  }
  return blocks * format.bytes;
}

StoredTensor scan_tensor(Scanner& scan, const std::string& name) {
  const std::string what = "tensor " + in_quotes(name);
  const auto rank = scan.number<std::uint32_t>(what);
  if (rank > kMaxDims) scan.refuse(what, "rank " + std::to_string(rank) + "; expected at most 4");
  Dims shape(static_cast<int>(rank), 0);
  for (int axis = static_cast<int>(rank) - 1; axis >= 0; --axis) {
    const auto size = scan.number<std::uint64_t>(what);
    if (size == 0 || !std::in_range<std::int64_t>(size)) {
      scan.refuse(what, "a size of " + std::to_string(size) + "; expected 1 or more, in 63 bits");
    }
    shape[axis] = static_cast<std::int64_t>(size);
  }
  const Format& format = format_numbered(scan.number<std::uint32_t>(what), scan, what);
  const auto offset = scan.number<std::uint64_t>(what);
  const auto bytes = static_cast<std::uint64_t>(bytes_of(shape, format, scan, what));
  const bool blocks = format.dtype == DType::blocks;
  return {.name = name,
          .format = std::string(format.name),
          .dtype = blocks ? DType::f32 : format.dtype,
          .shape = shape,
          .offset = offset,
          .bytes = bytes,
          .blocks = blocks ? std::optional(static_cast<BlockType>(format.id)) : std::nullopt};
}

std::uint64_t alignment_of(const Json& metadata, const std::string& where) {
  const char* key = "general.alignment";
  if (!metadata.contains(key)) return 32;
  const auto alignment = static_cast<std::uint64_t>(read_integer(metadata, key, where, 1, kMaxAlignment));
  if (!std::has_single_bit(alignment)) {
    refuse(where, std::string(key) + ": expected a power of two, found " + std::to_string(alignment));
  }
  return alignment;
}

// Checks that the tensors follow one another, each at the next multiple of the alignment: no gap, no overlap, nothing
// after the last one but padding. Offsets in the data become offsets in the file.
void place(std::vector<StoredTensor>& tensors, std::uint64_t header_end, std::uint64_t alignment,
           std::uint64_t file_bytes, const std::string& where) {
  const auto aligned = [&](std::uint64_t at) { return (at + alignment - 1) / alignment * alignment; };
  const std::uint64_t data_at = aligned(header_end);
  std::uint64_t end = header_end;
  for (StoredTensor& tensor : tensors) {
    const std::uint64_t at = aligned(end);
    if (tensor.offset != at - data_at) {
      refuse(where, "tensor " + in_quotes(tensor.name) + ": begins at byte " + std::to_string(tensor.offset) +
                        " of the data, expected " + std::to_string(at - data_at));
    }
    if (at > file_bytes || tensor.bytes > file_bytes - at) {
      refuse(where, "tensor " + in_quotes(tensor.name) + ": " + tensor.format + " " + to_string(tensor.shape) +
                        " takes " + std::to_string(tensor.bytes) + " bytes from byte " + std::to_string(at) +
                        " on, and the file has " + std::to_string(file_bytes) + "; it may have been cut short");
    }
    tensor.offset = at;
    end = at + tensor.bytes;
  }
  if (file_bytes > aligned(end)) {
    refuse(where, std::to_string(file_bytes - end) + " bytes more than the tensors take; remove them from the end");
  }
}

void expect_version(std::uint32_t version, const std::string& where) {
  if (version == 2 || version == 3) return;
  const std::uint32_t swapped = __builtin_bswap32(version);
  if (swapped == 2 || swapped == 3) refuse(where, "big-endian; expected a little-endian file: convert it again");
  refuse(where, "version " + std::to_string(version) + " of GGUF; expected 2 or 3: convert the model again");
}

GgufHeader read_header(const Reader& file, const std::string& where) {
  Scanner scan(file, where);
  if (file.size() < 4 || scan.number<std::uint32_t>("magic number") != 0x46554747) {
    refuse(where, "expected \"GGUF\" at the beginning; it is not a GGUF file");
  }
  GgufHeader header{.where = where, .version = scan.number<std::uint32_t>("version"), .tensors = {}};
  expect_version(header.version, where);
  const auto tensors = scan.number<std::uint64_t>("number of tensors");
  const auto keys = scan.number<std::uint64_t>("number of keys");
  header.metadata = scan_metadata(scan, keys);
  header.metadata_end = scan.at();
  if (header.metadata.contains("split.count") && read_integer(header.metadata, "split.count", where, 0, 65535) > 1) {
    refuse(where, "one of several parts; join them first: llama-gguf-split --merge");
  }
  scan.expect(tensors, kLeastTensor, "tensors");
  if (tensors > kMaxTensors)
    refuse(where, std::to_string(tensors) + " tensors, expected at most " + std::to_string(kMaxTensors));
  std::set<std::string> names;
  for (std::uint64_t n = 0; n < tensors; ++n) {
    const std::string name = scan.text("name of tensor " + std::to_string(n) + " of " + std::to_string(tensors));
    if (!names.insert(name).second) scan.refuse("tensor " + in_quotes(name), "found twice");
    header.tensors.push_back(scan_tensor(scan, name));
  }
  place(header.tensors, scan.at(), alignment_of(header.metadata, where), file.size(), where);
  return header;
}

}  // namespace

GgufHeader read_gguf_header(const std::filesystem::path& path) { return read_header(Reader(path), path.string()); }

std::string gguf_metadata_alone(const std::filesystem::path& path) {
  constexpr std::size_t kTensorCount = 8;  // after the magic number and the version: the number of tensors, 8 bytes
  const Reader file(path);
  std::string bytes(static_cast<std::size_t>(read_header(file, path.string()).metadata_end), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes.replace(kTensorCount, sizeof(std::uint64_t), sizeof(std::uint64_t), '\0');
}

Tensor read_gguf_tensor(const Reader& file, const StoredTensor& stored) {
  Tensor tensor = Tensor::empty(stored.shape, stored.dtype);
  if (!stored.blocks) {
    file.read(stored.offset, tensor.view().data(), static_cast<std::size_t>(stored.bytes));
    return tensor;
  }
  const BlockFormat& format = format_of(*stored.blocks);
  constexpr std::uint64_t kBlocks = 1024;
  const auto block_bytes = static_cast<std::uint64_t>(format.bytes);
  std::vector<std::uint8_t> piece(kBlocks * block_bytes);
  float* to = tensor.as<float>();
  for (std::uint64_t done = 0; done < stored.bytes;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), stored.bytes - done);
    file.read(stored.offset + done, piece.data(), static_cast<std::size_t>(bytes));
    for (std::uint64_t at = 0; at < bytes; at += block_bytes, to += format.elements) format.widen(&piece[at], to);
    done += bytes;
  }
  return tensor;
}

void read_gguf_rows(const Reader& file, const StoredTensor& stored,
                    const std::function<void(std::int64_t, std::span<const std::uint8_t>)>& take) {
  constexpr std::int64_t kPiece = 1 << 20;
  const std::int64_t rows = stored.shape[0], bytes = format_of(*stored.blocks).row_bytes(stored.shape[1]);
  const std::int64_t at_once = std::max<std::int64_t>(1, kPiece / bytes);
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(std::min(rows, at_once) * bytes));
  for (std::int64_t begin = 0; begin < rows; begin += at_once) {
    const std::int64_t count = std::min(at_once, rows - begin);
    file.read(stored.offset + static_cast<std::uint64_t>(begin * bytes), piece.data(),
              static_cast<std::size_t>(count * bytes));
    for (std::int64_t n = 0; n < count; ++n)
      take(begin + n, {piece.data() + n * bytes, static_cast<std::size_t>(bytes)});
  }
}

Gguf read_gguf(const std::filesystem::path& path) {
  const Reader file(path);
  GgufHeader header = read_header(file, path.string());
  double bytes = 0;
  for (const StoredTensor& tensor : header.tensors) {
    bytes += static_cast<double>(count_of(tensor.shape)) * static_cast<double>(size_of(tensor.dtype));
  }
  expect_memory("gguf", header.where, bytes, "read it on a machine that has more");
  Gguf result;
  result.where = header.where;
  result.metadata = std::move(header.metadata);
  for (const StoredTensor& stored : header.tensors) {
    result.tensors.emplace_back(stored.name, read_gguf_tensor(file, stored));
  }
  return result;
}

}  // namespace polyhead::io
