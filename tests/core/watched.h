// A child process that is watched while it works, so that a hang is a result and not the end of the tests.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <new>
#include <ostream>
#include <stdexcept>
#include <thread>

namespace polyhead::test {

enum class Ending { right, wrong, hung };

inline std::ostream& operator<<(std::ostream& out, Ending ending) {
  return out << (ending == Ending::right ? "right" : ending == Ending::wrong ? "wrong" : "hung");
}

// Does `work` again and again for so long, in a child; it says whether the result was right. A child hangs if in half a
// second it neither comes to an end of its work nor uses a processor.
template <class Work>
Ending repeat_watched(std::chrono::duration<double> time, const Work& work) {
  void* const page = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("no shared memory");
  auto& rounds = *new (page) std::atomic<int>(0);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; ++rounds) {
      if (!work()) _exit(1);
    }
    _exit(0);
  }
  clockid_t clock{};
  clock_getcpuclockid(child, &clock);
  const auto used = [&] {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  int status = 0;
  bool hung = false;
  double used_before = -1;
  for (int ticks = 1, rounds_before = -1; !hung && waitpid(child, &status, WNOHANG) == 0; ++ticks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (ticks % 50 != 0) continue;
    hung = rounds == rounds_before && used() - used_before < 0.001;
    rounds_before = rounds;
    used_before = used();
  }
  if (hung) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  munmap(page, sizeof(std::atomic<int>));
  return hung ? Ending::hung : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Ending::right : Ending::wrong;
}

}  // namespace polyhead::test
