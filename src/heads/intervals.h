// How sure a number over sequences is, and how many of many findings chance would bring.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace polyhead::heads {

struct Interval {
  double low = 0, high = 0;
};

// Draws of as many sequences as there are, with replacement: what other samples might have been. Sequences of a group
// are alike, so groups are drawn first and then sequences of each. All numbers over the same sequences share the draws.
class Resamples {
 public:
  explicit Resamples(const std::vector<int>& groups);  // of every sequence

  // The number over each draw; `value` receives how often each sequence is in it.
  std::vector<double> each(const std::function<double(const std::vector<std::int32_t>&)>& value) const;

 private:
  std::vector<std::vector<std::int32_t>> counts_;
};

// Of 95 %, by percentiles; sorts the values.
Interval interval_of(std::vector<double>& values);

// One-sided, of a mean above 0 with this standard error.
double normal_p(double mean, double error);
// Two-sided, of a mean that differs from 0.
double student_p(double mean, double error, std::int64_t freedom);

// Benjamini and Hochberg: which of these may be called findings if one in twenty of those called so may be chance.
std::vector<bool> findings(const std::vector<double>& p, double false_share = 0.05);

}  // namespace polyhead::heads
