// Random draws from a separate Philox stream, for code that needs several numbers from one seed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/philox.h"

namespace polyhead {

class Draws {
 public:
  // Streams with different keys or words are independent: each purpose that draws from a seed needs its own.
  Draws(std::uint64_t key, std::uint32_t first, std::uint32_t second, std::uint32_t third)
      : key_(key), counter_{0, first, second, third} {}

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

  // Moves a random choice of `count` items to the front, in random order (Fisher and Yates).
  template <class Item>
  void shuffle(std::vector<Item>& items, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::swap(items[static_cast<std::size_t>(i)], items[static_cast<std::size_t>(between(i, std::ssize(items) - 1))]);
    }
  }
  template <class Item>
  void shuffle(std::vector<Item>& items) {
    shuffle(items, std::ssize(items));
  }

  // `count` different numbers of [first, first + range), in random order.
  std::vector<std::int32_t> distinct(std::int64_t count, std::int64_t first, std::int64_t range) {
    std::vector<std::int32_t> all;
    for (std::int64_t i = 0; i < range; ++i) all.push_back(static_cast<std::int32_t>(first + i));
    shuffle(all, count);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
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

}  // namespace polyhead
