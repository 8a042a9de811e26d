// The keys and values of growing sequences: what decoding attends over, token by token.
//
//   KvCache cache(context, {.kv_heads = 8, .capacity = 4096, .head_dim = 128, .value_dim = 128}, DType::f16);
//   cache.append(context, k, v);                                   // of n new tokens, [B,G,n,D] and [B,G,n,E]
//   Attention result = attend(context, q, cache, {.causal = true});  // q [B,H,n,D] of the same tokens
#pragma once

#include <cstdint>
#include <vector>

#include "polyhead/attention.h"
#include "polyhead/export.h"

namespace POLYHEAD_PUBLIC polyhead {

// Each below 2^31, as in attention.h.
struct KvCacheSizes {
  std::int64_t batch = 1, kv_heads = 1, capacity = 0, head_dim = 0, value_dim = 0;
};

// The cache of one layer, in the memory of the context's device. All sequences of a batch have the same length; shorter
// prompts are padded on the left. A call that throws leaves the cache unchanged.
class KvCache {
 public:
  // Storage is f32, f16, bf16 or f64. Memory for the whole capacity is allocated here, once.
  KvCache(Context& context, const KvCacheSizes& sizes, DType storage = DType::f32);

  // Appends n tokens: k [B,G,n,D], v [B,G,n,E], any strides as long as the last one is 1. f32 is rounded to nearest
  // even for 16-bit storage, and NaN stays NaN; otherwise the types must match.
  void append(Context& context, const ConstTensorView& k, const ConstTensorView& v);
  // Drops the last n tokens, as after a rejected draft.
  void rollback(std::int64_t n);
  // Drops all tokens and the padding.
  void clear() noexcept;

  // The first start[b] tokens of sequence b are padding on its left: no query sees them, and positions count from
  // there. i32 [B], on the host or the device; all 0 until set.
  void set_key_start(Context& context, const ConstTensorView& start);

  const KvCacheSizes& sizes() const noexcept { return sizes_; }
  DType dtype() const noexcept { return keys_.dtype(); }
  std::int64_t length() const noexcept { return length_; }
  const std::vector<std::int32_t>& key_start() const noexcept { return key_start_; }

  // The tokens so far, [B,G,length,D] and [B,G,length,E]; valid as long as the cache lives.
  ConstTensorView keys() const { return keys_.view().slice(2, 0, length_); }
  ConstTensorView values() const { return values_.view().slice(2, 0, length_); }

 private:
  KvCacheSizes sizes_;
  Tensor keys_, values_;  // [B,G,capacity,D], [B,G,capacity,E]
  std::vector<std::int32_t> key_start_;
  Tensor device_start_;  // the same where kernels read it; not kept up to date while all are 0
  std::int64_t length_ = 0;

  friend struct CacheAccess;
};

// Attention of the last n tokens, q [B,H,n,D], over everything in the cache; append their keys and values first. The
// last query is at the last key (Align::bottom_right) and key_start is the cache's, so options must set neither, nor
// any lengths. For n > 1 set `causal` as usual; for n = 1 it makes no difference. f32 queries may read 16-bit storage;
// otherwise the types must match. Gradients do not flow through a cache.
Attention attend(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options = {},
                 const AttentionWants& wants = {});
void attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants, const AttentionOutputs& outputs);

}  // namespace polyhead
