// A number that threads wait for: store, then wake; sleep until. Nothing else in the tree sleeps or wakes.
#pragma once

#include <cstdint>

#include "core/word.h"

namespace polyhead {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Sequentially consistent, all of it. Who wakes stores the number and then asks whether anybody sleeps; who sleeps says
// so and then looks at the number. Each must see what the other did first, and release and acquire do not promise that:
// the processor may answer the question before its store has left it, the sleeper still reads the old number, and
// sleeps for ever. tests/core/protocols holds the proof.
class Awaited {
 public:
  std::uint32_t now() const noexcept { return number_.load(std::memory_order_acquire); }

  void set(std::uint32_t number) noexcept {
    number_.store(number, std::memory_order_seq_cst);
    number_.notify_all();
  }
  void add(std::uint32_t more) noexcept {
    number_.fetch_add(more, std::memory_order_seq_cst);
    number_.notify_all();
  }
  // Adds, and wakes only so many of those who sleep.
  void add_waking(std::uint32_t more, int sleepers) noexcept {
    number_.fetch_add(more, std::memory_order_seq_cst);
    for (int i = 0; i < sleepers; ++i) number_.notify_one();
  }
  // While nobody waits for it.
  void reset() noexcept { number_.store(0, std::memory_order_relaxed); }

  // The number, once ready(number): looks at it so many times, then sleeps from change to change.
  template <class Ready>
  std::uint32_t until(int looks, const Ready& ready) const noexcept {
    for (int look = 0; look < looks; ++look) {
      if (const std::uint32_t number = now(); ready(number)) return number;
      pause();
    }
    for (;;) {
      const std::uint32_t number = now();
      if (ready(number)) return number;
      number_.wait(number, std::memory_order_seq_cst);
    }
  }

 private:
  Word number_{0};
};

}  // namespace polyhead
