#include "train/task.h"

#include <algorithm>

#include "core/draws.h"

namespace polyhead::train {

// No state passes from one sequence to the next: each has its own stream.
Sequence Task::sequence(Split split, std::uint64_t index, std::int64_t b) const {
  constexpr std::uint64_t kDomain = 0x7461736b73;  // separate from dropout, which may have the same seed
  Draws draws(seed_ ^ kDomain, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(index),
              static_cast<std::uint32_t>(index >> 32) << 1 | static_cast<std::uint32_t>(split));
  return make(split, draws);
}

Batch Task::batch(Split split, std::uint64_t index, std::int64_t size) const {
  if (size < 1) throw Error(ErrorCode::value, "batch", "size: expected at least 1, found " + std::to_string(size));
  std::vector<Sequence> rows;
  for (std::int64_t b = 0; b < size; ++b) rows.push_back(sequence(split, index, b));
  return batch_of(rows);
}

Batch Task::batch_of(const std::vector<Sequence>& rows) const {
  const std::int64_t size = std::ssize(rows);
  const std::int64_t t = context(), columns = classes() > 0 ? 1 : t;
  Batch batch;
  batch.tokens = Tensor::zeros({size, t}, DType::i32);
  batch.targets = Tensor::empty(classes() > 0 ? Dims{size} : Dims{size, t}, DType::i32);
  std::fill_n(batch.targets.as<std::int32_t>(), size * columns, -1);
  if (shape_.padded) batch.lengths = Tensor::empty({size}, DType::i32);

  for (std::int64_t b = 0; b < size; ++b) {
    const Sequence& row = rows[static_cast<std::size_t>(b)];
    std::copy(row.tokens.begin(), row.tokens.end(), batch.tokens.as<std::int32_t>() + b * t);
    std::copy(row.targets.begin(), row.targets.end(), batch.targets.as<std::int32_t>() + b * columns);
    if (shape_.padded) batch.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(row.tokens.size());
  }
  return batch;
}

}  // namespace polyhead::train
