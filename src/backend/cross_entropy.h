// Cross-entropy of logits [M,V] against a class per row, with everything resolved. f32 or f64.
#pragma once

#include "polyhead/tensor.h"

namespace polyhead {
class Team;
}

namespace polyhead::backend {

struct CrossEntropyProblem {
  ConstTensorView logits;   // [M,V] row-major
  ConstTensorView targets;  // i32 [M]; negative: the row does not count
  ConstTensorView shares;   // [M]: what a row's loss counts for
  TensorView losses;        // [M] -ln softmax(logits)[target], 0 where the row does not count
  TensorView dlogits;       // absent, or [M,V] = gradient of the sum of shares * losses; may be logits itself
};

}  // namespace polyhead::backend

namespace polyhead::cpu {

void cross_entropy(Team& team, const backend::CrossEntropyProblem& problem);

}  // namespace polyhead::cpu
