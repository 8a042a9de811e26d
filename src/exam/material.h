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
  std::uint64_t seed = 1;  // other sequences for another seed
  bool sinks = false;      // of a text: windows to count sinks in, too
};

struct Material {
  // Of the validation split, or of the text. No sequence is in two of them, whatever the seed: to choose heads by, to
  // tell when to stop, and to say what came of it.
  std::vector<Examples> ranking, judging, reporting;
  std::vector<heads::Probe> plain;    // the sequences of `ranking`, with the relations that the task knows
  std::vector<heads::Probe> repeats;  // random segments of different lengths of ordinary tokens, repeated
  std::vector<std::int64_t> counts;   // [vocabulary]: how often each token occurs in training, or in the text
  std::vector<Tensor> sinks;          // i32 [B,64]: windows of a text to count sinks in
};

// Throws Error (value) if the task has too few different sequences.
Material make_material(const train::Task& task, const MaterialOptions& options = {});

// Of a text: windows of `length` tokens, what the tokenizer puts around a text among them. They lie side by side, and
// every third is of the same part, whatever the seed. Throws Error (value) if the text is too short.
Material make_material(const Reading& reading, std::int64_t length, const MaterialOptions& options = {});

// All of a text, in windows as above, the last of which may be shorter: every token but the first is a target once.
std::vector<Examples> all_windows(const Reading& reading, std::int64_t length, std::int64_t batch);

// A language model has two rows that may look from a word to the one that it depends on: that of the word itself,
// "subject-verb", and the one before, from which the word is predicted, "predicts subject-verb". Both are named. An
// encoder predicts nothing: it has the first alone.
void add_relations(const train::Task& task, std::int64_t sequence, const std::vector<train::Link>& links,
                   std::vector<heads::Relation>& to);

}  // namespace polyhead::exam
