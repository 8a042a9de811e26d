// Relations between words that the user knows, from a file: JSON lines, one link each,
//
//   {"tokens": "BOS today the king is old", "query": 4, "key": 3, "relation": "subject-verb"}
//
// The word at `query` depends on the one at `key`; both count from 0. Tokens are the words of the model's task with
// spaces between them, or the bytes of a text. Lines with the same tokens are links of one sequence.
#pragma once

#include <filesystem>
#include <vector>

#include "heads/probe.h"
#include "train/task.h"

namespace polyhead::exam {

// Refuses (input), with the number of the line, what is not so: unknown words, sequences that the context has no room
// for, places outside of them and, in a language model, a key that does not come before its query.
std::vector<heads::Probe> load_links(const std::filesystem::path& file, const train::Task& task);

}  // namespace polyhead::exam
