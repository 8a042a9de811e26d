// Texts, as tokens, in rows of one batch.
#pragma once

#include <cstdint>
#include <vector>

#include "polyhead/model.h"

namespace polyhead::model {

// A text in pieces that lie side by side, `length` tokens each with what stands around every text. Every token but the
// first is a target once.
class Rows {
 public:
  Rows(std::vector<std::int32_t> beginning, std::vector<std::int32_t> ending, std::int64_t length);

  void add(const std::vector<std::int32_t>& text);
  std::size_t size() const { return rows_.size(); }
  Examples padded() const { return padded(0, size()); }  // [rows, tokens of the longest], with lengths
  Examples padded(std::size_t begin, std::size_t end) const;
  // The rows in order, up to `tokens` with their padding at a time, and one at least.
  std::vector<Examples> batches(std::int64_t tokens) const;
  bool all_have_targets() const;

 private:
  struct Row {
    std::vector<std::int32_t> tokens, targets;
  };
  std::vector<std::int32_t> beginning_, ending_;
  std::int64_t piece_;  // tokens of the text in a row
  std::vector<Row> rows_;
};

}  // namespace polyhead::model
