// Copies from one layout and storage type to another, on every vector target: each number gets to its place, and
// nothing is written beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/team.h"
#include "cpu/kernels.h"
#include "cpu/targets.h"
#include "reference/array.h"
#include "support/bits.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

enum class Lies : std::uint8_t { in_rows, with_gaps, turned };

// Room for a tensor, all zero: row by row, with gaps between the rows, or with the first and the last axis exchanged.
Placed room(const Dims& shape, DType dtype, Lies lies) {
  Dims all = shape;
  const int last = shape.rank() - 1;
  if (last >= 0 && lies == Lies::with_gaps) all[last] += 3;
  if (last >= 0 && lies == Lies::turned) std::swap(all[0], all[last]);
  Tensor memory = Tensor::zeros(all, dtype);
  TensorView view = memory;
  if (last >= 0 && lies == Lies::with_gaps) view = view.slice(last, 0, shape[last]);
  if (last >= 0 && lies == Lies::turned) view = view.transpose(0, last);
  return {std::move(memory), view};
}

// Rows short and long, few and many, of any number of axes.
const Dims kShapes[] = {{}, {1}, {7}, {300, 3}, {2, 20000}, {700, 40}, {5, 4, 3}, {2, 3, 4, 17}};
const std::pair<DType, DType> kTypes[] = {
    {DType::f32, DType::f32}, {DType::f64, DType::f64},  {DType::f32, DType::f16},  {DType::f32, DType::bf16},
    {DType::f16, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

void expect_copied(Team& team, const ConstTensorView& from, const Placed& to) {
  cpu::copy(team, from, to.view);
  const reference::Array<double> sent(from), found(to.view), all(to.memory);
  EXPECT_EQ(found.values(), sent.values());
  EXPECT_EQ(std::count(all.values().begin(), all.values().end(), 0), to.memory.view().count() - from.count())
      << "written beside it";
}

TEST(CpuCopy, EveryNumberGetsToItsPlace) {
  const RestoreTarget restore;
  for (const std::string& target : targets_for("copy")) {
    cpu::use_target(target);
    for (const int threads : {1, 3}) {
      Team team(threads);
      for (const Dims& shape : kShapes) {
        for (const auto& [from_type, to_type] : kTypes) {
          for (const Lies from_lies : {Lies::in_rows, Lies::with_gaps, Lies::turned}) {
            const Placed from = room(shape, from_type, from_lies);
            int n = 0;
            fill_with(from.view, [&] { return 1.0 + n++ % 251; });  // every type holds these exactly
            for (const Lies to_lies : {Lies::in_rows, Lies::with_gaps, Lies::turned}) {
              const Placed to = room(shape, to_type, to_lies);
              SCOPED_TRACE(target + ": " + describe(from.view) + " to " + describe(to.view));
              expect_copied(team, from.view, to);
            }
          }
        }
      }
    }
  }
}

// One row in memory, read as many.
TEST(CpuCopy, RepeatsWhatIsRepeated) {
  const Tensor row = normal({9}, "row", DType::f32);
  const ConstTensorView repeated(row.view().data(), DType::f32, {4, 9}, {0, 1});
  Team team(1);
  expect_copied(team, repeated, room({4, 9}, DType::f32, Lies::in_rows));
}

}  // namespace
}  // namespace polyhead::test
