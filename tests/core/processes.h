// What the operating system says about this process.
#pragma once

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <thread>

namespace polyhead::test {

// The number of threads, once it has stood still: a joined thread stays in the list for a moment.
inline int thread_count() {
  // ThreadSanitizer adds a thread of its own when the first one starts: let it be there from the outset.
  [[maybe_unused]] static const bool warm = (std::thread([] {}).join(), true);
  int count = 0;
  for (int same = 0; same < 5;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    const int now = static_cast<int>(std::distance(begin(tasks), end(tasks)));
    same = now == count ? same + 1 : 0;
    count = now;
  }
  return count;
}

inline double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace polyhead::test
