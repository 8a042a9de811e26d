// Sequences that are continued together, each until it ends.
#pragma once

#include <optional>
#include <vector>

#include "model/sample.h"
#include "text/stream.h"

namespace polyhead::model {

class Writing {
 public:
  Writing(Context& context, Model model, const std::vector<std::vector<std::int32_t>>& prompts, std::int64_t count,
          const Sampling& sampling, bool text);

  bool done() const noexcept;
  std::vector<Addition> next();
  void end(std::size_t prompt);

 private:
  struct Sequence {
    bool ended = false;
    std::optional<text::Stream> stream;  // if there is to be text
    text::Stops stops;
  };
  void say(Sequence& sequence, Addition& addition) const;

  Model model_;  // lives as long as this does
  Generator generator_;
  std::vector<std::int32_t> stop_;
  std::vector<Sequence> sequences_;
  std::int64_t left_;  // tokens for each sequence
};

}  // namespace polyhead::model
