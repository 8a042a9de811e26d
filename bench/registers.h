// What the processors give when nothing but them can limit: multiply-adds in registers.
#pragma once

#include <cstdint>

namespace polyhead::bench {

// So many multiply-adds of f32, shared out evenly among the threads.
void multiply_adds(std::int64_t count, int threads);

}  // namespace polyhead::bench
