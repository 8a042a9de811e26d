// New tokens into a cache, on the CPU: rotated where they are, then copied.
#include <algorithm>

#include "cpu/kernels.h"

namespace polyhead::cpu {
namespace {

// Sequences [b, end) go to the rows from `row` on.
void append_to(Team& team, const kernels::AppendProblem& problem, std::int64_t b, std::int64_t end, std::int64_t row) {
  const auto copy_rows = [&](const ConstTensorView& from, const TensorView& to) {
    copy(team, from.slice(0, b, end), to.slice(0, b, end).slice(2, row, row + from.shape(2)));
  };
  copy_rows(problem.k, problem.keys);
  copy_rows(problem.v, problem.values);
}

}  // namespace

void append(Team& team, const kernels::AppendProblem& problem) {
  if (problem.rotary.dim > 0) {
    for (const TensorView& x : {problem.q, problem.k}) {
      kernels::RotaryProblem rotary = problem.rotary;
      rotary.x = x;
      rotary.y = x;
      rotate(team, rotary);
    }
  }
  const auto* const rows = data_of<std::int32_t>(problem.rows);
  const std::int64_t B = problem.k.shape(0);
  for (std::int64_t b = 0; b < B;) {
    std::int64_t end = b + 1;
    while (end < B && rows[end] == rows[b]) ++end;
    append_to(team, problem, b, end, rows[b]);
    b = end;
  }
}

}  // namespace polyhead::cpu
