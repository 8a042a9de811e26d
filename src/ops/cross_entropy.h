// Cross-entropy of logits against a class per row. Tensors are row-major, f32 or f64.
#pragma once

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::ops {

// What a row's loss counts for. all: every row that has a target the same, so that the sum is the mean. sequences: the
// rows of one sequence [B,T] are worth 1 together, so that the gradient is each sequence's own.
enum class Share { all, sequences };

struct CrossEntropy {
  double loss = 0;         // share: all: the mean over the rows that count; sequences: the sum of the sequences' means
  std::int64_t count = 0;  // rows that count
};

// logits [..,V], targets i32 [..]: a negative one leaves its row out. losses [..]: of every row. shares [..]: scratch
// that ends up with what each row counted for. dlogits, if present, is the gradient of the loss; it may be the logits'
// own memory. looks [..,2], if present: the target's logit above the mean of its row's, and 1 if it is the largest and
// the first of such, else 0; 0 and 0 for rows that are left out.
CrossEntropy cross_entropy(Context& context, const ConstTensorView& logits, const ConstTensorView& targets, Share share,
                           const TensorView& losses, const TensorView& shares, const TensorView& dlogits = {},
                           const TensorView& looks = {});

}  // namespace polyhead::ops
