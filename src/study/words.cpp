#include "study/words.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/draws.h"

namespace polyhead::study {

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share + 0.0);
  return text[0] == '-' && std::abs(100 * share) < 0.05 ? text + 1 : text;
}
std::string two_digits(double value) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", std::abs(value) < 0.005 ? 0.0 : value);
  return text;
}
std::string number(double value) { return std::to_string(static_cast<std::int64_t>(std::llround(value))); }

std::string range(const std::vector<double>& values, Shown shown) {
  const Spread found = spread(values);
  const std::string low = shown(found.low), high = shown(found.high);
  return low == high ? low : low + " to " + high;
}

std::string with_interval(const Estimate& found, Shown shown) {
  const std::string mean = shown(found.mean);
  if (found.low == found.high) return mean;
  return mean + " (" + shown(found.low) + " to " + shown(found.high) + ")";
}

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}
std::string of_seeds(std::size_t some, std::size_t all) { return std::to_string(some) + " of " + counted(all, "seed"); }

std::string listed(const std::vector<std::string>& all) {
  std::string text;
  for (std::size_t n = 0; n < all.size(); ++n) text += (n == 0 ? "" : n + 1 == all.size() ? " and " : ", ") + all[n];
  return text;
}

Trend trend(const std::vector<Contender>& contenders, const std::function<double(const Course&)>& value) {
  std::vector<double> heads, values;
  for (const Contender& contender : contenders) {
    for (const Course& course : contender.courses) {
      heads.push_back(static_cast<double>(contender.heads));
      values.push_back(value(course));
    }
  }
  Trend found{heads::rank_correlation(heads, values), 1};
  constexpr int kShuffles = 4000;
  int as_large = 0;
  Draws draws(1, 0, 0, 0);
  for (int n = 0; n < kShuffles; ++n) {
    draws.shuffle(values);
    as_large += std::abs(heads::rank_correlation(heads, values)) >= std::abs(found.rho) - 1e-12;
  }
  found.p = (as_large + 1.0) / (kShuffles + 1.0);
  return found;
}

std::string in_words(const Trend& trend) {
  char text[64];
  std::snprintf(text, sizeof text, "rank correlation %s, p %s %.2g", two_digits(trend.rho).c_str(),
                trend.p < 0.001 ? "<" : "=", std::max(trend.p, 0.001));
  return text;
}

}  // namespace polyhead::study
