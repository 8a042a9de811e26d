#include "io/sha256.h"

#include <gtest/gtest.h>

#include "io/scratch.h"

namespace polyhead::io {
namespace {

// As many letters a, and what sha256sum says of them; the lengths around which a block ends.
struct Letters {
  std::size_t count;
  std::string digits;
};
const Letters kLetters[] = {
    {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
    {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
    {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
    {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
    {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
    {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
    {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

TEST(Sha256, IsWhatOthersCompute) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (const Letters& letters : kLetters) EXPECT_EQ(sha256(std::string(letters.count, 'a')), letters.digits);
}

TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const Scratch scratch;
  std::string bytes;
  for (int i = 0; i < 3'000'001; ++i) bytes += static_cast<char>(i % 251);  // more than two pieces
  spill(scratch / "file", bytes);
  EXPECT_EQ(sha256_of(scratch / "file"), sha256(bytes));
  EXPECT_THROW(sha256_of(scratch / "nothing"), Error);
}

}  // namespace
}  // namespace polyhead::io
