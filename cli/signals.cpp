#include "cli/signals.h"

#include <signal.h>

namespace polyhead::cli {
namespace {

constexpr int kNoted[] = {SIGINT, SIGTERM, SIGHUP};

volatile sig_atomic_t came = 0;

extern "C" void note_signal(int number) { came = number; }

}  // namespace

Signals::Signals() {
  came = 0;
  for (const int number : kNoted) {
    struct sigaction old {};
    sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESETHAND | SA_RESTART;  // the second one has its usual effect
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

int Signals::noted() noexcept { return came; }

}  // namespace polyhead::cli
