// Many small trainings side by side: a thread each fills the machine better than threads that share one small model.
#pragma once

#include <functional>
#include <stdexcept>
#include <vector>

#include "polyhead/context.h"

namespace polyhead::study {

// The user wants it to end.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

using Job = std::function<void(Context&)>;

// Runs every job, in order, on as many threads, each with a context of its own on the device: one thread, or one queue
// of the GPU. If one throws, no more are begun, and the first exception is rethrown when those under way have ended.
void run_jobs(Device device, int threads, const std::vector<Job>& jobs);
Context context_for_jobs(Device device);

}  // namespace polyhead::study
