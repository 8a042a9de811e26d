// A number that threads wait for. All sleeping and waking between threads goes through it.
#pragma once

#include <cstdint>

#include "core/word.h"

namespace polyhead {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Stores and waits are sequentially consistent. A waker stores the number and then asks whether anybody sleeps; a
// sleeper announces itself and then reads the number. One of them must see the other's first step, which release and
// acquire do not promise: the waker may read "nobody sleeps" before its store is visible, while the sleeper still reads
// the old number and sleeps for ever. tests/core/protocols holds the proof.
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
  // Adds, and wakes at most `sleepers` threads.
  void add_waking(std::uint32_t more, int sleepers) noexcept {
    number_.fetch_add(more, std::memory_order_seq_cst);
    for (int i = 0; i < sleepers; ++i) number_.notify_one();
  }
  // Only while nobody waits for it.
  void reset() noexcept { number_.store(0, std::memory_order_relaxed); }

  // Returns the number once ready(number) holds: reads it `spins` times, then sleeps between changes.
  template <class Ready>
  std::uint32_t until(int spins, const Ready& ready) const noexcept {
    for (int spin = 0; spin < spins; ++spin) {
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
