// Thousands of spoilt files: each is refused with an Error, or is read and survives a round trip.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/scratch.h"
#include "support/bits.h"

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

// Changes a few bytes, or repeats, drops or moves a piece.
class Mutator {
 public:
  std::string operator()(std::string bytes) {
    for (auto changes = 1 + random_() % 3; changes > 0; --changes) change(bytes);
    return bytes;
  }

 private:
  void change(std::string& bytes) {
    static constexpr char kTelling[] = "{}[]\",:0123456789-.eE \\\0\xff\x80nt";
    const std::size_t at = below(bytes.size());
    switch (random_() % 6) {
      case 0: bytes[at] = static_cast<char>(random_()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8)); break;
      case 2: bytes[at] = kTelling[below(sizeof kTelling)]; break;
      case 3: bytes.erase(at, below(12)); break;
      case 4: bytes.insert(at, bytes.substr(below(bytes.size()), below(40))); break;
      default: bytes.insert(at, 1, kTelling[below(sizeof kTelling)]); break;
    }
  }
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  std::minstd_rand random_{20260729};
};

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
  Mutator mutate;
  int refused = 0, accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string mutant = mutate(valid);
    spill(scratch / "a", mutant);
    try {
      const Safetensors read = read_safetensors(scratch / "a");
      if (accepted++ < 50) expect_round_trip(read, scratch / "b");
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::input) << error.what();
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace polyhead::io
