// The executor of the CPU: a thread team that is made when it is needed, once per process.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/executor.h"
#include "core/team.h"

namespace polyhead::cpu {

class CpuExecutor final : public Executor {
 public:
  explicit CpuExecutor(int threads);
  ~CpuExecutor() override;

  // The team of this process. After a fork the parent's team is left alone (its threads are not here) and a new one
  // made.
  Team& team() { return made().team; }

  int threads() const noexcept override { return threads_; }
  std::string target() const override;
  Turn& turn() override { return team().turn; }

 private:
  struct Made {
    Team team;
    std::uint32_t forks;  // that led to this process when the team was made
    Scratch scratch[kScratchSlots];
  };
  Made& made();

  std::byte* scratch_bytes(std::size_t slot, std::size_t bytes) override { return made().scratch[slot].reserve(bytes); }
  void begin_burst() override;
  void end_burst() noexcept override;

  const int threads_;
  std::atomic<Made*> made_{nullptr};
};

}  // namespace polyhead::cpu
