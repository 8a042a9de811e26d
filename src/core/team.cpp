#include "core/team.h"

#include <utility>

namespace polyhead {
namespace {

// The caller has just done its own share, so the others are about to finish: look a while before sleeping.
constexpr int kLooksBeforeSleep = 2000;

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::byte* Scratch::reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    bytes_ = 0;
    data_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
    bytes_ = bytes;
  }
  return data_.get();
}

Team::Team(int threads) : threads_(threads), scratch_(static_cast<std::size_t>(threads)) {}

Team::~Team() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::start() {
  workers_.reserve(static_cast<std::size_t>(threads_ - 1));
  while (static_cast<int>(workers_.size()) < threads_ - 1) {
    workers_.emplace_back(&Team::serve, this, static_cast<int>(workers_.size()) + 1);
  }
}

void Team::serve(int member) {
  // round_ starts at 0 and the team starts before its first round, so no round is missed.
  for (std::uint32_t seen = 0;; ++seen) {
    round_.wait(seen, std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (member < members_) work_as(member);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
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

void Team::run_erased(int members, Erased call, const void* work) {
  if (members <= 1) return call(work, 0);
  if (workers_.empty()) start();
  members_ = members;
  call_ = call;
  work_ = work;
  pending_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work_as(0);
  for (int look = 0; look < kLooksBeforeSleep && pending_.load(std::memory_order_acquire) != 0; ++look) pause();
  for (std::uint32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;) pending_.wait(left);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace polyhead
