#include "core/context.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "core/processors.h"
#include "polyhead/error.h"

namespace polyhead {
namespace {

std::atomic<std::uint32_t> forks{0};

void count_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }); });
}

constexpr int kMaxThreads = 1024;

int checked(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    throw Error(ErrorCode::value, "context",
                std::to_string(threads) + " threads; expected 1 to " + std::to_string(kMaxThreads) +
                    ", or 0 for one per processor");
  }
  return threads == 0 ? std::min(usable_processors(), kMaxThreads) : threads;
}

}  // namespace

Context::Impl::Impl(int thread_count) : threads(checked(thread_count)) { count_forks(); }

Context::Impl::~Impl() {
  // A parent's team cannot be joined from here: leave it, its memory goes with the process.
  Made* made = made_.load();
  if (made != nullptr && made->forks == forks.load()) delete made;
}

Team& Context::Impl::team() {
  // No lock: a fork could leave the child with a locked one. Of two threads that make a team, one throws its own away.
  const std::uint32_t now = forks.load(std::memory_order_relaxed);
  Made* made = made_.load(std::memory_order_acquire);
  if (made != nullptr && made->forks == now) return made->team;
  std::unique_ptr<Made> fresh(new Made{Team(threads), now});
  if (made_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) return fresh.release()->team;
  return made->team;
}

Context::Context(int threads) : impl_(std::make_unique<Impl>(threads)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
int Context::threads() const noexcept { return impl_->threads; }

}  // namespace polyhead
