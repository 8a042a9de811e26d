#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>

#include "cli/say.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace polyhead::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Whether stderr is a terminal that can return to the start of a line.
bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

using namespace std::chrono_literals;
using Duration = Progress::Clock::duration;

constexpr std::size_t kBarWidth = 24;
constexpr Duration kPatience = 2s;   // how long nothing may be shown at first
constexpr Duration kPause = 5s;      // from line to line
constexpr Duration kSettled = 3s;    // of steps, before estimating how long the rest will take
constexpr Duration kAtOnce = 100ms;  // steps this close together count as one; so do redrawn bars
constexpr const char* kStopping = "stopping; Ctrl-C again ends at once";
constexpr std::string_view kWipe = "\r\x1b[K", kGreen = "\x1b[32m", kPlain = "\x1b[0m";

}  // namespace

// Calls `tick` ten times a second until it is destroyed. Its thread sleeps in poll on an eventfd that signals the end.
class Ticker {
 public:
  explicit Ticker(const std::function<void()>& tick) : end_(eventfd(0, EFD_CLOEXEC)) {
    if (end_ < 0) return;
    try {
      thread_ = std::thread([tick, end = end_] {
        pollfd ended{end, POLLIN, 0};
        for (int found = 0; found == 0 || (found < 0 && errno == EINTR); found = poll(&ended, 1, 100)) tick();
      });
    } catch (const std::system_error&) {
      // No thread available: then only steps are shown.
    }
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker() {
    if (thread_.joinable()) {
      eventfd_write(end_, 1);
      thread_.join();
    }
    if (end_ >= 0) close(end_);
  }

 private:
  int end_;
  std::thread thread_;
};

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

Progress::Progress(std::string what, std::int64_t total, std::int64_t done, Unit unit)
    : Progress(std::move(what), total, done, unit, Clock::now) {
  ticker_ = std::make_unique<Ticker>([this] { tick(); });
}

Progress::Progress(std::string what, std::int64_t total, std::int64_t done, Unit unit,
                   std::function<Clock::time_point()> now)
    : what_(std::move(what)),
      total_(total),
      first_(done),
      done_(done),
      unit_(unit),
      terminal_(is_terminal()),
      colours_(terminal_ && !is_set("NO_COLOR")),
      now_(std::move(now)) {}

Progress::~Progress() {
  ticker_.reset();
  if (terminal_ && shown_) say(std::string(kWipe));
}

double Progress::seconds_since(Clock::time_point then) const {
  return std::chrono::duration<double>(now_() - then).count();
}

double Progress::per_second() const noexcept {
  const double seconds = seconds_since(begin_);
  return seconds > 0 ? static_cast<double>(done_ - first_) / seconds : 0;
}

// ", 0:12 to go", or ", 0:12 so far" if that is not known.
std::string Progress::ending() const {
  if (done_ < total_ && done_ > stepped_ && now_() >= stepped_at_ + kSettled) {
    const double rate = static_cast<double>(done_ - stepped_) / seconds_since(stepped_at_);
    return fmt::format(", {} to go", clock_text(static_cast<double>(total_ - done_) / rate));
  }
  return now_() < begin_ + kPatience ? "" : fmt::format(", {} so far", clock_text(seconds_since(begin_)));
}

// "copy 120/600, loss 1.234", "study 20 %", "loading run". After a signal a step may go on for long: this says that it
// was heard.
std::string Progress::line() const {
  const std::string share = total_ == 0              ? ""
                            : unit_ == Unit::percent ? fmt::format(" {} %", 100 * done_ / total_)
                                                     : fmt::format(" {}/{}", done_, total_);
  const std::string note = Signals::noted() != 0 ? kStopping : note_;
  return fmt::format("{}{}{}{}", what_, share, note.empty() ? "" : ", ", note);
}

// A bar and the line, cut to the width of the terminal.
std::string Progress::bar(const std::string& line) const {
  const std::size_t width = terminal_columns(STDERR_FILENO).value_or(80);
  if (total_ == 0 || width < 2 * kBarWidth) return line.substr(0, width - 1);
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarWidth));
  return fmt::format("[{}{:=<{}}{}{:<{}}] {}", colours_ ? kGreen : "", "", full, colours_ ? kPlain : "", "",
                     kBarWidth - full, line.substr(0, width - kBarWidth - 4));
}

void Progress::show(const std::string& ending) {
  last_ = now_();
  shown_ = true;
  say(terminal_ ? fmt::format("{}{}", kWipe, bar(line() + ending)) : line() + ending + "\n");
}

void Progress::update(std::int64_t done, const std::string& note) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = now_();
  if (done > first_ && (stepped_ == first_ || now < stepped_at_ + kAtOnce)) {
    if (stepped_ == first_) stepped_at_ = now;
    stepped_ = done;
  }
  const bool all = done >= total_ && done_ < total_;  // now, and not before
  done_ = done;
  note_ = note;
  const Duration pause = terminal_ ? kAtOnce : shown_ ? kPause : kPatience;
  if (all || now >= last_ + pause || (terminal_ && !shown_)) show(all ? "" : ending());
}

void Progress::tick() noexcept try {
  const std::lock_guard lock(mutex_);
  const Duration pause = !shown_ ? kPatience : terminal_ ? Duration(1s) : kPause;
  if (now_() >= last_ + pause) show(ending());
} catch (const std::exception&) {
  // A line that cannot be shown is no reason to stop.
}

}  // namespace polyhead::cli
