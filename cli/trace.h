// Multi-head attention step by step: what `polyhead trace` computes and how it is shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/report.h"
#include "polyhead/tensor.h"

namespace polyhead::cli {

struct Sizes {
  std::int64_t batch = 4, tokens = 16, width = 512, heads = 4;
};

// One step: its shape, and its numbers if there are few enough to look at.
struct Step {
  std::string name;
  Dims shape;
  std::string how;
  std::vector<double> values = {};
};

struct Trace {
  std::vector<Step> steps;
  Table heads;                  // what every head did, from the engine's own statistics
  double weight_sum_error = 0;  // largest |1 - sum of a row of weights|
  double engine_error = 0;      // largest difference between the engine and plain loops
  // Columns of the width that change when head 0 is knocked out, before and after W_O.
  std::int64_t changed_before = 0, changed_after = 0;
};

Trace trace_attention(const Sizes& sizes, bool causal, std::int64_t seed);
bool few_enough(const Sizes& sizes);  // to print every number

// The worked example of two heads that read one sentence in parallel.
Report crews_report();

std::vector<double> values_of(const ConstTensorView& view);  // f32, in logical order
std::string matrix_text(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<std::string>& columns, const double* values);
void add_steps(const std::vector<Step>& steps, Report& report);  // to its JSON and CSV

}  // namespace polyhead::cli
