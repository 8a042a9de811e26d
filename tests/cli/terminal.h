// Runs the real command on a terminal of its own, so many columns wide.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "cli/run.h"

namespace polyhead::cli {

// What it prints; messages go nowhere. `line` is for the shell.
inline Ran on_terminal(const std::string& line, unsigned short columns) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) throw std::runtime_error("no terminal");
  const std::string name = ptsname(terminal);
  const int held = open(name.c_str(), O_RDWR | O_NOCTTY);
  const winsize size{24, columns, 0, 0};
  ioctl(held, TIOCSWINSZ, &size);
  const pid_t child = fork();
  if (child == 0) {
    dup2(held, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  close(held);
  Ran ran;
  std::array<char, 4096> part;
  // Reading ends when nobody has the terminal open.
  for (ssize_t count; (count = read(terminal, part.data(), part.size())) > 0;)
    ran.text.append(part.data(), static_cast<std::size_t>(count));
  int status = 0;
  close(terminal);
  waitpid(child, &status, 0);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::erase(ran.text, '\r');
  return ran;
}

}  // namespace polyhead::cli
