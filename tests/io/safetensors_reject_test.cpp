// Every way that a safetensors file can be wrong is an error that says so.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/scratch.h"

namespace polyhead::io {
namespace {

using Words = std::vector<std::string>;

void expect_file_refused(std::string_view bytes, Words words) {
  const Scratch scratch;
  spill(scratch / "some.safetensors", bytes);
  words.insert(words.begin(), "some.safetensors: ");
  expect_error(ErrorCode::input, words, [&] { return read_safetensors(scratch / "some.safetensors"); });
}

// With 8 bytes of data.
void expect_header_refused(const std::string& header, const Words& words) {
  SCOPED_TRACE(header.substr(0, 200));
  expect_file_refused(safetensors_bytes(header, std::string(8, '\0')), words);
}

// One tensor "t" with these fields.
void expect_tensor_refused(const std::string& fields, Words words) {
  words.insert(words.begin(), "\"t\"");
  expect_header_refused("{\"t\":{" + fields + "}}", words);
}

const std::string kGood = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(Reject, NothingFromTheGoodFile) {
  const Scratch scratch;
  spill(scratch / "a", safetensors_bytes(kGood + "   ", std::string(8, '\0')));
  EXPECT_EQ(read_safetensors(scratch / "a").take("t").shape(), (Dims{2}));
}

TEST(Reject, Lengths) {
  expect_file_refused("", {"at least 8 bytes, found 0"});
  expect_file_refused("1234567", {"at least 8 bytes, found 7"});
  expect_file_refused(std::string(8, '\0'), {"begin with '{'"});                // an empty header
  expect_file_refused(std::string(8, '\xff'), {"18446744073709551615 bytes"});  // longer than anything
  expect_file_refused(std::string("\x03\0\0\0\0\0\0\0{}", 10), {"at most 2"});  // longer than the file
  const std::string whole = safetensors_bytes(kGood, std::string(8, '\0'));
  for (std::size_t size = 0; size < whole.size(); ++size) expect_file_refused(whole.substr(0, size), {});
}

// A file with holes takes no room on the disk: the limit holds although the file is long enough.
TEST(Reject, HeaderBeyondTheLimit) {
  const Scratch scratch;
  const std::uint64_t length = 100'000'001;
  std::string start(8, '\0');
  std::memcpy(start.data(), &length, 8);
  spill(scratch / "a", start + "{");
  std::filesystem::resize_file(scratch / "a", length + 100);
  expect_error(ErrorCode::input, {"100000001 bytes", "at most 100000000"},
               [&] { return read_safetensors(scratch / "a"); });
}

TEST(Reject, HeadersThatAreNoJson) {
  expect_header_refused(" " + kGood, {"begin with '{'"});
  expect_header_refused("[1]", {"begin with '{'"});
  expect_header_refused("\xef\xbb\xbf" + kGood, {"begin with '{'"});  // a byte order mark
  expect_header_refused(kGood + "\n", {"end with '}'"});
  expect_header_refused(kGood + "\t ", {"end with '}'"});
  expect_header_refused(kGood + std::string(1, '\0'), {"end with '}'"});
  expect_header_refused(kGood + "x", {"end with '}'"});
  expect_header_refused(kGood + " {}", {"end of input"});
  expect_header_refused(kGood + std::string("\0}", 2), {"NUL"});
  expect_header_refused("{\"t\xff\":{}}", {"UTF-8"});
  expect_header_refused("{\"t\":}", {"syntax"});
  expect_header_refused("{'t':{}}", {"syntax"});
  expect_header_refused("{\"t\":{},}", {"syntax"});
  expect_header_refused("{" + std::string(100'000, '[') + "}", {"syntax"});
  expect_header_refused("{\"t\":" + std::string(100'000, '[') + "}", {"levels"});
}

TEST(Reject, DuplicateKeys) {
  const std::string tensor = R"("t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_header_refused("{" + tensor + "," + tensor + "}", {"duplicate key \"t\""});
  expect_header_refused(R"({"__metadata__":{},"__metadata__":{}})", {"duplicate"});
  expect_header_refused(R"({"__metadata__":{"a":"1","a":"1"}})", {"duplicate"});
  expect_header_refused(R"({"t":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})",
                        {"duplicate key \"shape\""});
}

TEST(Reject, Fields) {
  expect_tensor_refused(R"("shape":[2],"data_offsets":[0,8])", {"\"dtype\"", "no such key"});
  expect_tensor_refused(R"("dtype":"F32","data_offsets":[0,8])", {"\"shape\"", "no such key"});
  expect_tensor_refused(R"("dtype":"F32","shape":[2])", {"\"data_offsets\"", "no such key"});
  expect_tensor_refused(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"offset":0)", {"unknown key \"offset\""});
  expect_header_refused(R"({"t":[]})", {"\"t\"", "an object, found a list"});
  expect_header_refused(R"({"t":null})", {"\"t\"", "found null"});
}

TEST(Reject, Types) {
  for (const std::string dtype : {"F4", "F8_E4M3", "f32", "", "F32 ", "C64"}) {
    expect_tensor_refused("\"dtype\":\"" + dtype + R"(","shape":[2],"data_offsets":[0,8])",
                          {"dtype \"" + dtype + "\"", "F64, F32, F16, BF16, I32, BOOL", "convert"});
  }
  expect_tensor_refused(R"("dtype":4,"shape":[2],"data_offsets":[0,8])", {"\"dtype\"", "found 4"});
}

TEST(Reject, BoolsThatAreNeither) {
  expect_file_refused(safetensors_bytes(R"({"t":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
                      {"neither 0 nor 1"});
}

TEST(Reject, Shapes) {
  const auto shape = [](const std::string& text, const Words& words) {
    expect_tensor_refused(R"("dtype":"F32","data_offsets":[0,8],"shape":)" + text, words);
  };
  shape("2", {"list of whole numbers", "found 2"});
  shape("null", {"found null"});
  shape("[-2]", {"found -2"});
  shape("[2.0]", {"found 2.0"});
  shape("[\"2\"]", {"found \"2\""});
  shape("[[2]]", {"found a list"});
  shape("[9223372036854775808]", {"found 9223372036854775808"});
  shape("[1,1,1,1,1,1,2]", {"rank 7", "at most 6"});
  shape("[3]", {"takes 12 bytes"});
  shape("[4294967296,4294967296]", {"overflow"});
  shape("[4611686018427387904,2]", {"overflow"});    // 4 * 2^63 is 0 in 64 bits
  shape("[4294967296,4294967296,0]", {"overflow"});  // whatever the order
  expect_header_refused("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,8],\"shape\":[99999999999999999999]}}",
                        {"64 bits"});
}

TEST(Reject, Offsets) {
  const auto offsets = [](const std::string& text, const Words& words) {
    expect_tensor_refused(R"("dtype":"F32","shape":[2],"data_offsets":)" + text, words);
  };
  offsets("8", {"found 8"});
  offsets("[]", {"two data_offsets, found 0"});
  offsets("[8]", {"found 1"});
  offsets("[0,8,8]", {"found 3"});
  offsets("[-8,0]", {"found -8"});
  offsets("[0,8.0]", {"found 8.0"});
  offsets("[0,18446744073709551615]", {"found 18446744073709551615"});
  offsets("[8,0]", {"[8,0]"});
  offsets("[0,7]", {"takes 8 bytes", "[0,7]"});
  offsets("[0,9]", {"[0,9]"});
  offsets("[4,12]", {"begins at byte 4", "expected 0"});
  offsets("[9223372036854775799,9223372036854775807]", {"begins at byte"});
}

TEST(Reject, HolesOverlapsAndRests) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"BOOL","shape":)" + a + R"(},"b":{"dtype":"BOOL","shape":)" + b + "}}";
  };
  expect_header_refused(two(R"([3],"data_offsets":[0,3])", R"([4],"data_offsets":[4,8])"),
                        {"\"b\"", "at byte 4", "expected 3"});
  expect_header_refused(two(R"([5],"data_offsets":[0,5])", R"([4],"data_offsets":[4,8])"),
                        {"\"b\"", "at byte 4", "expected 5"});
  expect_header_refused(two(R"([8],"data_offsets":[0,8])", R"([8],"data_offsets":[0,8])"), {"at byte 0", "expected 8"});
  expect_header_refused(two(R"([8],"data_offsets":[0,8])", R"([0],"data_offsets":[4,4])"), {"at byte 4", "expected 8"});
  expect_header_refused(two(R"([8],"data_offsets":[0,8])", R"([0],"data_offsets":[9,9])"), {"at byte 9", "expected 8"});
  expect_header_refused(two(R"([8],"data_offsets":[0,8])", R"([1],"data_offsets":[8,9])"), {"take 9 bytes", "holds 8"});
  expect_header_refused(two(R"([1],"data_offsets":[0,1])", R"([3],"data_offsets":[1,4])"), {"4 bytes more"});
  expect_header_refused("{}", {"8 bytes more"});
}

TEST(Reject, Metadata) {
  const auto metadata = [](const std::string& text, const Words& words) {
    expect_header_refused(R"({"__metadata__":)" + text + "," + kGood.substr(1), words);
  };
  metadata("[]", {"__metadata__", "object"});
  metadata("null", {"__metadata__", "object"});
  metadata("\"text\"", {"__metadata__", "object"});
  metadata(R"({"a":1})", {"__metadata__", "\"a\"", "a string"});
  metadata(R"({"a":null})", {"\"a\""});
  metadata(R"({"a":{"b":"c"}})", {"\"a\""});
}

// 2^63 elements are refused before a byte is allocated, and so is a tensor of more than the file holds.
TEST(Reject, HugeTensorsInSmallFiles) {
  expect_header_refused(R"({"t":{"dtype":"BOOL","shape":[1099511627776],"data_offsets":[0,1099511627776]}})",
                        {"take 1099511627776 bytes", "holds 8", "cut short"});
}

// As large as it says: a file of holes, and no memory for it.
TEST(Reject, FilesThatMemoryCannotHold) {
  const Scratch scratch;
  const std::string header = R"({"t":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}    )";
  spill(scratch / "a", safetensors_bytes(header, ""));
  std::error_code error;
  std::filesystem::resize_file(scratch / "a", 8 + header.size() + (std::uintmax_t{1} << 42), error);
  if (error) return expect_error(ErrorCode::input, {"cut short"}, [&] { read_safetensors(scratch / "a"); });
  expect_error(ErrorCode::value, {"/a takes about 4.4 TB of memory"}, [&] { read_safetensors(scratch / "a"); });
}

TEST(Reject, TooManyTensors) {
  std::string header = "{";
  const int count = (1 << 17) + 1;
  header.reserve(std::size_t{count} * 60);
  for (int i = 0; i < count; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"BOOL","shape":[0],"data_offsets":[0,0]})";
  }
  expect_file_refused(safetensors_bytes(header + "}", ""), {"131073 tensors, expected at most 131072"});
}

TEST(Reject, FilesThatAreNotThere) {
  const Scratch scratch;
  expect_error(ErrorCode::io, {"No such file"}, [&] { return read_safetensors(scratch / "missing"); });
  expect_error(ErrorCode::input, {"regular file"}, [&] { return read_safetensors(scratch.folder()); });
}

}  // namespace
}  // namespace polyhead::io
