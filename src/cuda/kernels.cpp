#include "cuda/kernels.h"

namespace polyhead::cuda {
namespace {

// Makes a GPU kernel an entry of the table, which enters the device while the kernel is queued.
template <auto kernel>
struct Entry;
template <class Result, class... Arguments, Result (*kernel)(CudaExecutor&, Arguments...)>
struct Entry<kernel> {
  static Result call(Executor& executor, Arguments... arguments) {
    auto& gpu = static_cast<CudaExecutor&>(executor);
    [[maybe_unused]] const auto entered = gpu.queue().enter();
    return kernel(gpu, arguments...);
  }
};
template <auto kernel>
inline constexpr auto entry = &Entry<kernel>::call;

}  // namespace

void expect_no_f64(std::string_view op, const ConstTensorView& tensor) {
  if (tensor.dtype() != DType::f64) return;
  throw Error(ErrorCode::unsupported, op,
              "expected f32, f16 or bf16, found " + describe(tensor) + "; f64 is computed on the CPU");
}

void expect_no_origin(std::string_view op, const Dropout& dropout) {
  if (dropout.p == 0 || dropout.origin == Origin{}) return;
  throw Error(ErrorCode::unsupported, op,
              "dropout: expected no origin, which only the CPU's kernels have; leave dropout out, or run on the CPU");
}

const kernels::Table& kernels() noexcept {
  static constexpr kernels::Table table{.mixes_types = true,
                                        .gains_by_packing = false,
                                        .counts_dropout_from_origin = false,
                                        .check_attention = entry<check_attention>,
                                        .attend = entry<attend>,
                                        .attend_backward = entry<attend_backward>,
                                        .explain = entry<explain>,
                                        .append = entry<append>,
                                        .gemm = entry<gemm>,
                                        .gemv = entry<gemv>,
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

}  // namespace polyhead::cuda
