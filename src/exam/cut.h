// What becomes of a model without some heads: a smaller one on disk, and what that saves.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "exam/subject.h"
#include "heads/pruning.h"
#include "model/transformers_folder.h"

namespace polyhead::exam {

struct Facts {
  std::int64_t heads = 0, parameters = 0;
  std::int64_t bytes = 0;  // of the weights on disk
  // Median times to read one or 16 sequences and, for a language model, to add a token to each after half its tokens.
  double seconds_of_one = 0, seconds_of_16 = 0;
  double step_of_one = 0, step_of_16 = 0;
  double accuracy = 0, loss = 0;  // for an encoder as in PruneStep
};
// Of the time after to that before, over repeats in turn: the 95 % interval of the median.
struct TimeRatio {
  double low = 0, high = 0;
  bool tells() const { return high < 1 || low > 1; }  // a difference
};
struct BeforeAndAfter {
  Facts before, after;
  TimeRatio of_one{}, of_16{}, step_of_one{}, step_of_16{};
};
TimeRatio ratio_of_medians(const std::vector<double>& before, const std::vector<double>& after);  // one by one

// The first `count` sequences of the first batch, repeated if it has fewer: [count,T] tokens and their lengths.
Examples first_of(const std::vector<Examples>& examples, std::int64_t count);

// The two are timed alternately, so that a disturbance hits both, on the first sequence and on 16 of them. Throws Error
// (value) if a loss is not finite.
BeforeAndAfter compare(Context& context, model::Transformer& before, model::Transformer& after,
                       const std::vector<Examples>& examples);

// The remaining heads under their old names, in the order of all_heads of the smaller model.
std::vector<HeadId> left_of(const model::Config& whole, const std::vector<HeadId>& gone);

// Continues training, at a tenth of the rate that the model was trained with. Throws train::Diverged.
void fine_tune(Context& context, model::Transformer& model, const Subject& subject, std::int64_t steps,
               const std::function<void(const train::StepReport&)>& on_step);

// Into an existing folder: config.json, model.safetensors, tokenizer.json, and run.json, so that other commands know
// the task. Removes the files of an earlier run.
void save_cut(const model::Transformer& model, const train::Plan& plan, const std::filesystem::path& folder);
// The same for a model with a tokenizer, loaded from `from`: with tokenizer.json or tokenizer.gguf, and its end tokens
// in generation_config.json.
void save_cut(const model::Transformer& model, const std::filesystem::path& from, const std::filesystem::path& folder);
// The same for transformers.
void save_cut(const model::TransformersFolder& made, const std::filesystem::path& folder);

}  // namespace polyhead::exam
