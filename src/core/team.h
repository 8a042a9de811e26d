// A team of threads that work on one call at a time and sleep between calls, each with scratch memory of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "core/awaited.h"

namespace polyhead {

// Memory that grows to the largest request and is kept between calls; aligned to 64 bytes, contents undefined.
class Scratch {
 public:
  std::byte* reserve(std::size_t bytes);

 private:
  struct Release {
    void operator()(std::byte* data) const noexcept { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Release> data_;
  std::size_t bytes_ = 0;
};

class Team {
 public:
  // `threads` members, of whom at most `processors` work at once: more would only take time from those that the caller
  // waits for.
  Team(int threads, int processors);
  explicit Team(int threads) : Team(threads, threads) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const noexcept { return threads_; }
  Scratch& scratch(int member) { return scratch_[static_cast<std::size_t>(member)]; }

  // work(item) for every item; make_work(member) gives each member its work. Members claim `grain` items at a time, in
  // order. The caller is member 0 and does not wait for members that have not begun: a thread that is slow to wake is
  // left out. The bits of an item must not depend on the member that computes it. Rethrows the first exception.
  template <class MakeWork>
  void for_each(std::int64_t items, std::int64_t grain, int members, const MakeWork& make_work) {
    std::atomic<std::int64_t> next{0};
    const auto share = [&](int member) {
      auto work = make_work(member);
      for (std::int64_t begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < items;) {
        const std::int64_t end = begin + grain < items ? begin + grain : items;
        for (std::int64_t item = begin; item < end; ++item) work(item);
      }
    };
    run_shares(members, share);
  }

  // The same with a share for each: member n begins with the n-th part of the items, and is the same thread in every
  // call that takes all threads, so that it finds in its cache what it left there. A member that has finished its share
  // goes on with items that the others have not claimed yet.
  template <class MakeWork>
  void for_shares(std::int64_t items, std::int64_t grain, int members, const MakeWork& make_work) {
    members = std::min(members, at_once_);
    const auto begin_of = [&](int member) { return items * member / members; };
    for (int member = 0; member < members; ++member) {
      next_[static_cast<std::size_t>(member)].item.store(begin_of(member), std::memory_order_relaxed);
    }
    run_shares(members, [&](int member) {
      auto work = make_work(member);
      for (int n = 0; n < members; ++n) {
        const int whose = (member + n) % members;
        const std::int64_t all = begin_of(whose + 1);
        std::atomic<std::int64_t>& next = next_[static_cast<std::size_t>(whose)].item;
        while (next.load(std::memory_order_relaxed) < all) {
          const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed),
                             end = std::min(begin + grain, all);
          for (std::int64_t item = begin; item < end; ++item) work(item);
        }
      }
    });
  }

  std::recursive_mutex turn;  // held by the call that uses the team

  // Between these two, workers look for the next round before they go to sleep: for calls of several rounds, and for
  // the many calls of a training step. Otherwise they sleep at once, since there may be no next round.
  void begin_burst() noexcept { bursts_.fetch_add(1, std::memory_order_relaxed); }
  void end_burst() noexcept { bursts_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  using Call = void (*)(const void* work, int member);
  template <class Share>
  void run_shares(int members, const Share& share) {
    run(
        members, [](const void* work, int member) { (*static_cast<const Share*>(work))(member); }, &share);
  }
  void run(int members, Call call, const void* work);
  void start();
  void serve(int number);
  void look_for_work(std::uint32_t seen) const;
  void work_as(int member) noexcept;

  struct alignas(64) Next {  // a cache line each
    std::atomic<std::int64_t> item{0};
  };

  const int threads_, at_once_;
  std::vector<Scratch> scratch_;
  std::vector<Next> next_;  // the first unclaimed item of each member's share
  std::vector<std::thread> workers_;
  Awaited round_;              // workers sleep on this
  std::atomic<int> seats_{0};  // free in this round; taking one when n are left makes member n, unless all take part
  Awaited finished_;           // workers done with this round; the caller sleeps on this
  std::atomic<bool> stop_{false};
  std::atomic<int> bursts_{0};
  Call call_ = nullptr;
  const void* work_ = nullptr;
  bool all_ = false;  // all workers take part in this round
  std::atomic<int> caller_processor_{-1};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace polyhead
