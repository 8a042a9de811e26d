// Tensors of the tests as C has them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "polyhead/polyhead_c.h"
#include "polyhead/tensor.h"

namespace polyhead::test {

// Keeps what the pointers of C point to.
class InC {
 public:
  // NULL for an absent one.
  polyhead_tensor* operator()(const ConstTensorView& view) {
    if (!view.present()) return nullptr;
    polyhead_view& made = made_.emplace_back();
    for (int axis = 0; axis < view.rank(); ++axis) {
      made.shape[axis] = view.shape(axis);
      made.strides[axis] = view.stride(axis);
    }
    static constexpr polyhead_dtype kTypes[] = {{2, 64, 1}, {2, 32, 1}, {2, 16, 1}, {4, 16, 1},
                                                {0, 32, 1}, {0, 64, 1}, {6, 8, 1}};
    made.tensor = {const_cast<void*>(view.data()),
                   {1, 0},
                   view.rank(),
                   kTypes[static_cast<int>(view.dtype())],
                   made.shape,
                   made.strides,
                   0};
    return &made.tensor;
  }

 private:
  std::deque<polyhead_view> made_;
};

inline void expect_ok(polyhead_status status) { ASSERT_EQ(status, POLYHEAD_OK) << polyhead_last_error(); }

inline void expect_refused(polyhead_status status, polyhead_status expected, const std::string& words) {
  EXPECT_EQ(status, expected) << polyhead_last_error();
  EXPECT_NE(std::string(polyhead_last_error()).find(words), std::string::npos) << polyhead_last_error();
}

struct CContext {
  explicit CContext(int threads = 2) { expect_ok(polyhead_context_create(threads, &context)); }
  ~CContext() { polyhead_context_free(context); }
  CContext(const CContext&) = delete;
  CContext& operator=(const CContext&) = delete;
  operator polyhead_context*() const { return context; }
  polyhead_context* context = nullptr;
};

}  // namespace polyhead::test
