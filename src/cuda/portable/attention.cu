#include <algorithm>
#include <cmath>

#include "cuda/portable/attention.cuh"
#include "cuda/portable/attention.h"
#include "cuda/portable/attention_mma.h"
#include "cuda/portable/statistics.cuh"
#include "cuda/portable/weights.cuh"

namespace polyhead::cuda::portable {

AttentionArguments::AttentionArguments(const kernels::AttentionProblem& p)
    : sequences(p.sequences),
      mask(p.mask),
      heads(static_cast<int>(p.heads)),
      heads_per_kv(static_cast<int>(p.kv_heads == 0 ? 1 : p.heads / p.kv_heads)),
      head_dim(static_cast<int>(p.head_dim)),
      value_dim(static_cast<int>(p.value_dim)),
      q(p.q),
      k(p.k),
      v(p.v),
      scale(static_cast<float>(p.scale)),
      softcap(static_cast<float>(p.softcap)),
      keep(p.keep),
      bias(p.bias),
      alibi(p.alibi),
      gates(p.gates),
      sink_logit(p.sink_logit),
      drops{p.dropout.p > 0, p.dropout.seed, static_cast<std::uint32_t>(std::lround(65536 * p.dropout.p)),
            static_cast<float>(1 / (1 - p.dropout.p))} {}

namespace {

// The chosen heads or rows by their place in the result, kMost at a time: where[n] is the place of n, or -1.
std::vector<Chosen> chosen_of(const std::vector<std::int32_t>& where) {
  std::vector<std::int32_t> index(where.size(), -1);
  std::size_t count = 0;
  for (std::size_t n = 0; n < where.size(); ++n) {
    if (where[n] < 0) continue;
    index[static_cast<std::size_t>(where[n])] = static_cast<std::int32_t>(n);
    ++count;
  }
  std::vector<Chosen> lists;
  for (std::size_t begin = 0; begin < count; begin += Chosen::kMost) {
    Chosen list{.count = static_cast<int>(std::min<std::size_t>(count - begin, Chosen::kMost)),
                .in_order = false,
                .base = static_cast<int>(begin)};
    std::copy_n(index.begin() + static_cast<std::ptrdiff_t>(begin), list.count, list.index);
    lists.push_back(list);
  }
  return lists;
}

template <bool kLogits>
void write_chosen(CudaExecutor& executor, const kernels::AttentionProblem& problem, const AttentionArguments& arguments,
                  const TensorView& to) {
  const auto columns = static_cast<int>(to.shape(3));
  const std::vector<Chosen> all{{.count = static_cast<int>(problem.sequences.queries), .in_order = true}};
  for (const Chosen& rows : problem.weights_in_order ? all : chosen_of(problem.weight_row_of)) {
    const int tiles = tiles_of(rows.count);
    for (const Chosen& heads : chosen_of(problem.weight_head_of)) {
      executor.launch(chosen_kernel<kLogits>, problem.sequences.count * heads.count * tiles, kThreads, arguments,
                      Strided(to), columns, heads, rows, tiles);
    }
  }
}

void write_statistics(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  const AttentionArguments arguments(problem);
  const int tiles = tiles_of(problem.sequences.queries), fields = problem.statistics_width();
  const std::int64_t heads = problem.sequences.count * problem.heads;
  const auto sums = executor.workspace<float>(Workspace::statistics, heads * tiles * fields);
  executor.launch(statistics_kernel, heads * tiles, kThreads, arguments,
                  StatisticsOutputs{.row_statistics = Strided(problem.row_statistics),
                                    .tile_sums = sums,
                                    .marked_keys = Strided(problem.marked_keys),
                                    .target_keys = Strided(problem.target_keys),
                                    .fields = fields},
                  tiles);
  if (!problem.statistics.present()) return;
  executor.launch(sum_statistics_kernel, heads, kThreads, problem.sequences, static_cast<const float*>(sums),
                  arguments.heads, tiles, fields, Strided(problem.statistics));
}

}  // namespace

void describe_heads(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  AttentionArguments arguments(problem);
  if (problem.weights.present()) write_chosen<false>(executor, problem, arguments, problem.weights);
  if (problem.logits.present()) {
    arguments.stage = problem.logit_stage;
    write_chosen<true>(executor, problem, arguments, problem.logits);
  }
  if (problem.statistics.present() || problem.row_statistics.present()) write_statistics(executor, problem);
}

namespace {

void attend_f32(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  const AttentionArguments arguments(problem);
  const int tiles = tiles_of(problem.sequences.queries), parts = parts_of(problem.value_dim);
  executor.launch(attend_kernel, problem.sequences.count * problem.heads * tiles * parts, kThreads, arguments,
                  AttendOutputs{Strided(problem.output), Strided(problem.lse)}, tiles, parts);
}

}  // namespace

void attend(CudaExecutor& executor, const kernels::AttentionProblem& problem) {
  why_not_mma(executor, problem).empty() ? attend_mma(executor, problem) : attend_f32(executor, problem);
  describe_heads(executor, problem);
}

}  // namespace polyhead::cuda::portable
