// Relations between words that the user knows, from JSON lines, one link each. For a model that polyhead trained
//
//   {"tokens": "BOS today the king is old", "query": 4, "key": 3, "relation": "subject-verb"}
//
// where tokens are the words of its task, separated by spaces, or the bytes of a text, and places count tokens. For one
// with a tokenizer
//
//   {"text": "Today the king is old", "query": [15, 17], "key": [10, 14], "relation": "subject-verb"}
//
// with the first character of a word and the one after its last. The word at `query` depends on the one at `key`; all
// count from 0. Consecutive lines with the same tokens are links of one sequence.
#pragma once

#include <filesystem>
#include <vector>

#include "exam/reading.h"
#include "heads/probe.h"
#include "model/config.h"
#include "train/task.h"

namespace polyhead::exam {

// Refuses (input), with the line number, anything else: unknown words, sequences too long for the context, places
// outside of them and, in a language model, a key that does not come before its query.
std::vector<heads::Probe> load_links(const std::filesystem::path& file, const train::Task& task);

// A word may be several tokens: its row is that of the last one or, when the word is predicted, of the token before the
// first; all tokens of the key count. `reading` has the tokens around every text.
std::vector<heads::Probe> load_links(const std::filesystem::path& file, const text::Tokenizer& tokenizer,
                                     const Reading& reading, const model::Config& config);

}  // namespace polyhead::exam
