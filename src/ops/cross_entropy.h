// Cross-entropy of logits against a class per row. Tensors are row-major, f32 or f64.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// The weight of a row's loss in the sum. all: the same for every row that has a target, so that the sum is the mean.
// sequences: the rows of each sequence of [B,T] weigh 1 together, so that each sequence gets its own gradient.
enum class Share { all, sequences };

struct CrossEntropy {
  double loss = 0;         // Share::all: the mean over the rows that count; sequences: the sum of the sequences' means
  std::int64_t count = 0;  // rows that count
};
// From the totals below. On a GPU this waits for them.
CrossEntropy read(Context& context, const ConstTensorView& totals);

// logits [..,V], targets i32 [..]: a negative one leaves its row out. losses [..]: of every row. shares [..]: receives
// the weight of each row. totals [2] f64: the loss and how many rows count. dlogits, if present, is the gradient of the
// loss; it may be the logits' own memory. target_scores [..,2], if present: the target's logit minus the mean of its
// row, and 1 if it is the first of the row's largest logits, else 0; both 0 for rows that are left out.
void cross_entropy(Context& context, const ConstTensorView& logits, const ConstTensorView& targets, Share share,
                   const TensorView& losses, const TensorView& shares, const TensorView& totals,
                   const TensorView& dlogits = {}, const TensorView& target_scores = {});

}  // namespace polyhead::ops
