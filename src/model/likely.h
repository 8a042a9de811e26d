// What a language model predicts after every token of a text, and a classifier for all of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/tape.h"

namespace polyhead::model {

struct Likely {
  std::int32_t token = 0;  // or class
  double probability = 0;
};

struct Expectations {
  std::vector<std::vector<Likely>> rows;  // [rows][most], likeliest first, ties by number
  std::vector<double> losses;             // [rows]: -ln of the probability of the row's target
};

// logits [1,T,V] or [1,V] on a tape, and a target for each of the rows (token t + 1 for row t; any for the last).
// Throws Error (value) if a loss is not finite.
Expectations expectations(autograd::Tape& tape, autograd::Variable logits, std::span<const std::int32_t> targets,
                          std::int64_t most);

}  // namespace polyhead::model
