// What one rank does in a second, and how long messages between two take: measured here.
#pragma once

#include <functional>

#include "cli/forecast.h"
#include "core/ranks.h"
#include "polyhead/context.h"

namespace polyhead::cli {

// What rates are measured with: the model and one part of a batch or, if that takes more than a second, fewer layers,
// a smaller vocabulary, fewer tokens, a narrower model.
struct Sample {
  model::Config config;
  std::int64_t sequences = 1, tokens = 1;
};
Sample sample_of(const Workload& work);

// By the clock; on one thread by its processor time.
Rates measured_rates(Context& context, const Sample& sample, const std::function<void(const char*)>& on_stage);

// Between ranks 0 and 1; all ranks call it and get the same. Expects two or more.
Link measured_link(Ranks& ranks);

}  // namespace polyhead::cli
