// How numbers are said in sentences.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "study/comparison.h"

namespace polyhead::study {

std::string percent(double share);     // "84.4 %"
std::string two_digits(double value);  // "0.42"
std::string number(double value);      // "42"

using Shown = std::string (*)(double);
// "0.4 to 0.6", or "0.4" if all are alike.
std::string range(const std::vector<double>& values, Shown shown);
// "0.42 (0.38 to 0.46)", or "0.42" if there is no interval.
std::string with_interval(const Estimate& found, Shown shown);
// "1 seed", "3 seeds"
std::string counted(std::size_t count, const std::string& what);
// "2 of 3 seeds"
std::string of_seeds(std::size_t some, std::size_t all);
// "a, b and c"
std::string listed(const std::vector<std::string>& all);

// One value of each.
template <class All, class Value>
std::vector<double> values_of(const All& all, const Value& value) {
  std::vector<double> values;
  for (const auto& one : all) values.push_back(value(one));
  return values;
}

// Whether a value rises or falls with the number of heads, over all runs and compared with shuffled ones.
struct Trend {
  double rho = 0;  // Spearman's correlation
  double p = 1;    // the share of shuffles with as large a correlation

  bool rises() const { return believed() && rho > 0; }
  bool falls() const { return believed() && rho < 0; }
  bool believed() const { return p <= 0.01; }  // a dozen of them are looked at
};
Trend trend(const std::vector<Contender>& contenders, const std::function<double(const Course&)>& value);
std::string in_words(const Trend& trend);  // "rank correlation 0.91, p < 0.001"

}  // namespace polyhead::study
