// The tokenizer of a model, read from the model's files when it is first asked for.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>

#include "polyhead/text.h"

namespace polyhead::model {

class TokenizerOf {
 public:
  TokenizerOf(std::filesystem::path model, std::int64_t vocabulary)
      : model_(std::move(model)), vocabulary_(vocabulary) {}

  // Refuses (input) a model without one, or with one that has more tokens than the model.
  const Tokenizer& get();
  // Into the folder of a model that was saved; nothing if there is no tokenizer.
  void save(const std::filesystem::path& folder) const;

 private:
  std::filesystem::path model_;
  std::int64_t vocabulary_;
  std::mutex reading_;  // not once_flag: no exception gets through the C library's pthread_once in every program
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace polyhead::model
