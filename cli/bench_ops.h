// The ops that `polyhead bench` times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "polyhead/attention.h"

namespace polyhead::cli {

struct BenchShape {
  std::int64_t batch, heads, tokens, dim;
};

struct BenchSettings {
  DType dtype = DType::f32;
  StatisticsSet statistics = StatisticsSet::none;
  bool causal = false;
};

// A call that is ready to be timed, and what it does. The call holds its tensors.
struct Trial {
  std::function<void(Context&)> call;
  double flops;
  double scores;  // visible query-key pairs; 0 if the op has none
};

struct BenchOp {
  std::string name, what;
  bool takes_statistics;
  bool takes_mask;   // whether causal makes a difference
  bool has_weights;  // of width x width, which count towards the memory limit
  Trial (*make)(const BenchShape& shape, const BenchSettings& settings);
};
const std::vector<BenchOp>& bench_ops();

}  // namespace polyhead::cli
