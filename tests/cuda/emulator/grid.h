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
// Two values of every lane at once; lanes[slot][n] is where lane n's lies until the next two exchanges.
void hand_in(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes,
             const std::byte* const* (&lanes)[2]);

template <class T, class From>
T exchange(T x, const From& from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  exchange_bytes(&x, sizeof x, from(lane()) & 31);
  return x;
}

// what(a_of, b_of) while all lanes of the warp have handed in an A and a B: a_of(lane) is that lane's.
template <class A, class B, class What>
void gather(const A& a, const B& b, const What& what) {
  static_assert(sizeof(A) <= 16 && sizeof(B) <= 16);
  const std::byte* const* own[2];
  hand_in(&a, sizeof a, &b, sizeof b, own);
  const auto from = [&]<class T>(int slot, int n, T) {
    T value;
    std::memcpy(&value, own[slot][n], sizeof value);
    return value;
  };
  what([&](int n) { return from(0, n, A{}); }, [&](int n) { return from(1, n, B{}); });
}

// Memory of the size that the launch asked for, for kernels whose shared memory is sized at run time.
std::byte* dynamic_shared() noexcept;

void run_grid(std::int64_t blocks, int threads, std::size_t shared_bytes, const std::function<void()>& kernel);

}  // namespace polyhead::emulator
