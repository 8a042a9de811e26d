// The test of a GPU's kernels; usage() has its options. Items are run by child processes, each with a context of its
// own, so that one that breaks the device or hangs costs no other its verdict. bench/gpu/sanitize.py runs it under
// compute-sanitizer.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cuda/items.h"

namespace polyhead::test::gpu {
namespace {

using Clock = std::chrono::steady_clock;

struct Request {
  std::string filter;
  Device device{Device::Kind::cuda, 0};
  int jobs = 12;
  int seconds = 300;
  int item_seconds = 20;
  int draws = 200, first = 1;
};

std::string verdict_of(Context& context, const Item& item) {
  try {
    return item.run(context);
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
}

// A child: items from `begin` in steps of `step`, a line each: number, tab, verdict. Leaves when the device does not
// answer any more; the parent goes on behind that item.
[[noreturn]] void work(const std::vector<Item>& items, std::size_t begin, std::size_t step, const Request& request,
                       int to) {
  const auto say = [&](std::size_t n, std::string verdict) {
    for (char& letter : verdict) letter = letter == '\n' ? ' ' : letter;
    const std::string line = std::to_string(n) + "\t" + verdict.substr(0, 700) + "\n";
    if (write(to, line.data(), line.size()) < 0) _exit(3);
  };
  try {
    Context context = request.device.kind == Device::Kind::cpu ? Context(1) : Context(request.device);
    for (std::size_t n = begin; n < items.size(); n += step) {
      alarm(static_cast<unsigned>(request.item_seconds));
      say(n, verdict_of(context, items[n]));
      try {
        context.synchronise();
      } catch (const std::exception&) {
        _exit(2);
      }
    }
  } catch (const std::exception& error) {
    say(begin, std::string("no context: ") + error.what());
    _exit(2);
  }
  _exit(0);
}

struct Child {
  pid_t pid = 0;
  int from = -1;
  std::size_t next = 0;  // the item it is at
  std::string text;      // of an unfinished line
};

class Run {
 public:
  Run(std::vector<Item> items, const Request& request)
      : items_(std::move(items)),
        request_(request),
        step_(static_cast<std::size_t>(request.jobs)),
        end_(Clock::now() + std::chrono::seconds(request.seconds)) {}

  int run() {
    for (std::size_t n = 0; n < step_ && n < items_.size(); ++n) start(n);
    while (!children_.empty()) {
      if (Clock::now() > end_) return stop();
      listen();
    }
    return summary();
  }

 private:
  void start(std::size_t begin) {
    int ends[2];
    if (begin >= items_.size() || pipe(ends) != 0) return;
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      work(items_, begin, step_, request_, ends[1]);
    }
    close(ends[1]);
    children_[ends[0]] = {pid, ends[0], begin, {}};
  }

  void listen() {
    std::vector<pollfd> ends;
    for (const auto& [from, child] : children_) ends.push_back({from, POLLIN, 0});
    if (poll(ends.data(), ends.size(), 1000) <= 0) return;
    for (const pollfd& end : ends) {
      if (end.revents != 0) read_from(end.fd);
    }
  }

  void read_from(int from) {
    Child& child = children_[from];
    char buffer[4096];
    const ssize_t count = read(from, buffer, sizeof buffer);
    if (count <= 0) return finish(from);
    child.text.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end; (end = child.text.find('\n')) != std::string::npos; child.text.erase(0, end + 1)) {
      const std::string line = child.text.substr(0, end);
      const std::size_t n = std::strtoull(line.c_str(), nullptr, 10);
      judge(n, line.substr(line.find('\t') + 1));
      child.next = n + step_;
    }
  }

  // The child is gone. If it left before its last item, that one is to blame, and another child goes on.
  void finish(int from) {
    const Child child = children_[from];
    children_.erase(from);
    close(from);
    int status = 0;
    waitpid(child.pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return start(child.next);
    if (child.next >= items_.size()) return;
    judge(child.next, WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status)) : "died");
    start(child.next + step_);
  }

  void judge(std::size_t n, const std::string& verdict) {
    if (verdict.empty()) {
      ++passed_;
      return;
    }
    ++failed_;
    if (failed_ <= 80) std::printf("FAILED %s: %s\n", items_[n].name.c_str(), verdict.c_str());
  }

  int stop() {
    for (const auto& [from, child] : children_) kill(child.pid, SIGKILL);
    std::printf("stopped: out of time\n");
    failed_ += items_.size() - passed_ - failed_;
    return summary();
  }

  int summary() const {
    std::printf("%zu passed, %zu failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

  const std::vector<Item> items_;
  const Request& request_;
  const std::size_t step_;
  const Clock::time_point end_;
  std::map<int, Child> children_;  // by the end of the pipe
  std::size_t passed_ = 0, failed_ = 0;
};

std::vector<Item> chosen(const Request& request) {
  std::vector<Item> items;
  for (const auto& list :
       {queue_items(), value_items(), op_items(), training_items(), model_items(), decoding_items(), attention_items(),
        many_tiles_items(), gradient_items(), drawn_items(request.first, request.draws)}) {
    for (const Item& item : list) {
      if (item.name.find(request.filter) != std::string::npos) items.push_back(item);
    }
  }
  return items;
}

int usage() {
  std::fprintf(stderr,
               "usage: polyhead_gpu_check [--filter TEXT] [--draws N] [--first SEED] [--device cuda|cpu] [--jobs N] "
               "[--seconds N] [--item-seconds N]\n"
               "cpu: attention by the CPU's kernels, to see whether a draw is at fault or a GPU\n");
  return 2;
}

}  // namespace
}  // namespace polyhead::test::gpu

int main(int count, char** words) {
  using namespace polyhead::test::gpu;
  Request request;
  const std::pair<const char*, int*> numbers[] = {{"--jobs", &request.jobs},
                                                  {"--seconds", &request.seconds},
                                                  {"--item-seconds", &request.item_seconds},
                                                  {"--draws", &request.draws},
                                                  {"--first", &request.first}};
  for (int n = 1; n + 1 < count; n += 2) {
    const std::string word = words[n], value = words[n + 1];
    const auto* number =
        std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& x) { return word == x.first; });
    if (number != std::end(numbers)) {
      *number->second = std::atoi(value.c_str());
    } else if (word == "--filter") {
      request.filter = value;
    } else if (word == "--device" && (value == "cpu" || value == "cuda")) {
      if (value == "cpu") request.device = {};
    } else {
      return usage();
    }
  }
  if (count % 2 == 0 || request.jobs < 1 || request.item_seconds < 1 || request.draws < 0 || request.first < 0) {
    return usage();
  }
  try {
    return Run(chosen(request), request).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "polyhead_gpu_check: %s\n", error.what());
    return 1;
  }
}
