#include "core/context.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "polyhead/error.h"

namespace polyhead {
namespace {

std::atomic<std::uint32_t> forks{0};

void count_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }); });
}

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
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

Context::Impl::Impl(int thread_count) : threads(checked(thread_count)), born_(0) { count_forks(); }

Context::Impl::~Impl() {
  // A parent's team cannot be joined from here: leave it, its memory goes with the process.
  if (born_.load() == forks.load()) delete team_.load();
}

Team& Context::Impl::team() {
  static std::mutex making;
  const std::uint32_t now = forks.load(std::memory_order_relaxed);
  // born_ is stored after team_, so a reader that sees the new number sees the new team.
  const auto current = [&]() -> Team* {
    return born_.load(std::memory_order_acquire) == now ? team_.load(std::memory_order_acquire) : nullptr;
  };
  if (Team* team = current()) return *team;
  const std::lock_guard lock(making);
  if (Team* team = current()) return *team;
  auto* team = new Team(threads);
  team_.store(team, std::memory_order_release);
  born_.store(now, std::memory_order_release);
  return *team;
}

Context::Context(int threads) : impl_(std::make_unique<Impl>(threads)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
int Context::threads() const noexcept { return impl_->threads; }

}  // namespace polyhead
