// Small models with random weights to serve: what they say is noise, but it is the same noise every time.
#pragma once

#include <filesystem>
#include <optional>

#include "exam/observer.h"
#include "heads/pruning.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace polyhead::serve {

inline model::Config small_config(model::Kind kind, std::int64_t context) {
  model::Config config = model::make_config(kind, 3, 32, 4);
  config.vocabulary = 400;  // of the tokenizers below
  config.context = context;
  return config;
}

// A folder with a model and one of the tokenizers of tests/fixtures.
inline void save_reader(const std::filesystem::path& folder, const model::Config& config, const char* tokenizer,
                        std::uint64_t seed = 7) {
  std::filesystem::create_directories(folder);
  model::save(model::Transformer(config, seed), folder);
  std::filesystem::copy_file(
      std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/tokenizers" / (std::string(tokenizer) + ".json"),
      folder / "tokenizer.json", std::filesystem::copy_options::overwrite_existing);
}

inline void save_language_model(const std::filesystem::path& folder) {
  save_reader(folder, small_config(model::Kind::gpt, 2100), "gpt2");
}

// Of the same shape, with other weights.
inline void save_other_language_model(const std::filesystem::path& folder) {
  save_reader(folder, small_config(model::Kind::gpt, 2100), "gpt2", 8);
}

// What is left of it without some heads.
inline const std::vector<HeadId> kPruned{{0, 1}, {1, 0}, {1, 3}};
inline void save_pruned_language_model(const std::filesystem::path& folder) {
  const model::Transformer whole(small_config(model::Kind::gpt, 2100), 7);
  save_reader(folder, small_config(model::Kind::gpt, 2100), "gpt2");
  model::save(*heads::without_heads(whole, kPruned), folder);
}

// As many heads as SmolLM2-135M has, which are much smaller.
inline void save_tall_language_model(const std::filesystem::path& folder) {
  model::Config config = model::make_config(model::Kind::gpt, 30, 36, 9);
  config.vocabulary = 400;
  config.context = 300;
  save_reader(folder, config, "gpt2");
}

inline void save_encoder(const std::filesystem::path& folder) {
  save_reader(folder, small_config(model::Kind::encoder, 96), "bert");
}

// Of the task classify, untrained.
inline void save_classifier(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  train::Plan plan = train::plan_for("classify");
  const std::unique_ptr<train::Task> task = train::make_task(plan.task);
  plan.model = model::make_config(model::Kind::classifier, 2, 32, 4);
  train::fit_to_task(plan.model, *task);
  model::save(model::Transformer(plan.model, 7), folder);
  train::save_plan(plan, folder);
}

// A model in a folder that goes with it, opened.
struct Opened {
  explicit Opened(void (*save)(const std::filesystem::path&)) {
    save(scratch / "model");
    observer.emplace(context, scratch / "model");
  }
  io::Scratch scratch;
  Context context{1};
  std::optional<exam::Observer> observer;
};

}  // namespace polyhead::serve
