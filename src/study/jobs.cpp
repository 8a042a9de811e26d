#include "study/jobs.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace polyhead::study {

void run_jobs(int threads, const std::vector<Job>& jobs) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    Context context(1);
    for (std::size_t n; (n = next.fetch_add(1)) < jobs.size();) {
      try {
        jobs[n](context);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = jobs.size();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int n = 1; n < threads; ++n) workers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace polyhead::study
