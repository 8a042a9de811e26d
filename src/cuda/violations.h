// What a kernel reports about a value that is not allowed. Queue::synchronise throws it.
#pragma once

#include "kernels/bad_value.h"

namespace polyhead::cuda {

struct Violation {
  kernels::BadValue bad;
  int op = 0;  // its number in the queue's list
};

// Passed by value to kernels. The first violation is kept.
struct Violations {
  int* claimed = nullptr;
  Violation* first = nullptr;
  int op = 0;

#ifdef __CUDACC__
  __device__ void add(const kernels::BadValue& bad) const {
    if (atomicExch(claimed, 1) != 0) return;
    first->bad = bad;
    first->op = op;
  }
#endif
};

}  // namespace polyhead::cuda
