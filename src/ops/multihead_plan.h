// The layer, checked and laid out: which projections share an input, which rows of which weight they are, and where
// heads lie in what they write.
#pragma once

#include <vector>

#include "backend/rotary.h"
#include "core/team.h"
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

struct MultiHeadPlan {
  // Throws Error if anything does not fit. Weights that share an input but not their memory are stacked in the team's
  // shared memory, so the team must be held.
  MultiHeadPlan(std::string_view op, Team& team, const MultiHeadShape& shape, const MultiHeadViews& parameters,
                const MultiHeadInputs& inputs);

  MultiHeadShape shape;  // resolved
  DType dtype;
  std::int64_t batch, queries, keys;
  std::int64_t part_rows[3];  // H*D, G*D, G*D: rows of W_Q, W_K, W_V
  std::vector<ProjectionGroup> groups;
  ConstTensorView out_weight, out_bias;
  std::string_view op;
  std::vector<ConstTensorView> read;  // every input and parameter

  std::int64_t inner() const { return part_rows[kQuery]; }  // H*D
  Dims buffer_shape(const ProjectionGroup& group) const;    // [B,L,N]
  // A part of its group's buffer as heads: [B,H,T,D] or [B,G,S,D].
  TensorView heads_of(const TensorView& buffer, const ProjectionGroup& group, Part part) const;
  // The tensor, made anew unless it has this shape and type already; refused if it is one of the inputs. Without
  // `wanted` it is emptied.
  TensorView place(std::string_view name, Tensor& tensor, const Dims& shape, DType type, bool wanted = true) const;

  // Rotary of q and k in place, forwards or backwards; nothing if there is none.
  std::vector<backend::RotaryProblem> turns(const MultiHeadOptions& options, const TensorView& q, const TensorView& k,
                                            bool backwards) const;

  // [B,T,H*D] as [B,H,T,D].
  template <class View>
  View as_heads(const View& merged) const {
    return merged.split(2, shape.heads).transpose(1, 2);
  }

 private:
  void expect_apart(std::string_view name, const Tensor& tensor, const ConstTensorView& input) const;
};

// A tensor of this shape in the team's shared memory, until the next one in that slot.
TensorView in_shared_memory(Team& team, std::size_t slot, const Dims& shape, DType dtype);

}  // namespace polyhead::ops
