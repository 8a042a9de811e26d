// How far a long command has come, on stderr: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace polyhead::cli {

class Progress {
 public:
  enum class Unit { count, percent };  // "12/600" or "2 %"
  using Clock = std::chrono::steady_clock;

  // `what` it is about, "copy"; `done` of `total` were done before this process began and do not count for the rate.
  Progress(std::string what, std::int64_t total, std::int64_t done = 0, Unit unit = Unit::count,
           std::function<Clock::time_point()> now = Clock::now);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the bar, so that what is printed next has the line to itself

  // As often as you like: it shows what it is told ten times a second on a terminal, every five seconds elsewhere, and
  // when all is done. `note` is shown behind the bar, "loss 1.234".
  void update(std::int64_t done, const std::string& note);

  double per_second() const noexcept;  // since this process began

 private:
  std::string line(const std::string& note) const;
  std::string bar(const std::string& line) const;

  std::string what_;
  std::int64_t total_, first_, done_;
  Unit unit_;
  bool terminal_, colours_, shown_ = false;
  std::function<Clock::time_point()> now_;
  Clock::time_point begin_ = now_(), next_ = begin_;
};

// 3725 as "1:02:05", 65 as "1:05".
std::string clock_text(double seconds);

}  // namespace polyhead::cli
