#include "train/metrics.h"

#include <algorithm>
#include <vector>

#include "io/json.h"
#include "polyhead/error.h"

namespace polyhead::train {
namespace {

constexpr std::size_t kMostLine = 1 << 16;

// The line's object, or nothing if it is not ours: a step and other numbers.
std::optional<io::Json> parsed(std::string_view line) {
  try {
    io::Json json = io::parse_json(line, kMetricsFile);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
    for (const auto& [key, value] : json.items()) {
      if (!value.is_number() && !value.is_null()) return std::nullopt;  // null: a number that was not finite
    }
    return json;
  } catch (const Error&) {
    return std::nullopt;
  }
}

double number_in(const io::Json& json, const char* key, double otherwise) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
}

// visit(line) for every line of a file of any length, without the newline. A line too long to be ours comes in pieces,
// a last line without a newline not at all.
template <class Visit>
void for_each_line(const std::filesystem::path& path, const Visit& visit) {
  const io::Reader file(path);
  std::string rest;
  std::vector<char> part(kMostLine);
  for (std::uint64_t at = 0; at < file.size();) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), file.size() - at));
    file.read(at, part.data(), size);
    at += size;
    rest.append(part.data(), size);
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != rest.npos; begin = end + 1) {
      visit(std::string_view(rest).substr(begin, end - begin));
    }
    rest.erase(0, begin);
    if (rest.size() <= kMostLine) continue;
    visit(rest);
    rest.clear();
  }
}

}  // namespace

Metrics::Metrics(const std::filesystem::path& file, std::int64_t step) : lines_((keep_until(file, step), file)) {}

void Metrics::keep_until(const std::filesystem::path& file, std::int64_t step) {
  if (!io::is_there(file)) return;
  const auto stays = [&](const std::optional<io::Json>& json) {
    return json && (*json)["step"].get<std::int64_t>() <= step;
  };
  std::uint64_t kept = 0;
  for_each_line(file, [&](std::string_view line) {
    const std::optional<io::Json> json = parsed(line);
    if (!stays(json)) return;
    kept += line.size() + 1;
    seconds_ = number_in(*json, "seconds", seconds_);
    if (!json->contains("loss")) return;
    last_ = {.step = (*json)["step"].get<std::int64_t>(),
             .loss = number_in(*json, "loss", 0),
             .gradient_norm = number_in(*json, "gradient_norm", 0),
             .rate = number_in(*json, "rate", 0)};
  });
  if (kept == io::Reader(file).size()) return;
  io::write_atomically(file, [&](io::Writer& writer) {
    for_each_line(file, [&](std::string_view line) {
      if (!stays(parsed(line))) return;
      writer.write(line);
      writer.write("\n");
    });
  });
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
