// Runs a kernel on the host: blocks one after the other, the threads of a block as fibers that take turns at barriers
// and shuffles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace polyhead::emulator {

struct Index {
  unsigned x = 0;
};

Index thread_index() noexcept;
Index block_index() noexcept;

void wait_for_block();
void wait_for_warp();
bool any_of_block(bool x);
unsigned ballot(bool x);
// The bytes that the lane `from` of the warp handed in, at this very exchange.
void exchange_bytes(void* data, std::size_t bytes, int from);
int lane() noexcept;
// All lanes of the warp hand in an address, and the one that comes last does the work of all: work(addresses).
void meet(void* own, void (*work)(void* const* lanes));

template <class T, class From>
T exchange(T x, const From& from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  exchange_bytes(&x, sizeof x, from(lane()) & 31);
  return x;
}

// Memory of the size that the launch asked for, for kernels whose shared memory is sized at run time.
std::byte* dynamic_shared() noexcept;

void run_grid(std::int64_t blocks, int threads, std::size_t shared_bytes, const std::function<void()>& kernel);

}  // namespace polyhead::emulator
