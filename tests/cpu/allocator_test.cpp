// Memory that a context keeps: lent again, bounded, given back on request, and good after the context has gone.
#include "cpu/allocator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "polyhead/attention.h"
#ifdef __SANITIZE_ADDRESS__
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // Debian's GCC comes without the header
#endif

namespace polyhead::cpu {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

// AddressSanitizer keeps 256 MB of freed blocks resident to catch their use, so there its own count is asked for.
std::size_t held_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return __sanitizer_get_current_allocated_bytes();
#else
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
#endif
}

TEST(CpuAllocator, IsLentAgain) {
  CpuAllocator memory;
  void* first = memory.allocate(3 * kMegabyte);
  memory.release(first, 3 * kMegabyte);
  EXPECT_EQ(memory.allocate(3 * kMegabyte), first);
  void* second = memory.allocate(3 * kMegabyte);
  EXPECT_NE(second, first);
  memory.release(first, 3 * kMegabyte);
  // A little more finds it, too.
  EXPECT_EQ(memory.allocate(3 * kMegabyte - 1000), first);
  memory.release(first, 3 * kMegabyte - 1000);
  memory.release(second, 3 * kMegabyte);
}

TEST(CpuAllocator, IsBoundedByWhatWasInUseAtOnce) {
  CpuAllocator memory;
  const std::size_t before = held_bytes();
  for (std::size_t megabytes = 1; megabytes <= 64; ++megabytes) {  // 2 GB in all, 64 MB at once
    void* data = memory.allocate(megabytes * kMegabyte);
    std::memset(data, 1, megabytes * kMegabyte);
    memory.release(data, megabytes * kMegabyte);
  }
  EXPECT_LT(held_bytes(), before + 100 * kMegabyte);
  memory.trim();
  EXPECT_LT(held_bytes(), before + 8 * kMegabyte);
}

TEST(CpuAllocator, OutlivesItsContext) {
  Tensor output;
  {
    Context context(1);
    const Tensor x = Tensor::zeros({1, 4, 256, 64}, DType::f32);
    output = attend(context, x, x, x).output;
    const Tensor again = attend(context, x, x, x).output;
    const void* place = again.view().data();
    EXPECT_NE(place, output.view().data());
    context.release_memory();
    EXPECT_EQ(output.as<float>()[0], 0);
  }
  std::fill_n(output.as<float>(), output.view().count(), 1.0f);
  EXPECT_EQ(output.as<float>()[5], 1);
}

// A tensor may die in any thread, and a fork may come while another thread holds the lock.
TEST(CpuAllocator, IsSharedByThreadsAndSurvivesFork) {
  const auto memory = std::make_shared<CpuAllocator>();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!done.load()) {
        Tensor tensor = Tensor::empty({(1 + t) * 40000}, DType::f32, memory);
        std::fill_n(tensor.as<float>(), tensor.view().count(), static_cast<float>(t));
        EXPECT_EQ(tensor.as<float>()[tensor.view().count() - 1], static_cast<float>(t));
      }
    });
  }
  for (int n = 0; n < 20; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (int i = 0; i < 10; ++i) Tensor::zeros({40000}, DType::f32, memory);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace polyhead::cpu
