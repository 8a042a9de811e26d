// The layer, checked and laid out: which projections share an input, which rows of which weight they use, and where
// heads lie in their results.
#pragma once

#include <vector>

#include "kernels/rotary.h"
#include "ops/call.h"
#include "ops/check.h"
#include "polyhead/layer.h"

namespace polyhead::ops {

enum Part : int { kQuery, kKey, kValue };

// Projections that read the same input are one product.
struct ProjectionGroup {
  Part first;
  int parts;
  ConstTensorView input;         // [B,L,K]
  ConstTensorView weight, bias;  // [N,K]; [N] or absent
  std::int64_t columns;          // N
};
inline ScratchSlot scratch_of_group(std::size_t group) {
  return static_cast<ScratchSlot>(static_cast<std::size_t>(ScratchSlot::group_0) + group);
}

struct MultiHeadPlan {
  // Throws Error if anything does not fit. Weights that share an input but not their memory are stacked in scratch
  // memory.
  MultiHeadPlan(std::string_view op, const Call& call, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                const MultiHeadInputs& inputs);

  MultiHeadShape shape;  // resolved
  DType dtype;
  std::int64_t batch, queries, keys;
  std::int64_t part_rows[3];  // H*D, G*D, G*D: rows of W_Q, W_K, W_V
  std::vector<ProjectionGroup> groups;
  ConstTensorView out_weight, out_bias;
  Op op;
  std::shared_ptr<Allocator> memory;
  std::vector<ConstTensorView> read;  // every tensor that the call reads: inputs and parameters, and what callers add

  std::int64_t inner() const { return part_rows[kQuery]; }  // H*D
  Dims buffer_shape(const ProjectionGroup& group) const;    // [B,L,N]
  // A part of its group's buffer as heads: [B,H,T,D] or [B,G,S,D].
  template <class View>
  View heads_of(const View& buffer, const ProjectionGroup& group, int part) const {
    std::int64_t begin = 0;
    for (int before = group.first; before < part; ++before) begin += part_rows[before];
    const std::int64_t count = part == kQuery ? shape.heads : shape.kv_heads;
    return buffer.slice(2, begin, begin + part_rows[part]).split(2, count).transpose(1, 2);
  }
  // Further tensors that the call reads.
  void reads(const std::vector<ConstTensorView>& more) { read.insert(read.end(), more.begin(), more.end()); }
  // A tensor of this shape that has no memory yet, for checks of shapes.
  TensorView stand_in(const Dims& shape) const;
  // Refuses a tensor that is about to be written or released if it overlaps one of those in `read`.
  void expect_apart(std::string_view name, const ConstTensorView& result) const;
  // The tensor, allocated again unless it has this shape and type already. If not `wanted`, it is released.
  TensorView place(Tensor& tensor, const Dims& shape, DType type, bool wanted = true) const;

  // Rotary of q and k in place, forwards or backwards; nothing if there is none.
  std::vector<kernels::RotaryProblem> rotations(const MultiHeadOptions& options, const TensorView& q,
                                                const TensorView& k, bool backwards) const;

  // [B,T,H*D] as [B,H,T,D].
  template <class View>
  View as_heads(const View& merged) const {
    return merged.split(2, shape.heads).transpose(1, 2);
  }
};

// q, k and v, or their gradients: a buffer [B,L,N] per group, and the parts in it as heads.
struct ProjectionBuffers {
  std::vector<TensorView> buffers;
  TensorView part[3];

  // make(group index, shape) gives each buffer.
  template <class Make>
  ProjectionBuffers(const MultiHeadPlan& plan, const Make& make) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const ProjectionGroup& group = plan.groups[g];
      buffers.push_back(make(g, plan.buffer_shape(group)));
      for (int p = group.first; p < group.first + group.parts; ++p) {
        part[p] = plan.heads_of(buffers[g], group, p);
      }
    }
  }
};

// What rotations read besides q and k: positions, and the factors of pairs.
inline std::vector<ConstTensorView> tensors_of_rotary(const MultiHeadOptions& options) {
  return {options.query_positions, options.key_positions, options.rotary ? options.rotary->factors : ConstTensorView{}};
}

}  // namespace polyhead::ops
