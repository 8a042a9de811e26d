#include "heads/intervals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/draws.h"

namespace polyhead::heads {
namespace {

constexpr std::size_t kDraws = 999;

// The incomplete beta function's continued fraction (Lentz), for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kDone = 1e-14;
  constexpr int kMost = 300;
  const auto away = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), product = d;
  for (int m = 1; m < kMost; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    for (const double term : {even, odd}) {
      d = 1 / away(1 + term * d);
      c = away(1 + term / c);
      product *= c * d;
    }
    if (std::abs(c * d - 1) < kDone) break;
  }
  return product;
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

Resamples::Resamples(const std::vector<int>& groups) {
  constexpr std::uint32_t kDomain = 0x626f6f74u;  // separate from other users of a seed
  std::map<int, std::vector<std::size_t>> members;
  for (std::size_t n = 0; n < groups.size(); ++n) members[groups[n]].push_back(n);
  std::vector<const std::vector<std::size_t>*> all;
  for (const auto& [group, sequences] : members) all.push_back(&sequences);
  Draws draws(groups.size(), 0, 0, kDomain);
  const auto one_of = [&](const auto& some) { return some[static_cast<std::size_t>(draws.below(std::ssize(some)))]; };
  for (std::size_t n = 0; groups.size() > 1 && n < kDraws; ++n) {
    std::vector<std::int32_t>& counts = counts_.emplace_back(groups.size());
    for (std::size_t g = 0; g < all.size(); ++g) {
      const std::vector<std::size_t>& group = *one_of(all);
      for (std::size_t k = 0; k < group.size(); ++k) ++counts[one_of(group)];
    }
  }
}

std::vector<double> Resamples::each(const std::function<double(const std::vector<std::int32_t>&)>& value) const {
  std::vector<double> values(counts_.size());
  std::transform(counts_.begin(), counts_.end(), values.begin(), value);
  return values;
}

Interval interval_of(std::vector<double>& values) {
  constexpr double kTail = 0.025;
  std::sort(values.begin(), values.end());
  const auto tail = static_cast<std::size_t>(kTail * static_cast<double>(values.size() + 1)) - 1;
  return {values[tail], values[values.size() - 1 - tail]};
}

double normal_p(double mean, double error) {
  if (!(error > 0)) return mean > 0 ? 0 : 1;
  return 0.5 * std::erfc(mean / error / std::sqrt(2.0));
}

double student_p(double mean, double error, std::int64_t freedom) {
  if (!(error > 0)) return mean == 0 ? 1 : 0;
  const double t = mean / error, n = static_cast<double>(freedom);
  return incomplete_beta(n / 2, 0.5, n / (n + t * t));
}

std::vector<bool> findings(const std::vector<double>& p, double false_share) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::size_t found = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (p[order[n]] <= false_share * static_cast<double>(n + 1) / static_cast<double>(p.size())) found = n + 1;
  }
  std::vector<bool> are(p.size());
  for (std::size_t n = 0; n < found; ++n) are[order[n]] = true;
  return are;
}

}  // namespace polyhead::heads
