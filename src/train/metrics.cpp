#include "train/metrics.h"

#include "io/json.h"
#include "polyhead/error.h"

namespace polyhead::train {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// The line's object, or nothing if it is none.
std::optional<io::Json> parsed(std::string_view line) {
  try {
    io::Json json = io::parse_json(line, kMetricsFile);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer()) return json;
  } catch (const Error&) {
  }
  return std::nullopt;
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& file, std::int64_t step) : lines_((keep_until(file, step), file)) {}

void Metrics::keep_until(const std::filesystem::path& file, std::int64_t step) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const std::string text = io::read_file(file, kMostBytes);
  std::string kept;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != text.npos; at = end + 1) {
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::optional<io::Json> json = parsed(line);
    if (!json || (*json)["step"].get<std::int64_t>() > step) continue;
    kept.append(line).push_back('\n');
    seconds_ = json->value("seconds", seconds_);
    if (!json->contains("loss")) continue;
    last_ = {.step = (*json)["step"].get<std::int64_t>(),
             .loss = json->value("loss", 0.0),
             .gradient_norm = json->value("gradient_norm", 0.0),
             .rate = json->value("rate", 0.0)};
  }
  if (kept != text) io::write_atomically(file, [&](io::Writer& writer) { writer.write(kept); });
}

void Metrics::add(const StepReport& report, double seconds) {
  io::Json json;
  json["step"] = report.step;
  json["loss"] = report.loss;
  json["gradient_norm"] = report.gradient_norm;
  json["rate"] = report.rate;
  json["seconds"] = seconds;
  lines_.append(json.dump() + "\n");
  last_ = report;
}

void Metrics::add(const Validation& validation, double seconds) {
  io::Json json;
  json["step"] = validation.step;
  json["validation_loss"] = validation.loss;
  json["validation_accuracy"] = validation.accuracy;
  json["seconds"] = seconds;
  lines_.append(json.dump() + "\n");
}

}  // namespace polyhead::train
