// Runs the real command in a process of its own that can be signalled, killed and starved.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace polyhead::cli {

class Process {
 public:
  // No file of it may grow beyond `most_bytes`, which is how a disk is full; 0: as large as it likes. What it prints
  // goes into `log`.
  Process(const std::vector<std::string>& arguments, const std::string& log, rlim_t most_bytes = 0,
          const char* program = POLYHEAD_COMMAND)
      : id_(fork()) {
    if (id_ < 0) throw std::runtime_error("cannot fork");
    if (id_ == 0) become(program, arguments, log, most_bytes);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }

  void signal(int number) const { kill(id_, number); }
  bool ended() {
    if (id_ > 0 && waitpid(id_, &status_, WNOHANG) == id_) id_ = 0;
    return id_ == 0;
  }
  // The exit code, or minus the signal that it died of.
  int wait() {
    if (id_ > 0) waitpid(id_, &status_, 0);
    id_ = 0;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  [[noreturn]] static void become(const char* program, const std::vector<std::string>& arguments,
                                  const std::string& log, rlim_t most) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    if (most > 0) {
      ::signal(SIGXFSZ, SIG_IGN);  // an error of write, not a death
      const rlimit limit{most, most};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char*> words{const_cast<char*>(program)};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }

  pid_t id_;
  int status_ = 0;
};

}  // namespace polyhead::cli
