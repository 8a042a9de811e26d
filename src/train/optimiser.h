// AdamW with clipping, and a rate that rises linearly, then falls along a cosine.
#pragma once

#include <vector>

#include "autograd/tape.h"
#include "ops/adamw.h"

namespace polyhead::train {

struct Schedule {
  double peak = 1e-3;
  std::int64_t warmup = 0, steps = 1;
  double floor = 0.1;  // the rate at the last step, as a share of the peak

  double rate(std::int64_t step) const;  // steps count from 1
};

struct OptimiserOptions {
  ops::AdamW rule{.beta2 = 0.99};  // only matrices decay, not vectors (biases, norms)
  double clip = 1;                 // the largest norm of the whole gradient; 0: no clipping
};

class Optimiser {
 public:
  using Options = OptimiserOptions;
  Optimiser(std::vector<autograd::Parameter*> parameters, const Options& options);

  // The norm of the parameters' whole gradient. On a GPU this waits for it.
  double norm(Context& context, autograd::Gradients& gradients);
  // One step along that gradient. Throws if its norm is not finite; nothing is changed then.
  void step(Context& context, autograd::Gradients& gradients, double norm, double rate);

  std::int64_t steps_taken() const noexcept { return steps_; }
  void set_steps_taken(std::int64_t steps) noexcept { steps_ = steps; }

  struct Moments {
    autograd::Parameter* parameter;
    Tensor first, second;
  };
  std::vector<Moments>& moments() noexcept { return moments_; }
  const std::vector<Moments>& moments() const noexcept { return moments_; }

 private:
  Options options_;
  std::vector<Moments> moments_;
  Tensor squares_;  // f64, of every gradient
  std::int64_t steps_ = 0;
};

}  // namespace polyhead::train
