#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks

#include "grid.h"

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

namespace polyhead::emulator {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr int kWarp = 32;

// Those who take part in a barrier: all fibers of a block or of a warp that have not returned.
struct Barrier {
  int members = 0, arrived = 0;
  std::uint64_t rounds = 0;
  bool any = false, any_before = false;
  std::array<void*, kWarp> handed_in{};  // of a warp, see meet
  std::uint64_t works = 0;

  void open() {
    arrived = 0;
    any_before = any;
    any = false;
    ++rounds;
  }
};

struct Fiber {
  jmp_buf place{};
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStackBytes);
  bool done = false;
  std::uint64_t exchanges = 0;
  std::array<std::array<std::byte, 16>, 2> slots{};  // what it hands in at even and odd exchanges
};

struct Grid {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Barrier> warps;
  Barrier block;
  jmp_buf scheduler{};
  int threads = 0, current = 0;
  unsigned block_number = 0;
  const std::function<void()>* kernel = nullptr;
  std::vector<std::byte> shared;
};

Grid grid;

Fiber& self() { return *grid.fibers[static_cast<std::size_t>(grid.current)]; }
Barrier& own_warp() { return grid.warps[static_cast<std::size_t>(grid.current / kWarp)]; }

// swapcontext would ask the system for the signal mask each time, which took three quarters of the test's time.
// ThreadSanitizer would not follow these jumps; the kernels are not built for it.
void go(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}
// To the next fiber of the block that has not returned, or back to the scheduler if there is none.
void yield() {
  Fiber& from = self();
  for (int n = 0; n < grid.threads; ++n) {
    if (++grid.current == grid.threads) grid.current = 0;
    if (!self().done) return go(from.place, self().place);
  }
  go(from.place, grid.scheduler);
}

void leave(Barrier& barrier) {
  if (--barrier.members > 0 && barrier.arrived == barrier.members) barrier.open();
}

void wait_at(Barrier& barrier) {
  const std::uint64_t round = barrier.rounds;
  if (++barrier.arrived == barrier.members) {
    barrier.open();
    return;
  }
  while (barrier.rounds == round) yield();
}

// One block after the other, of one grid after the other.
void fiber_main() {
  go(self().place, grid.scheduler);
  for (;;) {
    (*grid.kernel)();
    leave(own_warp());
    leave(grid.block);
    self().done = true;
    yield();
  }
}

void add_fiber() {
  grid.current = static_cast<int>(grid.fibers.size());
  Fiber& fiber = *grid.fibers.emplace_back(std::make_unique<Fiber>());
  ucontext_t start{};
  getcontext(&start);
  start.uc_stack.ss_sp = fiber.stack.get();
  start.uc_stack.ss_size = kStackBytes;
  makecontext(&start, fiber_main, 0);
  if (_setjmp(grid.scheduler) == 0) setcontext(&start);
}

void run_block() {
  grid.block = {.members = grid.threads};
  grid.warps.assign(static_cast<std::size_t>((grid.threads + kWarp - 1) / kWarp), {});
  for (int n = 0; n < grid.threads; ++n) ++grid.warps[static_cast<std::size_t>(n / kWarp)].members;
  for (int n = 0; n < grid.threads; ++n) {
    Fiber& fiber = *grid.fibers[static_cast<std::size_t>(n)];
    fiber.done = false;
    fiber.exchanges = 0;
  }
  grid.current = 0;
  go(grid.scheduler, self().place);
}

}  // namespace

Index thread_index() noexcept { return {static_cast<unsigned>(grid.current)}; }
Index block_index() noexcept { return {grid.block_number}; }
int lane() noexcept { return grid.current % kWarp; }
std::byte* dynamic_shared() noexcept { return grid.shared.data(); }

void wait_for_block() { wait_at(grid.block); }
void wait_for_warp() { wait_at(own_warp()); }

bool any_of_block(bool x) {
  grid.block.any = grid.block.any || x;
  wait_at(grid.block);
  return grid.block.any_before;
}

void exchange_bytes(void* data, std::size_t bytes, int from) {
  const auto parity = static_cast<std::size_t>(self().exchanges++ % 2);
  std::memcpy(self().slots[parity].data(), data, bytes);
  wait_for_warp();
  const auto other = static_cast<std::size_t>(grid.current / kWarp * kWarp + from);
  std::memcpy(data, grid.fibers[other]->slots[parity].data(), bytes);
}

void meet(void* own, void (*work)(void* const* lanes)) {
  Barrier& warp = own_warp();
  const std::uint64_t before = warp.works;
  warp.handed_in[static_cast<std::size_t>(lane())] = own;
  if (warp.arrived + 1 == kWarp) {
    work(warp.handed_in.data());
    ++warp.works;
  }
  wait_at(warp);
  if (warp.works == before) std::abort();  // a lane has returned instead: undefined on a GPU
}

unsigned ballot(bool x) {
  const auto parity = static_cast<std::size_t>(self().exchanges++ % 2);
  self().slots[parity][0] = std::byte{x};
  wait_for_warp();
  unsigned bits = 0;
  for (int n = 0; n < kWarp; ++n) {
    const Fiber& other = *grid.fibers[static_cast<std::size_t>(grid.current / kWarp * kWarp + n)];
    bits |= static_cast<unsigned>(other.slots[parity][0]) << n;
  }
  return bits;
}

void run_grid(std::int64_t blocks, int threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
  while (grid.fibers.size() < static_cast<std::size_t>(threads)) add_fiber();
  grid.threads = threads;
  grid.kernel = &kernel;
  for (std::int64_t block = 0; block < blocks; ++block) {
    grid.block_number = static_cast<unsigned>(block);
    grid.shared.assign(shared_bytes, std::byte{0xff});
    run_block();
  }
}

}  // namespace polyhead::emulator
