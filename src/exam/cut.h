// What comes of a model whose heads are taken out: a smaller one on disk, and what was saved.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "exam/subject.h"
#include "heads/pruning.h"

namespace polyhead::exam {

struct Facts {
  std::int64_t heads = 0, parameters = 0;
  std::int64_t bytes = 0;  // of the weights on disk
  // To read as many sequences; and, of a language model, to go on by a token of each after half of them. Medians.
  double seconds_of_one = 0, seconds_of_16 = 0;
  double step_of_one = 0, step_of_16 = 0;
  double accuracy = 0, loss = 0;  // of an encoder as in PruneStep
};
struct BeforeAndAfter {
  Facts before, after;
};

// The first `count` sequences of the first batch, over again if it has fewer: [count,T] tokens and their lengths.
Examples first_of(const std::vector<Examples>& examples, std::int64_t count);

// The two are timed by turns, so that what disturbs one disturbs the other, on the first sequence and on 16 of them.
// Throws Error (value) if the smaller one's loss is no number.
BeforeAndAfter compare(Context& context, model::Transformer& before, model::Transformer& after,
                       const std::vector<Examples>& examples);

// The heads that are left, by the names that they had before; in the order of all_heads of the smaller model.
std::vector<HeadId> left_of(const model::Config& whole, const std::vector<HeadId>& gone);

// Trains on, at a tenth of the rate that the model was trained with. Throws train::Diverged.
void fine_tune(Context& context, model::Transformer& model, const Subject& subject, std::int64_t steps,
               const std::function<void(const train::StepReport&)>& on_step);

// Into a folder that is there: config.json, model.safetensors, and run.json, so that other commands know the task. The
// files of a run that was there before go.
void save_cut(const model::Transformer& model, const train::Plan& plan, const std::filesystem::path& folder);
// What is left of a model that brings a tokenizer, `from` where it was: with tokenizer.json or tokenizer.gguf, and its
// end tokens in generation_config.json.
void save_cut(const model::Transformer& model, const std::filesystem::path& from, const std::filesystem::path& folder);

}  // namespace polyhead::exam
