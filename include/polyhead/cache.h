// Keys and values that are kept while sequences grow: what decoding token by token attends over.
//
//   KvCache cache(context, {.batch = 1, .kv_heads = 8, .capacity = 4096, .head_dim = 128, .value_dim = 128},
//   DType::f16); cache.append(context, k, v);                                      // of the new tokens, [B,G,n,D] and
//   [B,G,n,E] Attention result = attend(context, q, cache, {.causal = true});   // q [B,H,n,D] of the same tokens
#pragma once

#include <cstdint>
#include <vector>

#include "polyhead/attention.h"

namespace polyhead {

struct KvCacheSizes {
  std::int64_t batch = 1, kv_heads = 1, capacity = 0, head_dim = 0, value_dim = 0;
};

// The cache of one layer, in memory of the context's device. All sequences of a batch have the same length; prompts of
// unlike length are padded on the left. A call that throws leaves the cache as it was.
class KvCache {
 public:
  // Storage is f32, f16, bf16 or f64. Memory for the whole capacity is reserved here, and never again.
  KvCache(Context& context, const KvCacheSizes& sizes, DType storage = DType::f32);

  // Adds n tokens: k [B,G,n,D], v [B,G,n,E], any strides as long as the last one is 1. f32 goes into 16-bit storage
  // rounded to nearest even, NaN staying NaN; otherwise the types must agree.
  void append(Context& context, const ConstTensorView& k, const ConstTensorView& v);
  // Takes the last n tokens back, as after a draft that was turned down.
  void rollback(std::int64_t n);
  // Forgets all tokens, and the padding with them.
  void clear() noexcept;

  // The first start[b] tokens of sequence b are padding on its left: nobody sees them, and positions count from there.
  // i32 [B], on the host or the device; 0 until it is set.
  void set_key_start(Context& context, const ConstTensorView& start);

  const KvCacheSizes& sizes() const noexcept { return sizes_; }
  DType dtype() const noexcept { return keys_.dtype(); }
  std::int64_t length() const noexcept { return length_; }
  const std::vector<std::int32_t>& key_start() const noexcept { return key_start_; }

  // What there is so far, [B,G,length,D] and [B,G,length,E]; good until the cache dies.
  ConstTensorView keys() const { return keys_.view().slice(2, 0, length_); }
  ConstTensorView values() const { return values_.view().slice(2, 0, length_); }

 private:
  KvCacheSizes sizes_;
  Tensor keys_, values_;  // [B,G,capacity,D], [B,G,capacity,E]
  std::vector<std::int32_t> key_start_;
  Tensor device_start_;  // the same where kernels read it; what it holds means nothing if all are 0
  std::int64_t length_ = 0;

  friend struct CacheOptions;
};

// Attention of the last n tokens, q [B,H,n,D], over all that the cache holds; their own keys are appended before. The
// last query stands at the last key (Align::bottom_right), and key_start is the cache's: neither they nor other lengths
// are given in the options. For n > 1 say `causal`, as ever; for n = 1 it makes no difference. f32 queries read a cache
// of 16-bit storage; otherwise the types must agree. No gradient goes through a cache.
Attention attend(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options = {},
                 const AttentionWants& wants = {});
void attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants, const AttentionOutputs& outputs);

}  // namespace polyhead
