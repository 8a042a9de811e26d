// The progress of a long command, on stderr: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace polyhead::cli {

class Ticker;

class Progress {
 public:
  enum class Unit { count, percent };  // "12/600" or "2 %"
  using Clock = std::chrono::steady_clock;

  // `what`: the name shown, "copy". `done` of `total` were done before this process began and do not count for the
  // rate. A total of 0 means unknown: "loading run, 0:12 so far". A separate thread keeps showing the time, so that no
  // work, however long, is silent.
  explicit Progress(std::string what, std::int64_t total = 0, std::int64_t done = 0, Unit unit = Unit::count);
  // With a clock that a test controls, and without the thread.
  Progress(std::string what, std::int64_t total, std::int64_t done, Unit unit, std::function<Clock::time_point()> now);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // wipes the bar, so that the next output has the line to itself

  // May be called at any rate. Shown up to ten times a second on a terminal; elsewhere after two seconds, then every
  // five, and when all is done. `note` is shown after the bar, "loss 1.234".
  void update(std::int64_t done, const std::string& note);
  void note(const std::string& text) { update(done_, text); }

  void tick() noexcept;  // shows the time if nothing else was shown for a while

  double per_second() const noexcept;  // since construction

 private:
  double seconds_since(Clock::time_point then) const;
  std::string ending() const;
  std::string line() const;
  std::string bar(const std::string& line) const;
  void show(const std::string& ending);

  std::string what_, note_;
  std::int64_t total_, first_, done_;
  Unit unit_;
  bool terminal_, colours_, shown_ = false;
  std::function<Clock::time_point()> now_;
  Clock::time_point begin_ = now_(), last_ = begin_;  // when anything was last shown
  // When the first steps were done, and how many: the time before may have been preparation.
  Clock::time_point stepped_at_ = begin_;
  std::int64_t stepped_ = first_;
  std::mutex mutex_;
  std::unique_ptr<Ticker> ticker_;
};

// 3725 as "1:02:05", 65 as "1:05".
std::string clock_text(double seconds);

}  // namespace polyhead::cli
