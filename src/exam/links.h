// Relations between words that the user knows, from a file: JSON lines, one link each. Of a model that polyhead trained
//
//   {"tokens": "BOS today the king is old", "query": 4, "key": 3, "relation": "subject-verb"}
//
// where tokens are the words of its task with spaces between them, or the bytes of a text, and places are those of
// tokens; of one that brings a tokenizer
//
//   {"text": "Today the king is old", "query": [15, 17], "key": [10, 14], "relation": "subject-verb"}
//
// with the first character of a word and the one behind its last. The word at `query` depends on the one at `key`; all
// count from 0. Lines with the same tokens are links of one sequence.
#pragma once

#include <filesystem>
#include <vector>

#include "exam/reading.h"
#include "heads/probe.h"
#include "model/config.h"
#include "train/task.h"

namespace polyhead::exam {

// Refuses (input), with the number of the line, what is not so: unknown words, sequences that the context has no room
// for, places outside of them and, in a language model, a key that does not come before its query.
std::vector<heads::Probe> load_links(const std::filesystem::path& file, const train::Task& task);

// A word may be several tokens: its row is then that of the last, or the one before the first if it is to be predicted,
// and all tokens of the key count. `reading` has what stands around every text.
std::vector<heads::Probe> load_links(const std::filesystem::path& file, const text::Tokenizer& tokenizer,
                                     const Reading& reading, const model::Config& config);

}  // namespace polyhead::exam
