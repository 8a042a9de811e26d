#include "cli/signals.h"

#include <signal.h>

#include <atomic>

namespace polyhead::cli {
namespace {

constexpr int kNoted[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> came{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch it");

// From now on all of them have their default effect: a second one, of any kind, ends the process.
extern "C" void note_signal(int number) {
  came.store(number, std::memory_order_relaxed);
  for (const int each : kNoted) {
    struct sigaction now {};
    sigaction(each, nullptr, &now);
    if (now.sa_handler != SIG_IGN) signal(each, SIG_DFL);
  }
}

}  // namespace

Signals::Signals() {
  came = 0;
  for (const int number : kNoted) {
    struct sigaction old {};
    sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
}

Signals::~Signals() {
  for (const int number : kNoted) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler == note_signal) signal(number, SIG_DFL);
  }
}

int Signals::noted() noexcept { return came.load(std::memory_order_relaxed); }

}  // namespace polyhead::cli
