// The layer with its heads on several ranks, forward. Each rank computes its heads; all heads are gathered, and each
// rank computes some columns of the output, which are gathered too. So every number is summed as in one process, and
// has its bits. On the CPU.
#pragma once

#include "core/ranks.h"
#include "polyhead/layer.h"

namespace polyhead::ops {

// What a rank has: query heads, the kv heads that they read, and columns of the output, each [first, last). As even as
// whole heads allow; a kv head whose query heads lie on two ranks is on both. There may be more ranks than heads.
struct HeadShare {
  std::int64_t first_head = 0, last_head = 0, first_kv = 0, last_kv = 0, first_column = 0, last_column = 0;
};
HeadShare share_of(const MultiHeadShape& shape, int rank, int size);

// Rows of the layer's weights that a share needs: W_Q [h*D,C], W_K and W_V [g*D,C], W_O [c,H*D]; biases to match, or
// absent. Views of a layer in one piece; a rank by itself holds no more than these.
struct SharedWeights {
  ConstTensorView q{}, k{}, v{}, out{}, q_bias{}, k_bias{}, v_bias{}, out_bias{};
};
SharedWeights weights_of(const MultiHeadShape& shape, const MultiHeadViews& whole, const HeadShare& share);

// multihead()'s output [B,T,C] of self-attention, on every rank, from x [B,T,C], the same on all. Masks, dropout and
// gates are those of the whole layer. Rotary and qk_norm are refused.
Tensor multihead_on_ranks(Context& context, Ranks& ranks, const MultiHeadShape& shape, const SharedWeights& weights,
                          const ConstTensorView& x, const MultiHeadOptions& options = {});

}  // namespace polyhead::ops
