// Attention on the CPU: the list of work items, and one compilation of the kernel per vector instruction set.
#include "cpu/kernels.h"
#include "cpu/split.h"
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention.cpp"
#include <hwy/foreach_target.h>  // includes this file once per target

#include "cpu/decode-inl.h"
#include "cpu/group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// A group of query rows of one head.
struct Item {
  std::int64_t sequence, head, group;
  std::int64_t place;  // of its statistics: sequence by sequence, head by head, the last group first
  bool alone;          // the only group of its head
};

template <class T>
std::int64_t groups_of(const kernels::Sequence& sequence) {
  return (sequence.rows + kGroupRows<T> - 1) / kGroupRows<T>;
}

template <class T>
std::vector<Item> items_of(const kernels::AttentionProblem& problem) {
  std::vector<Item> items;
  items.reserve(static_cast<std::size_t>(problem.sequences.count * problem.heads));
  std::int64_t most = 0;
  for (std::int64_t n = 0; n < problem.sequences.count; ++n) {
    const std::int64_t groups = groups_of<T>(problem.sequences[n]);
    most = std::max(most, groups);
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      for (std::int64_t g = groups; g-- > 0;) {
        items.push_back({n, h, g, static_cast<std::int64_t>(items.size()), groups == 1});
      }
    }
  }
  // Under a causal mask the last rows are the longest: they come first, so that short ones at the end balance the
  // threads. Otherwise a head's rows stay together, for they read the same keys.
  if (problem.mask.causal && most > 1) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.group > b.group; });
  }
  return items;
}

double work_of(const kernels::AttentionProblem& problem) {
  double scores = 0;
  for (const kernels::Sequence& sequence : problem.sequences) {
    scores += static_cast<double>(sequence.queries) * static_cast<double>(sequence.keys);
  }
  const double share = problem.mask.causal ? 0.5 : 1.0;
  return share * scores * static_cast<double>(problem.heads * (problem.head_dim + problem.value_dim));
}

// The statistics of one sequence and head, from its groups' sums [width].
template <class T>
void store_statistics(const kernels::AttentionProblem& problem, std::int64_t n, std::int64_t h, const double* sums) {
  const TensorView& out = problem.statistics;
  T* to = static_cast<T*>(out.data()) + n * out.stride(0) + h * out.stride(1);
  for (int f = 0; f < problem.statistics_width(); ++f) to[f * out.stride(2)] = static_cast<T>(sums[f]);
}

// sums [width] of no rows.
void clear_statistics(std::size_t width, double* sums) {
  std::fill_n(sums, width, 0.0);
  sums[static_cast<std::size_t>(Statistic::max_logit)] = -kInfinity<double>;
}

// Adds up the groups of every sequence and head that has several, or none, in a fixed order: the same bits for any
// number of threads.
template <class T>
void merge_statistics(const kernels::AttentionProblem& problem, const std::vector<double>& partial) {
  const auto width = static_cast<std::size_t>(problem.statistics_width());
  double sums[kFullStatistics];
  std::size_t at = 0;
  for (std::int64_t n = 0; n < problem.sequences.count; ++n) {
    const std::int64_t groups = groups_of<T>(problem.sequences[n]);
    if (groups == 1) {
      at += static_cast<std::size_t>(problem.heads) * width;
      continue;
    }
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      clear_statistics(width, sums);
      for (std::int64_t g = 0; g < groups; ++g, at += width) {
        for (std::size_t f = 0; f < width; ++f) {
          const bool maximum = static_cast<Statistic>(f) == Statistic::max_logit;
          const double more = partial[at + f];
          sums[f] = maximum ? (more <= sums[f] ? sums[f] : more) : sums[f] + more;
        }
      }
      store_statistics<T>(problem, n, h, sums);
    }
  }
}

template <class T, class U>
void attend_as(Team& team, const kernels::AttentionProblem& problem) {
  const std::vector<Item> items = items_of<T>(problem);
  const auto width = static_cast<std::size_t>(problem.statistics_width());
  const bool reports = problem.statistics_set != StatisticsSet::none;
  const bool whole = std::all_of(items.begin(), items.end(), [](const Item& item) { return item.alone; });
  std::vector<double> partial(reports && !whole ? items.size() * width : 0);
  const auto count = static_cast<std::int64_t>(items.size());
  const auto [members, grain] = split_of(team, count, work_of(problem));
  // Takes all memory before any result is written, so that a failure leaves the outputs untouched.
  for (int member = 0; member < members; ++member) carve<Workspace<T, U>>(team.scratch(member), problem);
  const auto make_work = [&](int member) {
    const auto workspace = carve<Workspace<T, U>>(team.scratch(member), problem);
    return [&, workspace](std::int64_t i) {
      const Item& item = items[static_cast<std::size_t>(i)];
      const Head<T> head(problem, item.sequence, item.head);
      const std::int64_t first = item.group * kGroupRows<T>;
      Group<T, U> group(head, first, std::min(kGroupRows<T>, head.sequence.rows - first), workspace);
      if (!reports) return group.run(nullptr);
      double sums[kFullStatistics];
      clear_statistics(width, sums);
      group.run(sums);
      if (!item.alone) {
        std::copy_n(sums, width, partial.data() + static_cast<std::size_t>(item.place) * width);
      } else if (problem.statistics.present()) {
        store_statistics<T>(problem, item.sequence, item.head, sums);
      }
    };
  };
  if (problem.mask.causal && !whole) {
    team.for_each(count, grain, members, make_work);  // the longest first
  } else {
    team.for_shares(count, grain, members, make_work);
  }
  if (problem.statistics.present()) merge_statistics<T>(problem, partial);
}

// Output and lse of few queries. S is the storage type of K and V.
template <class S>
void decode_from(Team& team, const kernels::AttentionProblem& problem) {
  DecodePlan plan(problem);
  const auto count = static_cast<std::int64_t>(plan.items.size());
  const auto [members, grain] = split_of(team, count, work_of(problem));
  plan.members = static_cast<std::size_t>(members);
  const auto workspace = carve<DecodeWorkspace>(team.scratch(0), problem, plan);
  team.for_each(count, grain, members, [&](int member) {
    return [&, member](std::int64_t i) {
      Chunk<S>(problem, workspace, plan, i, member).run();
      const Span& span = plan.spans[static_cast<std::size_t>(plan.items[static_cast<std::size_t>(i)].span)];
      if (span.chunks == 1) SpanMerge(problem, workspace, plan, span).run();
    };
  });
  const auto spans = static_cast<std::int64_t>(plan.spans.size());
  if (spans == count) return;  // one chunk per span: all are merged already
  const auto merge = split_of(team, spans, static_cast<double>(plan.items.size() * plan.rows * workspace.padded_E));
  team.for_each(spans, merge.grain, merge.members, [&](int) {
    return [&](std::int64_t i) {
      const Span& span = plan.spans[static_cast<std::size_t>(i)];
      if (span.chunks > 1) SpanMerge(problem, workspace, plan, span).run();
    };
  });
}

void decode(Team& team, const kernels::AttentionProblem& problem) {
  switch (problem.k.dtype()) {
    case DType::f16: return decode_from<float16>(team, problem);
    case DType::bf16: return decode_from<bfloat16>(team, problem);
    default: return decode_from<float>(team, problem);
  }
}

void attend(Team& team, const kernels::AttentionProblem& problem) {
  if (problem.dtype == DType::f64) return attend_as<double, double>(team, problem);
#if HWY_TARGET == HWY_AVX3_DL
  if (attends_pairs(problem)) return attend_as<float, Pair>(team, problem);
#endif
  if (!decodes(problem)) return attend_as<float, float>(team, problem);
  decode(team, problem);
  const bool logits = problem.logits.present();
  if (!problem.weights.present() && !logits && problem.statistics_set == StatisticsSet::none) return;
  // Reports must not change the bits of the output: they get a walk of their own, without values.
  kernels::AttentionProblem reports = problem;
  reports.output = reports.lse = {};
  attend_as<float, float>(team, reports);
}

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace polyhead::cpu {

// More queries fill the lanes of the other path; with fewer keys per query all lies in L1, and that path is short.
constexpr std::int64_t kFewQueries = 8, kKeysPerQuery = 8;

bool decodes(const kernels::AttentionProblem& problem) noexcept {
  if (problem.dtype == DType::f64 || problem.keep.present() || problem.bias.present() || problem.dropout.p > 0) {
    return false;
  }
  std::int64_t queries = 0, keys = 0;
  for (const kernels::Sequence& sequence : problem.sequences) {
    queries = std::max(queries, sequence.rows);
    keys = std::max(keys, sequence.keys);
  }
  return queries <= kFewQueries && keys >= kKeysPerQuery * queries;
}

bool attends_pairs(const kernels::AttentionProblem& problem) noexcept {
  for (const ConstTensorView& view : {problem.q, problem.k, problem.v, ConstTensorView(problem.output)}) {
    if (view.present() && view.dtype() != DType::bf16) return false;
  }
  return !decodes(problem);
}

HWY_EXPORT(attend);

void attend(Team& team, const kernels::AttentionProblem& problem) {
  choose_target();
  HWY_DYNAMIC_DISPATCH(attend)(team, problem);
}

}  // namespace polyhead::cpu
#endif
