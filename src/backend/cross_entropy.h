// Cross-entropy of logits [M,V] against a class per row, with everything resolved. f32 or f64.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead::backend {

struct CrossEntropyProblem {
  ConstTensorView logits;          // [M,V] row-major
  ConstTensorView targets;         // i32 [M]; negative: the row does not count
  std::int64_t rows_together = 1;  // of every so many rows the mean counts: M, or the rows of a sequence
  TensorView shares;               // [M]: what a row's loss counts for, 1 / (rows that count, of its rows_together)
  TensorView losses;               // [M] -ln softmax(logits)[target], 0 where the row does not count
  TensorView totals;               // f64 [2]: the sum of shares * losses, and how many rows count
  TensorView dlogits;              // absent, or [M,V] = gradient of totals[0]; may be logits itself
  // Absent, or [M,2]: the target's logit above the mean of its row's, and 1 if it is the largest and the first of such,
  // else 0; 0 and 0 where the row does not count.
  TensorView looks;
};

}  // namespace polyhead::backend
