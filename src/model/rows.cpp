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
                  " special tokens around every text, found " + std::to_string(length));
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

bool Rows::all_have_targets() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) {
    return std::any_of(row.targets.begin(), row.targets.end(), [](std::int32_t target) { return target >= 0; });
  });
}

std::vector<Examples> Rows::batches(std::int64_t tokens) const {
  std::vector<Examples> made;
  for (std::size_t begin = 0, end = 0; begin < size(); begin = end) {
    std::size_t longest = 0;
    for (; end < size(); ++end) {
      longest = std::max(longest, rows_[end].tokens.size());
      if (end > begin && static_cast<std::int64_t>(longest * (end + 1 - begin)) > tokens) break;
    }
    made.push_back(padded(begin, end));
  }
  return made;
}

Examples Rows::padded(std::size_t begin, std::size_t end) const {
  std::size_t longest = 0;
  for (std::size_t n = begin; n < end; ++n) longest = std::max(longest, rows_[n].tokens.size());
  const auto B = static_cast<std::int64_t>(end - begin), T = static_cast<std::int64_t>(longest);
  Examples made{Tensor::zeros({B, T}, DType::i32), Tensor::empty({B, T}, DType::i32), Tensor::empty({B}, DType::i32)};
  std::fill_n(made.targets.as<std::int32_t>(), B * T, -1);
  for (std::int64_t b = 0; b < B; ++b) {
    const Row& row = rows_[begin + static_cast<std::size_t>(b)];
    std::copy(row.tokens.begin(), row.tokens.end(), made.tokens.as<std::int32_t>() + b * T);
    std::copy(row.targets.begin(), row.targets.end(), made.targets.as<std::int32_t>() + b * T);
    made.lengths.as<std::int32_t>()[b] = static_cast<std::int32_t>(row.tokens.size());
  }
  return made;
}

}  // namespace polyhead::model
