// Cuts one allocation into aligned pieces.
#pragma once

#include <cstddef>

#include "core/team.h"

namespace polyhead::cpu {

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  // count elements, aligned to 64 bytes; null while measuring.
  template <class T>
  T* take(std::size_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  std::size_t used() const noexcept { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

// Workspace(carver, sizes...) takes its pieces twice: first to measure, then for good.
template <class Workspace, class... Sizes>
Workspace carve(Scratch& scratch, const Sizes&... sizes) {
  Carver measure(nullptr);
  Workspace(measure, sizes...);
  Carver carver(scratch.reserve(measure.used()));
  return Workspace(carver, sizes...);
}

}  // namespace polyhead::cpu
