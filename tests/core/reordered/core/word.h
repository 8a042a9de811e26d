// In place of src/core/word.h: an atomic on a processor at its worst. Unless an operation is sequentially consistent,
// the question that follows it, whether anybody sleeps, is answered first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace polyhead {

class Word {
 public:
  // False: nothing is sequentially consistent, whatever it says. That is the protocol that hung.
  static inline bool honours_order = true;

  Word(std::uint32_t number) : number_(number) {}

  std::uint32_t load(std::memory_order) const { return number_.load(); }
  void store(std::uint32_t number, std::memory_order order) {
    ask_early(order);
    number_.store(number);
  }
  std::uint32_t fetch_add(std::uint32_t more, std::memory_order order) {
    ask_early(order);
    return number_.fetch_add(more);
  }

  void wait(std::uint32_t old, std::memory_order) const {
    sleepers_.fetch_add(1);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return number_.load() != old; });
    }
    sleepers_.fetch_sub(1);
  }
  void notify_all() {
    if (!anybody_sleeps()) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void notify_one() {
    if (!anybody_sleeps()) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_one();
  }

 private:
  bool anybody_sleeps() const {
    const bool answer = asked_ == this ? anybody_ : sleepers_.load() != 0;
    asked_ = nullptr;
    return answer;
  }
  void ask_early(std::memory_order order) const {
    asked_ = nullptr;
    if (honours_order && order == std::memory_order_seq_cst) return;
    anybody_ = sleepers_.load() != 0;
    asked_ = this;
    std::this_thread::yield();
  }

  static inline thread_local const Word* asked_ = nullptr;  // the word that was asked about early
  static inline thread_local bool anybody_ = false;         // and the answer
  std::atomic<std::uint32_t> number_;
  mutable std::atomic<int> sleepers_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
};

}  // namespace polyhead
