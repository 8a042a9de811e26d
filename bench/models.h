// A model, timed: "model:WHAT:PATH", PATH as polyhead loads models, or gpt,L,C,H for one with random weights. WHAT is
// encode,B,T (an encoder's output); prefill,T (reading a prompt, up to the logits of the next token); decode,S (the
// next token after S cached ones); plain,T and statistics,T (prefill without a cache, and with the statistics of every
// head); generate,N (N tokens one by one, with a cache) and regenerate,N (the same, reading all tokens again for each);
// load.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/decoding.h"

namespace polyhead::bench {

class ModelCase {
 public:
  // Throws std::invalid_argument for a name that it does not know.
  ModelCase(Context& context, const std::string& name);

  void call(Context& context);
  // The encoder's output [B,T,C]; the logits after the last token [1,V]; or the mean entropy of every head [L,H].
  const Tensor& result(Context& context);

 private:
  void pass(Context& context, const model::PassOptions& options, std::int64_t first, std::int64_t count);

  std::string what_;
  std::filesystem::path path_;
  std::int64_t batch_ = 1, length_ = 0;
  std::unique_ptr<model::Transformer> model_;
  std::unique_ptr<autograd::Tape> tape_;
  std::unique_ptr<model::KvCaches> caches_;
  std::vector<std::int32_t> tokens_;
  ConstTensorView output_;
  Tensor result_;
};

}  // namespace polyhead::bench
