// merge_attention: one row after the other, in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/numbers.h"
#include "ops/check.h"
#include "polyhead/attention.h"

namespace polyhead {
namespace {

using Fields = std::array<double, kFullStatistics>;

constexpr double kNone = -std::numeric_limits<double>::infinity();

// How a field merges, and the count that its mean divides by: that of its name, if there is one, otherwise the rows.
struct Rule {
  StatisticMerge merge = StatisticMerge::unknown;
  std::size_t count = static_cast<std::size_t>(Statistic::rows);
};
constexpr std::array<Rule, kFullStatistics> kRules = [] {  // a copy, so that the library exports no list
  std::array<Rule, kFullStatistics> rules;
  for (std::size_t f = 0; f < rules.size(); ++f) {
    rules[f].merge = kStatistics[f].merge;
    const std::string_view name = kStatistics[f].name, stem = name.substr(0, name.rfind('_'));
    for (std::size_t n = 0; n < rules.size(); ++n) {
      const std::string_view other = kStatistics[n].name;
      if (other.starts_with(stem) && other.substr(stem.size()) == "_rows") rules[f].count = n;
    }
  }
  return rules;
}();

double& of(Fields& fields, Statistic statistic) { return fields[static_cast<std::size_t>(statistic)]; }
double of(const Fields& fields, Statistic statistic) { return fields[static_cast<std::size_t>(statistic)]; }

bool is_number(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

// A row's part, and its share of the row's weight.
struct Share {
  double lse, share;
  Fields fields;

  bool any() const { return lse != kNone; }
  bool counts() const { return of(fields, Statistic::rows) != 0; }
};

// What shares of one row, in the order of their keys, come to together. A share that has weight and does not count sees
// its sink alone.
class MergedRow {
 public:
  explicit MergedRow(const std::vector<Share>& shares) {
    of(fields, Statistic::max_logit) = kNone;
    for (const Share& share : shares) {
      if (share.any()) add(share);
    }
    if (of(fields, Statistic::rows) == 0) {
      fields.fill(0);
      of(fields, Statistic::max_logit) = kNone;
      return;
    }
    of(fields, Statistic::normalised_rows) = outcomes_ >= 2 ? 1 : 0;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (kRules[f].merge != StatisticMerge::unknown) continue;
      fields[f] = fields[kRules[f].count] != 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
    }
  }

  Fields fields{};

 private:
  void add(const Share& part) {
    const double share = part.share;
    if (share > 0) of(fields, Statistic::entropy) += share * (of(part.fields, Statistic::entropy) - std::log(share));
    if (!part.counts()) {
      of(fields, Statistic::sink_weight) += share;
      ++outcomes_;
      return;
    }
    outcomes_ += of(part.fields, Statistic::normalised_rows) != 0 ? 2 : 1;
    if (of(fields, Statistic::rows) == 0) {
      of(fields, Statistic::first_weight) = share * of(part.fields, Statistic::first_weight);
    }
    of(fields, Statistic::rows) = 1;
    if (of(part.fields, Statistic::max_logit) > of(fields, Statistic::max_logit)) {
      of(fields, Statistic::max_logit) = of(part.fields, Statistic::max_logit);
      of(fields, Statistic::max_offset) = of(part.fields, Statistic::max_offset);
      of(fields, Statistic::max_weight) = share * of(part.fields, Statistic::max_weight);
    }
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (kRules[f].merge == StatisticMerge::added) fields[f] += part.fields[f];
      if (kRules[f].merge == StatisticMerge::weighted) fields[f] += share * part.fields[f];
    }
  }

  int outcomes_ = 0;  // at least so many
};

// Adds a row to a head's sums, as merge_statistics does.
void add_to(Fields& sums, const Fields& row) {
  for (std::size_t f = 0; f < sums.size(); ++f) {
    sums[f] = f == static_cast<std::size_t>(Statistic::max_logit) ? std::max(sums[f], row[f]) : sums[f] + row[f];
  }
}

class Merge {
 public:
  Merge(std::span<const AttentionPart> parts, const AttentionOutputs& into)
      : parts_(parts), into_(into), shares_(parts.size()), sum_(static_cast<std::size_t>(into.output.shape(3))) {}

  void run() {
    const Dims& shape = into_.output.shape();
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        Fields sums{};
        of(sums, Statistic::max_logit) = kNone;
        for (std::int64_t t = 0; t < shape[2]; ++t) merge_row({b, h, t}, sums);
        if (into_.statistics.present()) store(into_.statistics, {b, h}, sums);
      }
    }
  }

 private:
  template <class View>
  static std::int64_t offset(const View& view, const Dims& at) {
    std::int64_t found = 0;
    for (int axis = 0; axis < at.rank(); ++axis) found += at[axis] * view.stride(axis);
    return found;
  }
  static void store_at(const TensorView& to, std::int64_t at, double x) {
    store_number(x, to.dtype(),
                 static_cast<std::byte*>(to.data()) + at * static_cast<std::int64_t>(size_of(to.dtype())));
  }
  static void store(const TensorView& to, const Dims& at, const Fields& fields) {
    const int last = to.rank() - 1;
    for (std::int64_t f = 0; f < to.shape(last); ++f) {
      store_at(to, offset(to, at) + f * to.stride(last), fields[static_cast<std::size_t>(f)]);
    }
  }

  void merge_row(const Dims& at, Fields& sums) {
    double top = kNone, total = 0;
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      shares_[n].lse = load_number(parts_[n].lse, offset(parts_[n].lse, at));
      if (!(shares_[n].lse <= top)) top = shares_[n].lse;  // NaN, too
    }
    for (const Share& share : shares_) total += share.any() ? std::exp(share.lse - top) : 0;
    for (Share& share : shares_) share.share = share.any() ? std::exp(share.lse - top) / total : 0;
    if (into_.lse.present()) store_at(into_.lse, offset(into_.lse, at), total == 0 ? kNone : top + std::log(total));
    merge_output(at);
    if (into_.statistics.present() || into_.row_statistics.present()) merge_statistics_of(at, sums);
  }

  // A part without weight is not read.
  void merge_output(const Dims& at) {
    std::fill(sum_.begin(), sum_.end(), 0);
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      if (shares_[n].share == 0) continue;
      const ConstTensorView& output = parts_[n].output;
      std::int64_t place = offset(output, at);
      for (double& x : sum_) {
        x += shares_[n].share * load_number(output, place);
        place += output.stride(3);
      }
    }
    std::int64_t place = offset(into_.output, at);
    for (const double x : sum_) {
      store_at(into_.output, place, x);
      place += into_.output.stride(3);
    }
  }

  void merge_statistics_of(const Dims& at, Fields& sums) {
    for (std::size_t n = 0; n < parts_.size(); ++n) {
      const ConstTensorView& rows = parts_[n].row_statistics;
      shares_[n].fields.fill(0);
      for (std::int64_t f = 0; f < rows.shape(3); ++f) {
        shares_[n].fields[static_cast<std::size_t>(f)] = load_number(rows, offset(rows, at) + f * rows.stride(3));
      }
    }
    const MergedRow row(shares_);
    if (into_.row_statistics.present()) store(into_.row_statistics, at, row.fields);
    add_to(sums, row.fields);
  }

  const std::span<const AttentionPart> parts_;
  const AttentionOutputs& into_;
  std::vector<Share> shares_;
  std::vector<double> sum_;
};

void check_part(const ops::Op& op, const AttentionPart& part, const Dims& shape, std::int64_t fields,
                std::vector<ConstTensorView>& others) {
  const ops::Argument output{op, "part output", part.output}, lse{op, "part lse", part.lse};
  output.expect_shape(shape);
  output.expect_memory();
  if (!is_float(part.output.dtype())) output.refuse(ErrorCode::dtype, "a float type");
  lse.expect_shape({shape[0], shape[1], shape[2]});
  lse.expect_memory();
  if (!is_number(part.lse.dtype())) lse.refuse(ErrorCode::dtype, "f32 or f64");
  others.insert(others.end(), {part.output, part.lse});
  if (fields == 0) return;
  const ops::Argument rows{op, "part row_statistics", part.row_statistics};
  rows.expect_shape({shape[0], shape[1], shape[2], fields});
  rows.expect_memory();
  if (!is_number(part.row_statistics.dtype())) rows.refuse(ErrorCode::dtype, "f32 or f64");
  others.push_back(part.row_statistics);
}

void check_output(const ops::Argument& argument, const Dims& shape, std::vector<ConstTensorView>& others) {
  if (!argument.view.present()) return;
  if (!is_number(argument.view.dtype())) argument.refuse(ErrorCode::dtype, "f32 or f64");
  argument.expect_output(true, shape, argument.view.dtype(), others);
  others.push_back(argument.view);
}

// The fields of the statistics that are wanted, 0 if none are.
std::int64_t fields_of(const ops::Op& op, const AttentionOutputs& into) {
  std::int64_t fields = 0;
  for (const auto& [name, view, rank] :
       {std::tuple{"statistics", into.statistics, 3}, std::tuple{"row_statistics", into.row_statistics, 4}}) {
    if (!view.present()) continue;
    const std::int64_t found = view.rank() == rank ? view.shape(rank - 1) : 0;
    if (found < kLightStatistics || found > kFullStatistics || (fields != 0 && fields != found)) {
      ops::Argument{op, name, view}.refuse(ErrorCode::shape, std::to_string(rank) + " axes, the last of " +
                                                                 std::to_string(kLightStatistics) + " to " +
                                                                 std::to_string(kFullStatistics) + " fields");
    }
    fields = found;
  }
  return fields;
}

}  // namespace

void merge_attention(std::span<const AttentionPart> parts, const AttentionOutputs& into) {
  const ops::Op op{"merge_attention", Device{}};
  if (parts.empty()) throw Error(ErrorCode::value, op, "expected the results of one shard or more, found none");
  if (into.weights.present() || into.logits.present()) {
    throw Error(ErrorCode::unsupported, op,
                "weights and logits are not merged: a shard's logits are those of all keys, its weights are to be "
                "multiplied by exp(its lse - the merged lse)");
  }
  const ops::Argument output{op, "output", into.output};
  if (!into.output.present() || into.output.rank() != 4) output.refuse(ErrorCode::shape, "four axes, [B,H,T,E]");
  if (!is_float(into.output.dtype())) output.refuse(ErrorCode::dtype, "a float type");
  const Dims& shape = into.output.shape();
  const std::int64_t fields = fields_of(op, into);
  std::vector<ConstTensorView> others;
  for (const AttentionPart& part : parts) check_part(op, part, shape, fields, others);
  output.expect_output(true, shape, into.output.dtype(), others);
  others.push_back(into.output);
  check_output({op, "lse", into.lse}, {shape[0], shape[1], shape[2]}, others);
  check_output({op, "statistics", into.statistics}, {shape[0], shape[1], fields}, others);
  check_output({op, "row_statistics", into.row_statistics}, {shape[0], shape[1], shape[2], fields}, others);
  Merge(parts, into).run();
}

}  // namespace polyhead
