#include "cpu/executor.h"

#include <pthread.h>

#include <algorithm>
#include <string>

#include "core/processors.h"
#include "cpu/allocator.h"
#include "cpu/kernels.h"
#include "cpu/targets.h"
#include "kernels/executors.h"
#include "polyhead/error.h"

namespace polyhead::cpu {
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

CpuExecutor::CpuExecutor(int threads)
    : Executor(cpu::kernels(), std::make_shared<CpuAllocator>()), threads_(checked(threads)) {
  count_forks();
}

CpuExecutor::~CpuExecutor() {
  // A parent's team cannot be joined from here: leave it, its memory goes with the process.
  Made* made = made_.load();
  if (made != nullptr && made->forks == forks.load()) delete made;
}

CpuExecutor::Made& CpuExecutor::made() {
  // No lock: a fork could leave the child with a locked one. If two threads make a team, one throws its own away.
  const std::uint32_t now = forks.load(std::memory_order_relaxed);
  Made* made = made_.load(std::memory_order_acquire);
  if (made != nullptr && made->forks == now) return *made;
  std::unique_ptr<Made> fresh(new Made{Team(threads_, usable_processors()), now, {}});
  if (made_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *made;
}

std::string CpuExecutor::target() const {
  return target_name() + (precision == Precision::bf16 && multiplies_pairs() ? ", products in bf16" : "");
}

// A burst ends on the team that it began on: only the thread that forks lives on in the child, and it is not within a
// burst.
void CpuExecutor::begin_burst() { team().begin_burst(); }
void CpuExecutor::end_burst() noexcept { team().end_burst(); }

std::unique_ptr<Executor> make_executor(int threads) { return std::make_unique<CpuExecutor>(threads); }

}  // namespace polyhead::cpu
