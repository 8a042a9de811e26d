// From numbers to places on the paper, with ticks that people can read.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace polyhead::report {

// Multiples of 1, 2, 2.5 or 5 times a power of ten, about `count` of them, from at most `low` to at least `high`.
// high - low is finite.
std::vector<double> nice_ticks(double low, double high, int count);

// What an axis spans: up to the outermost ticks if they are near, else a little beyond the values.
struct Range {
  double low = 0, high = 0;
};
Range range_for(double low, double high, const std::vector<double>& ticks);

// Powers of ten within [low, high], with 2 and 5 times each if that gives few. low > 1e-300.
std::vector<double> log_ticks(double low, double high);

// All with the same number of decimals: 0.0, 0.5, 1.0; 10,000; 1.5M.
std::vector<std::string> tick_labels(std::span<const double> ticks);

// Maps [low, high] to [from, to]; on a logarithmic scale low > 0.
class Scale {
 public:
  Scale(double low, double high, double from, double to, bool logarithmic = false);
  double operator()(double value) const;

 private:
  double low_, high_, from_, to_;
  bool logarithmic_;
};

}  // namespace polyhead::report
