// What a Context holds.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/team.h"
#include "polyhead/context.h"

namespace polyhead {

struct Context::Impl {
  explicit Impl(int thread_count);
  ~Impl();

  // The team of this process. After a fork the parent's team is left alone (its threads are not here) and a new one
  // made.
  Team& team();

  const int threads;

 private:
  struct Made {
    Team team;
    std::uint32_t forks;  // above this process when the team was made
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace polyhead
