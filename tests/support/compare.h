// THE rule of correctness, for every element type and backend: the largest error of a result against the exact one is
// at most twice that of the plain implementation in the same type, plus two units in the last place of the
// storage type at the result's largest value. The largest, not the mean, so that nothing forgives a single wrong
// element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "polyhead/attention.h"
#include "reference/array.h"

namespace polyhead::test {

// The distance between neighbours of a type at |x|.
inline double last_place(DType dtype, double x) {
  struct Format {
    int fraction_bits, smallest_exponent;
  };
  const Format format = dtype == DType::f64   ? Format{52, -1022}
                        : dtype == DType::f32 ? Format{23, -126}
                        : dtype == DType::f16 ? Format{10, -14}
                                              : Format{7, -126};
  const int exponent = x == 0 ? format.smallest_exponent : std::max(std::ilogb(x), format.smallest_exponent);
  return std::ldexp(1, exponent - format.fraction_bits);
}

// "[1,0,7]": the indices of the n-th element of a shape.
inline std::string index_text(const Dims& shape, std::int64_t n) {
  Dims index(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = n % shape[axis];
    n /= shape[axis];
  }
  return to_string(index);
}

// Infinite and NaN where and as the exact value is: no distance from there to a number is small.
inline bool same_kind(double value, double exact) {
  if (std::isnan(exact)) return std::isnan(value);
  return std::isinf(exact) ? value == exact : std::isfinite(value);
}

struct Distance {
  double largest = 0;           // over the elements that are finite
  std::int64_t at = -1;         // where
  std::int64_t misplaced = -1;  // the first element of another kind than the exact one, or -1
};

inline Distance distance_of(const std::vector<double>& values, const std::vector<double>& exact) {
  Distance distance;
  for (std::size_t n = 0; n < exact.size(); ++n) {
    if (!same_kind(values[n], exact[n])) {
      if (distance.misplaced < 0) distance.misplaced = static_cast<std::int64_t>(n);
    } else if (std::isfinite(exact[n]) && (distance.at < 0 || std::abs(values[n] - exact[n]) > distance.largest)) {
      distance.largest = std::abs(values[n] - exact[n]);
      distance.at = static_cast<std::int64_t>(n);
    }
  }
  return distance;
}

// The same elements of a result: as it came, exactly, and from the plain implementation. `at` are their places in it.
struct Elements {
  std::vector<double> got, exact, plain;
  std::vector<std::int64_t> at;
};

// The rule itself, for elements of `whole` that are one quantity.
inline ::testing::AssertionResult near_enough(const std::string& what, const Elements& x,
                                              const ConstTensorView& whole) {
  const auto fail = [&](std::int64_t n, const std::string& why) {
    const auto i = static_cast<std::size_t>(n);
    return ::testing::AssertionFailure() << what << " " << describe(whole) << " at "
                                         << index_text(whole.shape(), x.at[i]) << ": got " << x.got[i] << ", expected "
                                         << x.exact[i] << " (plain " << x.plain[i] << ") -- " << why;
  };
  const Distance yardstick = distance_of(x.plain, x.exact), distance = distance_of(x.got, x.exact);
  if (yardstick.misplaced >= 0) return fail(yardstick.misplaced, "the yardstick itself is broken here");
  if (distance.misplaced >= 0) return fail(distance.misplaced, "only one of them is finite");
  double largest = 0;
  for (const double e : x.exact) {
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  }
  const double allowed = 2 * yardstick.largest + 2 * last_place(whole.dtype(), largest);
  if (distance.largest <= allowed) return ::testing::AssertionSuccess();
  return fail(distance.at, "off by " + std::to_string(distance.largest / allowed) + " times the allowed " +
                               ::testing::PrintToString(allowed));
}

// Whether `got` is as near to `exact` as the rule asks. kind_of(n) says which elements are one quantity.
template <class KindOf>
::testing::AssertionResult near_enough(const std::string& what, const ConstTensorView& got,
                                       const ConstTensorView& exact, const ConstTensorView& plain,
                                       const KindOf& kind_of) {
  if (got.shape() != exact.shape() || got.dtype() != plain.dtype()) {
    return ::testing::AssertionFailure() << what << " is " << describe(got) << ", expected " << describe(plain);
  }
  const reference::Array<double> g(got), e(exact), p(plain);
  std::map<int, Elements> kinds;
  for (std::size_t n = 0; n < e.values().size(); ++n) {
    Elements& elements = kinds[kind_of(static_cast<std::int64_t>(n))];
    elements.got.push_back(g.values()[n]);
    elements.exact.push_back(e.values()[n]);
    elements.plain.push_back(p.values()[n]);
    elements.at.push_back(static_cast<std::int64_t>(n));
  }
  for (const auto& [kind, elements] : kinds) {
    auto result = near_enough(what, elements, got);
    if (!result) return result;
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult near_enough(const std::string& what, const ConstTensorView& got,
                                              const ConstTensorView& exact, const ConstTensorView& plain) {
  return near_enough(what, got, exact, plain, [](std::int64_t) { return 0; });
}

// Statistics, fields on the last axis: the weights are one quantity, every other field is its own, so that nats or
// positions do not lend their tolerance to weights.
inline ::testing::AssertionResult statistics_near_enough(const std::string& what, const ConstTensorView& got,
                                                         const ConstTensorView& exact, const ConstTensorView& plain) {
  const std::int64_t fields = exact.shape(exact.rank() - 1);
  return near_enough(what, got, exact, plain, [=](std::int64_t n) {
    const auto field = static_cast<int>(n % fields);
    const auto statistic = static_cast<Statistic>(field);
    const bool weight = statistic == Statistic::max_weight || statistic == Statistic::first_weight ||
                        statistic == Statistic::self_weight || statistic == Statistic::previous_weight ||
                        statistic == Statistic::next_weight || statistic == Statistic::marked_weight ||
                        statistic >= Statistic::target_weight;
    return weight ? -1 : field;
  });
}

}  // namespace polyhead::test
