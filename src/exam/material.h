// What the heads of a model are examined with: sequences of its task that it was not trained on, or windows of a text,
// and random ones.
#pragma once

#include <cstdint>
#include <vector>

#include "exam/reading.h"
#include "heads/probe.h"
#include "model/score.h"
#include "train/task.h"

namespace polyhead::exam {

struct MaterialOptions {
  std::int64_t samples = 256;  // sequences of each kind
  std::int64_t batch = 32;
  std::uint64_t seed = 1;  // another seed gives other sequences
  bool sinks = false;      // for a text: also make windows to count sinks in
};

struct Material {
  // From the validation split or the text: to choose heads by, to decide when to stop, and to report the result. No
  // sequence is in two of them, whatever the seed.
  std::vector<Examples> ranking, judging, reporting;
  // The plain ones are the sequences of `ranking`, with the relations that the task knows; tokens are counted in
  // training, or in the text.
  heads::Probes probes;
  std::vector<Tensor> sinks;                           // i32 [B,64]: windows of a text to count sinks in
  std::shared_ptr<const text::Tokenizer> tokenizer{};  // of a model whose roles the standard probe finds
};

// Throws Error (value) if the task has too few different sequences.
Material make_material(const train::Task& task, const MaterialOptions& options = {});

// From a text: windows of `length` tokens, including those that the tokenizer puts around a text. They do not overlap,
// and every third belongs to the same part, whatever the seed. Throws Error (value) if the text is too short.
Material make_material(const Reading& reading, std::int64_t length, const MaterialOptions& options = {});

// How many windows a part of the text has.
std::int64_t windows_in_a_part(const Reading& reading, std::int64_t length);

// All of a text in such windows, the last of which may be shorter: every token but the first is a target once.
std::vector<Examples> all_windows(const Reading& reading, std::int64_t length, std::int64_t batch);

// In a language model two rows may look from a word to the one it depends on: the word's own, "subject-verb", and the
// one before, which predicts the word, "predicts subject-verb". Both are added. A classifier predicts no words: it has
// only the first.
void add_relations(const train::Task& task, std::int64_t sequence, const std::vector<train::Link>& links,
                   std::vector<heads::Relation>& to);

}  // namespace polyhead::exam
