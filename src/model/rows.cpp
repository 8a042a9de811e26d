#include "model/rows.h"

#include <algorithm>

#include "polyhead/error.h"

namespace polyhead::model {

Rows::Rows(std::vector<std::int32_t> beginning, std::vector<std::int32_t> ending, std::int64_t length)
    : beginning_(std::move(beginning)),
      ending_(std::move(ending)),
      piece_(length - std::ssize(beginning_) - std::ssize(ending_)) {
  if (piece_ > 0) return;
  throw Error(ErrorCode::value, "examples",
              "length: expected more than the " + std::to_string(length - piece_) +
                  " tokens that stand around every text, found " + std::to_string(length));
}

void Rows::add(const std::vector<std::int32_t>& text) {
  const std::int64_t count = std::ssize(text);
  if (count + std::ssize(beginning_) + std::ssize(ending_) == 0) {
    throw Error(ErrorCode::value, "examples", "texts: expected at least one token, found none in one of them");
  }
  std::int64_t at = 0;
  do {
    const std::int64_t end = std::min(at + piece_, count);
    Row row{beginning_, std::vector<std::int32_t>(beginning_.size(), -1)};
    row.tokens.insert(row.tokens.end(), text.begin() + at, text.begin() + end);
    row.targets.insert(row.targets.end(), text.begin() + std::min(at + 1, count),
                       text.begin() + std::min(end + 1, count));
    row.tokens.insert(row.tokens.end(), ending_.begin(), ending_.end());
    row.targets.resize(row.tokens.size(), -1);
    rows_.push_back(std::move(row));
    at = end;
  } while (at + 1 < count);  // a last token by itself has nothing to predict
}

Examples Rows::padded() const {
  std::size_t longest = 0;
  for (const Row& row : rows_) longest = std::max(longest, row.tokens.size());
  const auto B = static_cast<std::int64_t>(rows_.size()), T = static_cast<std::int64_t>(longest);
  Examples made{Tensor::zeros({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32), Tensor::empty({B}, DType::i32)};
  std::fill_n(made.targets.as<std::int32_t>(), B * T, -1);
  for (std::int64_t b = 0; b < B; ++b) {
    const Row& row = rows_[static_cast<std::size_t>(b)];
    std::copy(row.tokens.begin(), row.tokens.end(), made.tokens.as<std::int32_t>() + b * T);
    std::copy(row.targets.begin(), row.targets.end(), made.targets.as<std::int32_t>() + b * T);
    made.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(row.tokens.size());
  }
  return made;
}

}  // namespace polyhead::model
