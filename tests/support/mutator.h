// Spoils files and texts, for tests of what reads them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "polyhead/error.h"

namespace polyhead::test {

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

// read(round) reads something spoilt: it must succeed, or throw an Error with the code `input` or `also`. Both must
// happen often, or the test says little.
template <class Read>
void expect_read_or_refused(int rounds, const Read& read, ErrorCode also = ErrorCode::input) {
  int refused = 0, accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    try {
      read(round);
      ++accepted;
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(error.code() == ErrorCode::input || error.code() == also) << error.what();
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 100);
}

}  // namespace polyhead::test
