#include "report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/text.h"

namespace polyhead::report {
namespace {

double nice_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double multiple : {1.0, 2.0, 2.5, 5.0}) {
    if (multiple == 2.5 && power == 1) continue;  // steps of 2.5 suit no whole numbers
    if (rough <= multiple * power * (1 + 1e-9)) return multiple * power;
  }
  return 10 * power;
}

int decimals_for(double step) {
  int decimals = 0;
  for (double scaled = step; decimals < 9 && std::abs(scaled - std::round(scaled)) > 1e-6 * scaled; ++decimals) {
    scaled *= 10;
  }
  return decimals;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
  // A single value, or values that differ only by rounding, get room around them.
  const double size = std::max(std::abs(low), std::abs(high));
  constexpr double kTiny = 1e-290;
  if (high - low <= 1e-9 * size || size < kTiny) {
    const double room = size < kTiny ? 1 : 0.1 * size;
    low -= room;
    high += room;
  }
  const double step = nice_step((high - low) / count);
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  std::vector<double> ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

Range range_for(double low, double high, const std::vector<double>& ticks) {
  const double step = ticks[1] - ticks[0], room = 0.04 * (high - low);
  Range range{ticks.front(), ticks.back()};
  if (low - range.low > 0.4 * step) range.low = low - room;
  if (range.high - high > 0.4 * step) range.high = high + room;
  return range;
}

std::vector<double> log_ticks(double low, double high) {
  std::vector<double> ticks, decades;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high * (1 + 1e-9); power *= 10) {
    for (const double multiple : {1.0, 2.0, 5.0}) {
      const double tick = multiple * power;
      if (tick < low * (1 - 1e-9) || tick > high * (1 + 1e-9)) continue;
      ticks.push_back(tick);
      if (multiple == 1) decades.push_back(tick);
    }
  }
  return ticks.size() > 8 ? decades : ticks;
}

std::vector<std::string> tick_labels(std::span<const double> ticks) {
  double largest = 0;
  for (const double tick : ticks) largest = std::max(largest, std::abs(tick));
  const double unit = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : 1;
  const std::string suffix = unit == 1e9 ? "G" : unit == 1e6 ? "M" : "";
  int decimals = 0;
  for (const double tick : ticks) decimals = std::max(decimals, decimals_for(std::abs(tick) / unit));
  std::vector<std::string> labels;
  for (const double tick : ticks) {
    const double shown = tick == 0 ? 0 : tick / unit;  // no "-0"
    const bool tiny = largest < 1e-4 && largest > 0;
    labels.push_back(typeset(tiny ? fmt::format("{:g}", shown) : fmt::format("{:.{}f}", shown, decimals)) +
                     (shown == 0 ? "" : suffix));
  }
  return labels;
}

Scale::Scale(double low, double high, double from, double to, bool logarithmic)
    : low_(logarithmic ? std::log(low) : low),
      high_(logarithmic ? std::log(high) : high),
      from_(from),
      to_(to),
      logarithmic_(logarithmic) {}

double Scale::operator()(double value) const {
  if (high_ == low_) return (from_ + to_) / 2;
  const double place = ((logarithmic_ ? std::log(value) : value) - low_) / (high_ - low_);
  return from_ + place * (to_ - from_);
}

}  // namespace polyhead::report
