// A call's keys in shards: the arguments that each shard is called with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/rows.h"
#include "support/cases.h"

namespace polyhead::test {

// Keys [begin, end) of a batch that is not packed and has no key_start. Positions and lengths count from there.
struct Shard {
  std::int64_t begin = 0, end = 0;
  ConstTensorView k, v;
  AttentionOptions options;
  AttentionWants wants;
  std::vector<Tensor> memory;
};

// [..,S] of a tensor that may be broadcast over keys.
inline ConstTensorView keys_of(const ConstTensorView& tensor, std::int64_t begin, std::int64_t end) {
  const int last = tensor.rank() - 1;
  return !tensor.present() || tensor.shape(last) == 1 ? tensor : tensor.slice(last, begin, end);
}

// `takes_sink`: one shard of a call does.
inline Shard shard_of(const Materialised& m, std::int64_t begin, std::int64_t end, bool takes_sink) {
  Shard shard{.begin = begin,
              .end = end,
              .k = m.k.slice(2, begin, end),
              .v = m.v.slice(2, begin, end),
              .options = m.options,
              .wants = m.wants,
              .memory = {}};
  AttentionOptions& options = shard.options;
  const auto sequences = reference::sequences_of(m.q, m.k, m.options);
  const auto per_sequence = [&](const auto& number_of) {
    Tensor numbers = Tensor::zeros({static_cast<std::int64_t>(sequences.size())}, DType::i64);
    for (std::size_t n = 0; n < sequences.size(); ++n) numbers.as<std::int64_t>()[n] = number_of(sequences[n]);
    shard.memory.push_back(std::move(numbers));
    return shard.memory.back().view();
  };
  options.align = Align::unset;
  options.first_position.reset();
  options.first_positions = per_sequence([&](const reference::Sequence& s) { return s.shift - begin; });
  options.key_lengths = per_sequence(
      [&](const reference::Sequence& s) { return std::clamp<std::int64_t>(s.keys - begin, 0, end - begin); });
  options.window.always_first = std::max<std::int64_t>(m.options.window.always_first - begin, 0);
  options.dropout.origin.key += begin;
  options.keep = keys_of(m.options.keep, begin, end);
  options.bias = keys_of(m.options.bias, begin, end);
  if (!takes_sink) options.sink_logit = {};
  if (m.wants.marked_keys.present()) shard.wants.marked_keys = m.wants.marked_keys.slice(1, begin, end);
  if (m.wants.target_keys.present()) {
    Tensor targets = Tensor::zeros(m.wants.target_keys.shape(), DType::i32);
    const reference::Array<std::int32_t> all(m.wants.target_keys);
    std::transform(all.values().begin(), all.values().end(), targets.as<std::int32_t>(), [&](std::int32_t key) {
      return key >= begin && key < end ? key - static_cast<std::int32_t>(begin) : -1;
    });
    shard.memory.push_back(std::move(targets));
    shard.wants.target_keys = shard.memory.back().view();
  }
  return shard;
}

// Checks that what shards cannot know, such as normalised entropy, is left out where it counts, and fills in what it
// should have been, so that the rest can be judged.
inline void expect_nothing_unknown(const TensorView& got, const ConstTensorView& exact) {
  if (!got.present()) return;
  const int last = got.rank() - 1;
  for (std::int64_t field = 0; field < got.shape(last); ++field) {
    if (kStatistics[field].merge != StatisticMerge::unknown) continue;
    const reference::Array<double> found(got.slice(last, field, field + 1)), right(exact.slice(last, field, field + 1));
    for (std::size_t n = 0; n < found.values().size(); ++n) {
      if (right.values()[n] != 0 || found.values()[n] != 0) {
        ASSERT_TRUE(std::isnan(found.values()[n])) << kStatistics[field].name;
      }
    }
    std::size_t n = 0;
    fill_with(got.slice(last, field, field + 1), [&] { return right.values()[n++]; });
  }
}

// All keys, cut before these.
inline std::vector<Shard> shards_of(const Materialised& m, std::vector<std::int64_t> cuts) {
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(m.k.shape(2));
  std::vector<Shard> shards;
  for (std::size_t n = 0; n + 1 < cuts.size(); ++n) {
    shards.push_back(shard_of(m, cuts[n], cuts[n + 1], n == (cuts.size() - 1) / 2));
  }
  return shards;
}

}  // namespace polyhead::test
