// Sequences to look at heads with, and the keys that tell what a head is after.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead::heads {

// The key that a query's word depends on, as known beforehand; of a word of several tokens the first key.
struct Relation {
  std::int64_t sequence = 0, query = 0, key = 0;
  std::string name;       // "subject-verb"
  std::int64_t keys = 1;  // how many tokens that word is
};

// Which key of a query is in which slot of `targets`, for queries whose token has occurred once before.
enum Slot : int {
  kDuplicate,  // the same token, that other time
  kInduction,  // the token after that
  kOffByOne,   // the token after that one: a control, which a detector that is one off would take for induction
  kChance,     // any key before the query: a control, what a head without a plan would give
};

struct Probe {
  Tensor tokens;   // i32 [B,T]
  Tensor lengths;  // i32 [B] or absent
  Tensor marked;   // bool [B,T]: separators and the like
  Tensor targets;  // i32 [B,T,4]: a key per slot, -1 for none
  std::vector<Relation> relations;
};

// Of sequences as they are. `special`: tokens that count as marked.
Probe make_probe(const ConstTensorView& tokens, const ConstTensorView& lengths,
                 const std::vector<std::int32_t>& special, std::uint64_t seed);

struct RepeatProbe {
  std::vector<std::int32_t> alphabet{};   // tokens that may occur
  std::vector<std::int32_t> beginning{};  // what every sequence begins with; may be empty
  std::int64_t batch = 32, length = 64;
  std::int64_t shortest = 8, longest = 32;  // of the segment; the same for both makes the control that fools the naive
  std::uint64_t seed = 1;
};
// Random segments, each repeated to the end of its sequence: nothing but looking back says what comes.
Probe make_repeats(const RepeatProbe& options);
// As many sequences as asked for, in probes of up to `batch`; segments take up to half of the length.
std::vector<Probe> make_repeats(RepeatProbe options, std::int64_t sequences);

}  // namespace polyhead::heads
