// What GCC's headers and libraries ask of a glibc later than 2.28, for a portable build (cmake/portable.cmake). Hidden:
// no other library in the process sees these.
#include <sys/random.h>

#include <cstdint>

extern "C" {

// Of glibc 2.32: whether the process has one thread. That there may be more is always a right answer.
char __libc_single_threaded = 0;

// Of glibc 2.36, for std::random_device.
std::uint32_t arc4random() noexcept {
  std::uint32_t bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != sizeof bits) {
  }
  return bits;
}
}
