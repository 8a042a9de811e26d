#include "cpu/kernels.h"

#include "cpu/executor.h"
#include "cpu/gemm.h"
#include "cpu/targets.h"
#include "kernels/executors.h"

namespace polyhead::cpu {
namespace {

// Makes a kernel that takes a team an entry of the table, which takes an executor.
template <auto kernel>
struct Entry;
template <class Result, class... Arguments, Result (*kernel)(Team&, Arguments...)>
struct Entry<kernel> {
  static Result call(Executor& executor, Arguments... arguments) {
    return kernel(static_cast<CpuExecutor&>(executor).team(), arguments...);
  }
};
template <auto kernel>
inline constexpr auto entry = &Entry<kernel>::call;

// What the context's precision allows to be rounded.
void gemm_entry(Executor& executor, const kernels::GemmProblem& problem) {
  gemm(static_cast<CpuExecutor&>(executor).team(), problem,
       executor.precision == Precision::bf16 ? kernels::Products::coarse : kernels::Products::exact);
}

void attend_backward_entry(Executor& executor, const kernels::AttentionGradientProblem& problem) {
  attend_backward(static_cast<CpuExecutor&>(executor).team(), executor.allocator(), problem);
}

std::string explain(Executor& executor, const kernels::AttentionProblem& problem) {
  std::string text = "cpu, fused, " + target_name() + ", up to " + std::to_string(executor.threads()) + " threads";
  const bool few = decodes(problem), halves = size_of(problem.k.dtype()) == 2;
  if (problem.dtype == DType::f64) text += "; f64: half the lanes of f32";
  if (few) text += "; few queries: the head dim in lanes, keys and values read once for all heads that share them";
  const bool pairs = multiplies_pairs() && attends_pairs(problem);
  if (pairs) text += "; bf16: multiplied in pairs and added in f32, weights rounded to bf16";
  if (halves && !pairs)
    text += "; keys and values are widened to f32 " + std::string(few ? "in registers" : "block by block");
  if (few && problem.statistics_set != StatisticsSet::none) text += "; statistics: a pass of their own over the keys";
  if (!problem.weight_head_of.empty()) text += "; weights or logits: a second pass over the keys writes them";
  if (problem.keep.present() || problem.bias.present())
    text += "; keep or bias: read once per head, every tile is masked";
  return text;
}

}  // namespace

const kernels::Table& kernels() noexcept {
  static constexpr kernels::Table table{.widens_weights = true,
                                        .takes_processors = true,
                                        .check_attention = entry<check_attention>,
                                        .attend = entry<attend>,
                                        .attend_backward = attend_backward_entry,
                                        .explain = explain,
                                        .append = entry<append>,
                                        .gemm = gemm_entry,
                                        .pack = entry<pack>,
                                        .column_sums = entry<column_sums>,
                                        .round = entry<round>,
                                        .elementwise = entry<elementwise>,
                                        .gate = entry<gate>,
                                        .gate_backward = entry<gate_backward>,
                                        .add_row = entry<add_row>,
                                        .normalise = entry<normalise>,
                                        .normalise_backward = entry<normalise_backward>,
                                        .drop = entry<drop>,
                                        .rotate = entry<rotate>,
                                        .copy = entry<copy>,
                                        .embed = entry<embed>,
                                        .embed_backward = entry<embed_backward>,
                                        .pool = entry<pool>,
                                        .pool_backward = entry<pool_backward>,
                                        .cross_entropy = entry<cross_entropy>,
                                        .sample = entry<sample>,
                                        .adamw = entry<adamw>,
                                        .sums_of_squares = entry<sums_of_squares>};
  return table;
}

}  // namespace polyhead::cpu
