// Sequences to examine heads with, and the keys that show what a head looks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "polyhead/tensor.h"

namespace polyhead::heads {

// The key that a query's word is known to depend on; for a word of several tokens, the first one's key.
struct Relation {
  std::int64_t sequence = 0, query = 0, key = 0;
  std::string name;       // "subject-verb"
  std::int64_t keys = 1;  // how many tokens that word is
};

// The slots of `targets`, which hold keys for queries whose token has occurred exactly once before.
enum Slot : int {
  kDuplicate,  // that earlier occurrence of the same token
  kInduction,  // the token after it
  kOffByOne,   // the token after kInduction's: a control, which a detector that is off by one takes for induction
  kChance,     // a random key before the query: a control, for a head that looks anywhere
};

struct Probe {
  Tensor tokens;   // i32 [B,T]
  Tensor lengths;  // i32 [B] or absent
  // Keys that some heads look at whatever the text says. The first token of a sequence is a kind of its own and never
  // among them, a special token is never a separator.
  Tensor separators;  // bool [B,T]: punctuation, ends of lines, the separators of a task
  Tensor special;     // bool [B,T]: what the tokenizer calls special; absent if no sequence has any
  Tensor targets;     // i32 [B,T,4]: a key per slot, -1 for none
  std::vector<Relation> relations;
  int group = 0;  // of sequences that are alike, such as windows of one text
};

// A probe of given sequences.
Probe make_probe(const ConstTensorView& tokens, const ConstTensorView& lengths,
                 const std::vector<std::int32_t>& separators, std::uint64_t seed,
                 const std::vector<std::int32_t>& special = {});

struct RepeatProbe {
  std::vector<std::int32_t> alphabet{};   // tokens that may occur
  std::vector<std::int32_t> beginning{};  // what every sequence begins with; may be empty
  std::int64_t batch = 32, length = 64;
  std::int64_t shortest = 8, longest = 32;  // of the segment; equal ones make the control that fools naive tests
  std::uint64_t seed = 1;
};
// Random segments, each repeated to the end of its sequence: only looking back tells what comes next.
Probe make_repeats(const RepeatProbe& options);
// As many sequences as asked for, in probes of up to `batch`; segments take up to half of the length.
std::vector<Probe> make_repeats(RepeatProbe options, std::int64_t sequences);

// All that a model's heads are surveyed on.
struct Probes {
  std::vector<Probe> plain;          // sequences like those the model was trained on
  std::vector<Probe> repeats;        // random segments of ordinary tokens, of different lengths, repeated
  std::vector<std::int64_t> counts;  // [vocabulary]: how often each token occurs, to find the rarest that a row sees
  bool of_texts = false;             // plain ones are windows of texts, which differ more than the sequences of a task
};
// Adds the repeats: of tokens that occur and are not `special`. These have roles of their own and are never the rarest,
// so that they count as often as can be. What `repeats` leaves out is the alphabet.
void add_repeats(Probes& probes, const std::vector<std::int32_t>& special, RepeatProbe repeats, std::int64_t sequences);

}  // namespace polyhead::heads
