// What a language model remembers of the tokens it has read, so that each step reads only one more.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/transformer.h"
#include "polyhead/cache.h"

namespace polyhead::model {

// Keys and values of every layer, for a batch of sequences; shorter ones are padded on the left.
class Memory {
 public:
  // For up to `capacity` tokens per sequence.
  Memory(Context& context, const Transformer& model, std::int64_t batch, std::int64_t capacity);

  std::int64_t batch() const noexcept { return static_cast<std::int64_t>(padding_.size()); }
  std::int64_t length() const noexcept { return length_; }  // tokens read, padding included
  std::int64_t capacity() const noexcept { return capacity_; }

  // Forgets everything. Of the tokens read next, the first padding[b] of sequence b are padding.
  void clear(Context& context, std::span<const std::int32_t> padding);

  // For Transformer::forward: the positions of the next n tokens, i32 [B,n], and what a layer remembers.
  Tensor positions(std::int64_t n) const;
  KvCache& layer(std::size_t layer) { return *layers_[layer]; }
  void advance(std::int64_t n) { length_ += n; }

 private:
  std::vector<std::optional<KvCache>> layers_;  // none for a layer without heads
  std::vector<std::int32_t> padding_;
  std::int64_t capacity_, length_ = 0;
};

}  // namespace polyhead::model
