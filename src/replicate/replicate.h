// Published results about heads, looked for in models at hand.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "replicate/experiments.h"
#include "report/page.h"

namespace polyhead::replicate {

struct ReplicateOptions {
  std::filesystem::path folder;               // results are kept there, one file each
  std::vector<std::filesystem::path> models;  // each with its tokenizer
  std::vector<std::string> only;              // names of results; empty: all
  bool quick = false;
  std::function<void(const std::string& what, std::int64_t done, std::int64_t total)> on_result{};
  std::function<bool()> go_on{};  // asked before each result; once it says no, the rest is left out
};

// Beside the results, sequences/NAME.json has the tokens of the texts and repeats that most of a model's were measured
// on. In the order of experiments, and for each in that of the models. A result that the folder has, of the same
// weights and the same effort, is read and not looked for again; one that is damaged is. Throws Error (input) for a
// model that is not there or has no tokenizer, and for a name that no result has, before anything is computed.
std::vector<Result> replicate(Context& context, const ReplicateOptions& options);

const Published& published(const std::string& name);
report::Page page_of(const std::vector<Result>& results, bool quick);

}  // namespace polyhead::replicate
