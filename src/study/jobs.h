// Many small trainings side by side: one thread each uses the machine better than threads that share one small model.
#pragma once

#include <functional>
#include <stdexcept>
#include <vector>

#include "polyhead/context.h"

namespace polyhead::study {

// The user wants to stop.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

using Job = std::function<void(Context&)>;

// Runs all jobs, in order, on `threads` threads, each with its own context on the device: one CPU thread, or one queue
// of the GPU. If one throws, no more are started, and the first exception is rethrown when the running ones have ended.
void run_jobs(Device device, int threads, const std::vector<Job>& jobs);
Context context_for_jobs(Device device);

}  // namespace polyhead::study
