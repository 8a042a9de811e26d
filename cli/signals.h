// Ctrl-C and the like, for commands that save what they have before they end.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace polyhead::cli {

// While one lives, the first SIGINT, SIGTERM or SIGHUP is only noted; a second one ends the process at once. A signal
// that the caller ignores (nohup) stays ignored.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  static int noted() noexcept;  // the signal that came, or 0
  // For a command that has printed what it knows: ends it with the signal's code if one came.
  static void end_if_noted(const std::string& message) {
    if (noted() != 0) throw Failure(exit_code(), message);
  }
  static Exit exit_code() noexcept { return static_cast<Exit>(static_cast<int>(Exit::signalled) + noted()); }
};

}  // namespace polyhead::cli
