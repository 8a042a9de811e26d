#include "study/jobs.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "ops/executors.h"

namespace polyhead::study {

Context context_for_jobs(Device device) { return ops::context_of_one_thread(device); }

void run_jobs(Device device, int threads, const std::vector<Job>& jobs) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Context context = context_for_jobs(device);
      for (std::size_t n; (n = next.fetch_add(1)) < jobs.size();) jobs[n](context);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = jobs.size();
    }
  };
  {
    std::vector<std::jthread> workers;
    try {
      for (int n = 1; n < threads; ++n) workers.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads available: the existing ones do the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace polyhead::study
