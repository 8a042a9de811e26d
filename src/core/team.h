// A team of threads that work on one call at a time and sleep between calls, each with scratch memory of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

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
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const noexcept { return threads_; }
  Scratch& scratch(int member) { return scratch_[static_cast<std::size_t>(member)]; }

  // work(member) for member = 0 .. members-1, all at once; returns when all are done, rethrowing the first exception.
  template <class Work>
  void run(int members, const Work& work) {
    run_erased(
        members, [](const void* w, int member) { (*static_cast<const Work*>(w))(member); }, &work);
  }

  // work(item) for every item, each member with the work that make_work(member) gives it. Members claim `grain` items
  // at a time, in order, so a thread that the machine slows down holds nobody up; who computes an item must not change
  // its bits.
  template <class MakeWork>
  void for_each(std::int64_t items, std::int64_t grain, int members, const MakeWork& make_work) {
    std::atomic<std::int64_t> next{0};
    run(members, [&](int member) {
      auto work = make_work(member);
      for (std::int64_t begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < items;) {
        const std::int64_t end = begin + grain < items ? begin + grain : items;
        for (std::int64_t item = begin; item < end; ++item) work(item);
      }
    });
  }

  std::mutex turn;  // held by the call that uses the team

 private:
  using Erased = void (*)(const void* work, int member);
  void run_erased(int members, Erased call, const void* work);
  void start();
  void serve(int member);
  void work_as(int member) noexcept;

  const int threads_;
  std::vector<Scratch> scratch_;
  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> round_{0};    // workers sleep on this
  std::atomic<std::uint32_t> pending_{0};  // workers that have not finished the round; the caller sleeps on this
  std::atomic<bool> stop_{false};
  int members_ = 0;
  Erased call_ = nullptr;
  const void* work_ = nullptr;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace polyhead
