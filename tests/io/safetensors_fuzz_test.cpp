// Thousands of spoilt files: each is refused with an Error, or is read and survives a round trip.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/scratch.h"
#include "support/bits.h"
#include "support/mutator.h"

namespace polyhead::io {
namespace {

std::string valid_file() {
  std::string data;
  for (int i = 0; i < 24; ++i) data += static_cast<char>(7 * i);
  data += std::string("\x2a\0\0\0\0\0\0\0\x80\x7f\xff\xff\1\0\1\0\1", 17);
  return safetensors_bytes(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("i":{"dtype":"I64","shape":[1],"data_offsets":[24,32]},)"
                           R"("h":{"dtype":"BF16","shape":[3],"data_offsets":[32,38]},)"
                           R"("b":{"dtype":"BOOL","shape":[3,1],"data_offsets":[38,41]},)"
                           R"("e":{"dtype":"F16","shape":[0],"data_offsets":[41,41]}}   )",
                           data);
}

void expect_round_trip(const Safetensors& read, const std::filesystem::path& path) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : read.tensors) named.push_back({name, tensor});
  write_safetensors(path, named, read.metadata);
  const Safetensors again = read_safetensors(path);
  EXPECT_EQ(again.metadata, read.metadata);
  ASSERT_EQ(again.tensors.size(), read.tensors.size());
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].first, read.tensors[i].first);
    EXPECT_TRUE(test::same_bits("tensor", again.tensors[i].second, read.tensors[i].second));
  }
}

TEST(SafetensorsFuzz, RefusedOrReadWhole) {
  const Scratch scratch;
  const std::string valid = valid_file();
  spill(scratch / "a", valid);
  ASSERT_NO_THROW(expect_round_trip(read_safetensors(scratch / "a"), scratch / "b"));
  test::Mutator mutate;
  int written = 0;
  test::expect_read_or_refused(4000, [&](int) {
    spill(scratch / "a", mutate(valid));
    const Safetensors read = read_safetensors(scratch / "a");
    if (written++ < 50) expect_round_trip(read, scratch / "b");
  });
}

}  // namespace
}  // namespace polyhead::io
