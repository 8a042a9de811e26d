#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>

#include "cli/signals.h"
#include "io/file.h"

namespace polyhead::cli {
namespace {

struct Files {
  posix_spawn_file_actions_t actions;
  Files() { posix_spawn_file_actions_init(&actions); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { posix_spawn_file_actions_destroy(&actions); }
};

struct Attributes {
  posix_spawnattr_t values;
  Attributes() {  // we ignore SIGPIPE, which a child would inherit
    posix_spawnattr_init(&values);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&values, &usual);
    posix_spawnattr_setflags(&values, POSIX_SPAWN_SETSIGDEF);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { posix_spawnattr_destroy(&values); }
};

}  // namespace

int run_child(const std::vector<std::string>& words, bool silent) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // The child holds the other end of this pipe, which closes when it ends.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), words[0]);
  const io::Descriptor ours(ends[0]);
  pid_t id = 0;
  {
    const io::Descriptor theirs(ends[1]);
    Files files;
    const Attributes attributes;
    posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (silent) posix_spawn_file_actions_addopen(&files.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files.actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files.actions, theirs.number(), 3 + theirs.number());  // without O_CLOEXEC
    if (posix_spawnp(&id, arguments[0], &files.actions, &attributes.values, arguments.data(), environ) != 0) return 127;
  }
  constexpr int kMilliseconds = 200;  // a signal may come between the question and poll
  for (pollfd end{ours.number(), POLLIN, 0}; poll(&end, 1, kMilliseconds) <= 0;) {
    if (Signals::noted() != 0) kill(id, SIGTERM);
  }
  int status = 0;
  while (waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace polyhead::cli
