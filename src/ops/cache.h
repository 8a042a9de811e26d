// What a model does with caches of its layers, which grow together.
#pragma once

#include <optional>

#include "polyhead/cache.h"
#include "polyhead/rotary.h"

namespace polyhead::ops {

// The rows that the next n tokens of every sequence take in such caches, where kernels read them.
struct CacheRows {
  ConstTensorView first;   // i32 [B]
  ConstTensorView ends;    // i32 [B]: first + n
  std::int64_t bound = 0;  // of the ends, if the calls are to be recorded and replayed with others; 0: they are what
                           // the cache's length says
};

// k [B,G,n,D] and v [B,G,n,E] go to those rows, rotated if there is a rotary, as q [B,H,n,D] then is too, in place; k
// may change. Positions are i32 [B,n]. The cache's length stays: count() says when the tokens count.
void append(Context& context, KvCache& cache, const TensorView& q, const TensorView& k, const ConstTensorView& v,
            const std::optional<Rotary>& rotary, const ConstTensorView& positions, const CacheRows& rows);
// attend_into over the cache and the tokens that were appended to it.
void attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const CacheRows& rows, const TensorView& output);
void count(KvCache& cache, std::int64_t n);

}  // namespace polyhead::ops
