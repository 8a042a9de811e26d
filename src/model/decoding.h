// The KV caches of a language model: keys and values of the tokens it has read, so that each step reads only one more.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "ops/cache.h"

namespace polyhead::model {

// One for every layer, for a batch of sequences; shorter ones are padded on the left.
class KvCaches {
 public:
  // For up to `capacity` tokens per sequence.
  KvCaches(Context& context, const Transformer& model, std::int64_t batch, std::int64_t capacity);

  std::int64_t batch() const noexcept { return static_cast<std::int64_t>(padding_.size()); }
  std::int64_t length() const noexcept { return length_; }  // tokens read, padding included
  std::int64_t capacity() const noexcept { return capacity_; }

  // Forgets everything. Of the tokens read next, the first padding[b] of sequence b are padding.
  void clear(Context& context, std::span<const std::int32_t> padding);

  // For Transformer::forward: tells the device where the next n tokens stand; their positions, i32 [B,n], and rows; and
  // the cache of a layer. Calls that are recorded serve all lengths up to bound(), as long as it stays.
  void place(Context& context, std::int64_t n);
  ConstTensorView positions() const;
  ops::CacheRows rows(bool recorded) const;
  std::int64_t bound() const;
  KvCache& layer(std::size_t layer) { return *layers_[layer]; }
  void advance(std::int64_t n);

 private:
  std::vector<std::optional<KvCache>> layers_;  // none for a layer without heads
  std::vector<std::int32_t> padding_;
  std::int64_t capacity_, length_ = 0;
  Tensor places_;  // i32: positions of the next tokens, [B,n], the rows they begin at, [B], and end before, [B]
};

}  // namespace polyhead::model
