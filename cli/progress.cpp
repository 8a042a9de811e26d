#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "cli/say.h"

namespace polyhead::cli {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// One that can go back to the start of a line.
bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

std::size_t columns() {
  struct winsize size {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

constexpr std::size_t kBarWidth = 24;
constexpr std::string_view kWipe = "\r\x1b[K", kGreen = "\x1b[32m", kPlain = "\x1b[0m";

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
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
  if (terminal_ && shown_) say(std::string(kWipe));
}

double Progress::per_second() const noexcept {
  const double seconds = std::chrono::duration<double>(now_() - begin_).count();
  return seconds > 0 ? static_cast<double>(done_ - first_) / seconds : 0;
}

// "copy 120/600, loss 1.234, 0:12 to go", "study 20 %, 3:12 to go"
std::string Progress::line(const std::string& note) const {
  const double rate = per_second();
  const bool on = done_ < total_ && rate > 0;
  const std::string share = unit_ == Unit::percent
                                ? fmt::format("{} %", 100 * done_ / std::max<std::int64_t>(total_, 1))
                                : fmt::format("{}/{}", done_, total_);
  return fmt::format("{} {}{}{}{}", what_, share, note.empty() ? "" : ", ", note,
                     on ? fmt::format(", {} to go", clock_text(static_cast<double>(total_ - done_) / rate)) : "");
}

// The line behind a bar, cut to the width of the terminal.
std::string Progress::bar(const std::string& line) const {
  const std::size_t width = columns();
  if (width < 2 * kBarWidth) return line.substr(0, width - 1);
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarWidth));
  return fmt::format("[{}{:=<{}}{}{:<{}}] {}", colours_ ? kGreen : "", "", full, colours_ ? kPlain : "", "",
                     kBarWidth - full, line.substr(0, width - kBarWidth - 4));
}

void Progress::update(std::int64_t done, const std::string& note) {
  using namespace std::chrono_literals;
  done_ = done;
  const Clock::time_point now = now_();
  if (now < next_ && done < total_) return;
  const bool first = next_ == begin_;  // a line about the first step says little; the bar shows it all the same
  next_ = now + (terminal_ ? Clock::duration(100ms) : Clock::duration(5s));
  if (terminal_) {
    say(fmt::format("{}{}", kWipe, bar(line(note))));
    shown_ = true;
  } else if (!first || done >= total_) {
    say(line(note) + "\n");
  }
}

}  // namespace polyhead::cli
