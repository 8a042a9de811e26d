// Every way that a GGUF file can be wrong is an error that says so, and thousands of spoilt ones crash nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/scratch.h"
#include "support/mutator.h"

namespace polyhead::io {
namespace {

using Words = std::vector<std::string>;

// Bytes of a file, number by number.
struct Bytes {
  std::string all;

  template <class Number>
  Bytes& add(Number number) {
    all.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Bytes& u32(std::uint32_t number) { return add(number); }
  Bytes& u64(std::uint64_t number) { return add(number); }
  Bytes& text(std::string_view text) {
    u64(text.size());
    all += text;
    return *this;
  }
  Bytes& pad(std::size_t alignment) {
    all.resize((all.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  Bytes& zeros(std::size_t count) {
    all.append(count, '\0');
    return *this;
  }
};

constexpr std::uint32_t kU8 = 0, kU32 = 4, kBool = 7, kText = 8, kList = 9;
constexpr std::uint32_t kF32 = 0, kQ4_0 = 2;

Bytes start(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return Bytes{"GGUF"}.u32(version).u64(tensors).u64(keys);
}

// Tensors [2] of F32 at the offsets, in 32 bytes of data each.
std::string tensors_at(const std::vector<std::uint64_t>& offsets) {
  Bytes bytes = start(offsets.size(), 0);
  for (std::size_t n = 0; n < offsets.size(); ++n) {
    bytes.text(std::string(1, static_cast<char>('a' + n))).u32(1).u64(2).u32(kF32).u64(offsets[n]);
  }
  return bytes.pad(32).zeros(32 * offsets.size()).all;
}

void expect_refused(const std::string& bytes, Words words) {
  const Scratch scratch;
  spill(scratch / "some.gguf", bytes);
  words.insert(words.begin(), "some.gguf: ");
  expect_error(ErrorCode::input, words, [&] { return read_gguf(scratch / "some.gguf"); });
}

void expect_key_refused(const Bytes& key, const Words& words) { expect_refused(start(0, 1).all + key.all, words); }

// One tensor "t" with these fields behind its name, and 64 bytes of data.
void expect_tensor_refused(const Bytes& fields, Words words) {
  words.insert(words.begin(), "tensor \"t\"");
  Bytes bytes = start(1, 0).text("t");
  bytes.all += fields.all;
  expect_refused(bytes.pad(32).zeros(64).all, words);
}

TEST(GgufReject, NothingFromTheGoodFile) {
  const Scratch scratch;
  spill(scratch / "a", tensors_at({0, 32}));
  EXPECT_EQ(read_gguf(scratch / "a").take("b").shape(), (Dims{2}));
  spill(scratch / "a", start(0, 0).all);
  EXPECT_TRUE(read_gguf(scratch / "a").tensors.empty());
  // Longer than what is read of the file at a time, and behind something short.
  const std::string text = std::string(200'000, 'x') + "y";
  spill(scratch / "a", start(0, 2).text("short").u32(kU8).add('\1').text("long").u32(kText).text(text).all);
  EXPECT_EQ(read_gguf(scratch / "a").metadata.at("long"), text);
}

TEST(GgufReject, Beginnings) {
  expect_refused("", {"\"GGUF\" at the beginning"});
  expect_refused("GGU", {"\"GGUF\" at the beginning"});
  expect_refused("GGML" + std::string(20, '\0'), {"\"GGUF\" at the beginning"});
  expect_refused(start(0, 0, 1).all, {"version 1", "expected 2 or 3"});
  expect_refused(start(0, 0, 4).all, {"version 4"});
  expect_refused(start(0, 0, 0x03000000).all, {"big-endian"});
}

TEST(GgufReject, CountsBeyondTheFile) {
  expect_refused(start(~std::uint64_t{0}, 0).all, {"byte 24", "tensors", "18446744073709551615 times", "found 0"});
  expect_refused(start(0, ~std::uint64_t{0}).all, {"byte 24", "metadata", "18446744073709551615 times"});
  expect_refused(start(0, std::uint64_t{1} << 61).all, {"metadata"});
  expect_refused(start(1, 0).u64(~std::uint64_t{0}).zeros(64).all, {"name of tensor 0 of 1", "18446744073709551615"});
  expect_key_refused(Bytes().u64(1000).zeros(16), {"key 0 of 1", "byte 32", "1000 bytes more, found 16"});
  expect_key_refused(Bytes().text("k").u32(kText).u64(~std::uint64_t{0}), {"key \"k\"", "18446744073709551615"});
  expect_key_refused(Bytes().text("k").u32(kList).u32(kText).u64(std::uint64_t{1} << 61).zeros(64),
                     {"key \"k\"", "2305843009213693952 times at least 8"});
  expect_key_refused(Bytes().text("k").u32(kList).u32(kU8).u64(65).zeros(64), {"key \"k\"", "65 bytes more, found 64"});
}

TEST(GgufReject, Values) {
  expect_key_refused(Bytes().text("k").u32(13).zeros(8), {"key \"k\"", "type 13"});
  expect_key_refused(Bytes().text("k").u32(kBool).add('\2').zeros(8), {"key \"k\"", "0 or 1, found 2"});
  expect_key_refused(Bytes().text("k").u32(kList).u32(kList).u64(1).u32(kU8).u64(1).zeros(8), {"list of lists"});
  expect_key_refused(Bytes().text("k").u32(kList).u32(77).u64(1).zeros(8), {"type 77"});
  const std::string key = Bytes().text("k").u32(kU8).add('\1').all;
  expect_refused(start(0, 2).all + key + key, {"key \"k\"", "twice"});
  expect_key_refused(Bytes().text("split.count").u32(kU32).u32(3), {"several parts", "--merge"});
}

TEST(GgufReject, Alignment) {
  const auto aligned = [](std::uint32_t alignment) {
    return Bytes().text("general.alignment").u32(kU32).u32(alignment);
  };
  for (const std::uint32_t alignment : {0u, 2000000u, 0x80000000u}) {
    expect_key_refused(aligned(alignment), {"\"general.alignment\"", std::to_string(alignment)});
  }
  expect_key_refused(aligned(24), {"general.alignment", "power of two, found 24"});
  expect_key_refused(Bytes().text("general.alignment").u32(kText).text("32"),
                     {"\"general.alignment\"", "found \"32\""});
}

TEST(GgufReject, Tensors) {
  expect_tensor_refused(Bytes().u32(5).zeros(40).u32(kF32).u64(0), {"rank 5"});
  expect_tensor_refused(Bytes().u32(1).u64(0).u32(kF32).u64(0), {"size of 0"});
  expect_tensor_refused(Bytes().u32(1).u64(~std::uint64_t{0}).u32(kF32).u64(0), {"size of 18446744073709551615"});
  expect_tensor_refused(Bytes().u32(1).u64(2).u32(23).u64(0), {"type 23", "Q4_K", "llama-quantize"});
  expect_tensor_refused(Bytes().u32(1).u64(33).u32(kQ4_0).u64(0), {"Q4_0 [33]", "multiple of 32"});
  expect_tensor_refused(Bytes().u32(2).u64(std::uint64_t{1} << 32).u64(std::uint64_t{1} << 32).u32(kF32).u64(0),
                        {"overflow"});
  expect_tensor_refused(Bytes().u32(1).u64(17).u32(kF32).u64(0), {"F32 [17] takes 68 bytes", "cut short"});
  expect_tensor_refused(Bytes().u32(1).u64(std::uint64_t{1} << 58).u32(kF32).u64(0), {"takes 1152921504606846976"});
  expect_tensor_refused(Bytes().u32(1).u64(2).u32(kF32).u64(32), {"begins at byte 32", "expected 0"});
  const std::string tensor = Bytes().text("t").u32(1).u64(2).u32(kF32).u64(0).all;
  expect_refused(start(2, 0).all + tensor + tensor, {"tensor \"t\"", "twice"});
}

TEST(GgufReject, HolesOverlapsAndRests) {
  expect_refused(tensors_at({0, 0}), {"\"b\"", "at byte 0", "expected 32"});
  expect_refused(tensors_at({0, 64}), {"\"b\"", "at byte 64", "expected 32"});
  expect_refused(tensors_at({0, 8}), {"\"b\"", "at byte 8", "expected 32"});
  expect_refused(tensors_at({0, ~std::uint64_t{0} - 31}), {"\"b\"", "expected 32"});
  expect_refused(tensors_at({0}) + "x", {"25 bytes more"});
}

// A file of holes, larger than the limit of a header: the list is not longer than the file, but too long for us.
TEST(GgufReject, HeaderBeyondTheLimit) {
  const Scratch scratch;
  spill(scratch / "a", start(0, 1).text("k").u32(kList).u32(kU8).u64(100'000'001).all);
  std::filesystem::resize_file(scratch / "a", 100'001'000);
  expect_error(ErrorCode::input, {"key \"k\"", "100000001 bytes more", "longest header"},
               [&] { return read_gguf_header(scratch / "a"); });
}

TEST(GgufReject, EveryTruncation) {
  const std::string whole = tensors_at({0, 32});
  const std::size_t least = whole.size() - 24;  // the padding behind the last tensor may be missing
  const Scratch scratch;
  for (std::size_t size = 0; size < least; ++size) {
    spill(scratch / "a", whole.substr(0, size));
    expect_error(ErrorCode::input, {}, [&] { return read_gguf(scratch / "a"); });
  }
  spill(scratch / "a", whole.substr(0, least));
  EXPECT_NO_THROW(read_gguf(scratch / "a"));
}

TEST(GgufReject, SpoiltFilesAreRefusedOrReadWhole) {
  const Scratch scratch;
  const std::filesystem::path path = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/gguf/types.gguf";
  const std::string valid = slurp(path);
  const std::size_t header = read_gguf_header(path).tensors[0].offset;
  test::Mutator mutate;
  test::expect_read_or_refused(4000, [&](int) {
    spill(scratch / "a", mutate(valid.substr(0, header)) + valid.substr(header));
    read_gguf(scratch / "a");
  });
}

}  // namespace
}  // namespace polyhead::io
