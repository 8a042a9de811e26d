// Cross-entropy of logits [M,V] against a class per row, with everything resolved. f32 or f64.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::kernels {

struct CrossEntropyProblem {
  ConstTensorView logits;          // [M,V] row-major
  ConstTensorView targets;         // i32 [M]; negative: the row does not count
  std::int64_t rows_together = 1;  // rows whose losses are averaged: M, or the rows of a sequence
  TensorView shares;               // [M]: a row's factor in that mean, 1 / (rows that count among rows_together)
  TensorView losses;               // [M] -ln softmax(logits)[target], 0 where the row does not count
  TensorView totals;               // f64 [2]: the sum of shares * losses, and how many rows count
  TensorView dlogits;              // absent, or [M,V] = gradient of totals[0]; may be logits itself
  // Absent, or [M,2]: the target's logit minus the mean of its row, and 1 if it is the first of the row's largest
  // logits, else 0; both 0 where the row does not count.
  TensorView target_scores;
};

}  // namespace polyhead::kernels
