// Random draws for one sequence of a task.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "train/task.h"

namespace polyhead::train {

// Philox, key: the task's seed, counter: (draw, sequence, batch, split). No state goes from one sequence to the next.
class Draws {
 public:
  Draws(std::uint64_t seed, Split split, std::uint64_t batch, std::int64_t sequence)
      : key_(seed ^ kDomain),
        counter_{0, static_cast<std::uint32_t>(sequence), static_cast<std::uint32_t>(batch),
                 static_cast<std::uint32_t>(batch >> 32) << 1 | static_cast<std::uint32_t>(split)} {}

  // Uniform in [0, end), without bias (Lemire 2019).
  std::int32_t below(std::int64_t end) {
    const auto range = static_cast<std::uint32_t>(end);
    for (;;) {
      const std::uint64_t product = std::uint64_t{bits()} * range;
      if (static_cast<std::uint32_t>(product) >= (0u - range) % range) return static_cast<std::int32_t>(product >> 32);
    }
  }
  std::int32_t between(std::int64_t first, std::int64_t last) {  // both included
    return static_cast<std::int32_t>(first) + below(last - first + 1);
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  // `count` different numbers of [first, first + range), in random order.
  std::vector<std::int32_t> distinct(std::int64_t count, std::int64_t first, std::int64_t range) {
    std::vector<std::int32_t> all;
    for (std::int64_t i = 0; i < range; ++i) all.push_back(static_cast<std::int32_t>(first + i));
    for (std::int64_t i = 0; i < count; ++i) {
      std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(between(i, range - 1))]);
    }
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
  // Apart from dropout, which draws from the same generator and may be given the same seed.
  static constexpr std::uint64_t kDomain = 0x7461736b73;

  std::uint32_t bits() {
    if (next_ == words_.size()) {
      words_ = Philox::words(key_, counter_);
      ++counter_[0];
      next_ = 0;
    }
    return words_[next_++];
  }

  std::uint64_t key_;
  Philox::Words counter_;
  Philox::Words words_{};
  std::size_t next_ = words_.size();
};

}  // namespace polyhead::train
