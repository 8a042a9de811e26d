// Numbers that the reference can be run in: what a plain implementation computes in and stores.
#pragma once

namespace polyhead::test {

// Arithmetic in Arithmetic; what goes through memory goes through Storage.
template <class Arithmetic, class Storage>
struct Rounded {
  using Real = Arithmetic;
  static Real stored(Real x) noexcept { return static_cast<Real>(Storage(x)); }
};
struct LongDoubles {
  using Real = long double;
  static Real stored(Real x) noexcept { return x; }
};

}  // namespace polyhead::test
