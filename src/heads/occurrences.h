// Where induction and duplicate-token heads look, from the tokens alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace polyhead::heads {

// For every position the key that such a head attends to; -1 where the token is new.
struct Occurrences {
  std::vector<std::int32_t> duplicate;  // the last earlier occurrence of the same token
  std::vector<std::int32_t> induction;  // the token after that: duplicate + 1
};

// In a sequence that repeats a segment of different tokens, i - duplicate[i] is the segment's length.
Occurrences occurrences(std::span<const std::int32_t> tokens);

}  // namespace polyhead::heads
