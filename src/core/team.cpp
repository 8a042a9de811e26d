#include "core/team.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "polyhead/error.h"

namespace polyhead {
namespace {

// The caller has just done its own share, so the others are about to finish: look a while before sleeping.
constexpr int kLooksBeforeSleep = 2000;
// For a worker in a burst: some 100 us on x86, several times what waking it costs.
constexpr int kLooksInBurst = 6000;

// Moves this thread off a processor if it may run on another, and restores its affinity mask. Some operating systems,
// above all in small virtual machines, wake a thread on its caller's processor and leave it there while others idle.
void leave_processor(int processor) noexcept {
  cpu_set_t allowed, others;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  others = allowed;
  CPU_CLR(static_cast<unsigned>(processor), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

std::byte* Scratch::reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    bytes_ = 0;
    try {
      data_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::memory, "scratch",
                  "expected " + std::to_string(bytes) + " bytes of memory, found less; choose smaller sizes");
    }
    bytes_ = bytes;
  }
  return data_.get();
}

Team::Team(int threads, int processors)
    : threads_(threads),
      at_once_(std::min(threads, processors)),
      scratch_(static_cast<std::size_t>(threads)),
      next_(static_cast<std::size_t>(at_once_)) {}

Team::~Team() {
  stop_.store(true, std::memory_order_relaxed);
  round_.add(1);
  for (std::thread& worker : workers_) worker.join();
}

void Team::start() {
  workers_.reserve(static_cast<std::size_t>(at_once_ - 1));
  try {
    for (int number = static_cast<int>(workers_.size()) + 1; number < at_once_; ++number) {
      workers_.emplace_back(&Team::serve, this, number);
    }
  } catch (const std::system_error&) {
    // The system gives us no more threads now: those we have do the work.
  }
}

void Team::look_for_work(std::uint32_t seen) const {
  for (int look = 0; look < kLooksInBurst; ++look) {
    if (round_.now() != seen || bursts_.load(std::memory_order_relaxed) == 0) return;
    pause();
  }
}

void Team::serve(int number) {
  for (std::uint32_t seen = 0;;) {
    look_for_work(seen);
    seen = round_.until(0, [seen](std::uint32_t round) { return round != seen; });
    if (stop_.load(std::memory_order_relaxed)) return;
    if (sched_getcpu() == caller_processor_.load(std::memory_order_relaxed)) leave_processor(sched_getcpu());
    int seat = seats_.load(std::memory_order_acquire);
    while (seat > 0 && !seats_.compare_exchange_weak(seat, seat - 1, std::memory_order_acquire)) {
    }
    if (seat <= 0) continue;  // too late, or not needed
    work_as(all_ ? number : seat);
    finished_.add(1);
  }
}

void Team::work_as(int member) noexcept {
  try {
    call_(work_, member);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Team::run(int members, Call call, const void* work) {
  members = std::min(members, at_once_);
  if (members <= 1) return call(work, 0);
  if (static_cast<int>(workers_.size()) < at_once_ - 1) start();
  call_ = call;
  work_ = work;
  all_ = members == at_once_;
  caller_processor_.store(sched_getcpu(), std::memory_order_relaxed);
  finished_.reset();
  seats_.store(members - 1, std::memory_order_release);
  // Waking all is one call; otherwise one per free seat. A tree, in which each woken thread wakes two, was slower.
  if (all_) {
    round_.add(1);
  } else {
    round_.add_waking(1, members - 1);
  }
  work_as(0);
  const auto begun = static_cast<std::uint32_t>(members - 1 - seats_.exchange(0, std::memory_order_acq_rel));
  finished_.until(kLooksBeforeSleep, [begun](std::uint32_t done) { return done == begun; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace polyhead
