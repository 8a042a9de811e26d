// metrics.jsonl: a line of JSON for every step that is logged and for every validation.
#pragma once

#include <filesystem>
#include <optional>

#include "io/file.h"
#include "train/trainer.h"

namespace polyhead::train {

inline constexpr const char* kMetricsFile = "metrics.jsonl";

struct Validation {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0;
};

class Metrics {
 public:
  // Continues after `step`: drops the lines of later steps, which will be taken again, and a line that a crash cut
  // short.
  Metrics(const std::filesystem::path& file, std::int64_t step);

  // `seconds` of training so far.
  void add(const StepReport& report, double seconds);
  void add(const Validation& validation, double seconds);
  void sync() { lines_.sync(); }

  const StepReport& last() const noexcept { return last_; }  // the last step that was logged
  double seconds() const noexcept { return seconds_; }       // of the last line

 private:
  void keep_until(const std::filesystem::path& file, std::int64_t step);

  StepReport last_;
  double seconds_ = 0;
  io::Appender lines_;
};

}  // namespace polyhead::train
