// Forward kernels for calls that have one rarer option: the general instance has code for all of them, and too few
// registers for that. A bias comes by the copy engine; one that it cannot take, and heads of 256, are left to the
// general instance.
#include "cuda/sm90/launch.cuh"

namespace polyhead::cuda::sm90 {
namespace {

// The only rarer option that a call has; `several` if it has more.
RarerOption only_option(const backend::AttentionProblem& problem) {
  if (!(problem.scale > 0)) return RarerOption::several;
  RarerOption found = RarerOption::several;
  int count = 0;
  const auto look_for = [&](RarerOption option, bool given) {
    if (given) found = option;
    count += given ? 1 : 0;
  };
  look_for(RarerOption::softcap, problem.softcap > 0);
  look_for(RarerOption::alibi, problem.alibi.present());
  look_for(RarerOption::bias, problem.bias.present());
  look_for(RarerOption::keep, problem.keep.present());
  look_for(RarerOption::dropout, problem.dropout.p > 0);
  return count == 1 ? found : RarerOption::several;
}

// Why the copy engine cannot bring the bias, or nothing. It is added to q . k, so the scale must not be too small to
// divide by; where keys begin late the copies would begin between multiples of 16 bytes (an illegal instruction).
std::string objection_to_tiles(const backend::AttentionProblem& problem) {
  const ConstTensorView bias = without_copies(problem.bias);
  if (problem.head_dim == 256) return "heads of 256";
  if (bias.dtype() != problem.dtype) return "f32";
  if (problem.sequences.key_start.present()) return "key_start";
  if (!(problem.scale > 1e-6)) return "a scale below 1e-6";
  const bool rows = bias.stride(3) == 1 && (bias.shape(2) == 1 || bias.stride(2) >= bias.shape(3));
  return rows && is_mappable(bias) ? "" : "rows that the copy engine cannot take";
}

template <class T, int D, class Sizes, class BiasSizes>
bool launch_for(const Workspace& workspace, const backend::AttentionProblem& problem) {
  const auto with = [&]<RarerOption kOnly>(std::integral_constant<RarerOption, kOnly>) {
    launch<T, D, Instance::general, Sizes, kOnly>(workspace, problem);
    return true;
  };
  switch (only_option(problem)) {
    case RarerOption::softcap: return with(std::integral_constant<RarerOption, RarerOption::softcap>());
    case RarerOption::alibi: return with(std::integral_constant<RarerOption, RarerOption::alibi>());
    case RarerOption::bias:
      if (!objection_to_tiles(problem).empty()) return false;
      launch<T, D, Instance::general, BiasSizes, RarerOption::bias>(workspace, problem);
      return true;
    case RarerOption::keep: return with(std::integral_constant<RarerOption, RarerOption::keep>());
    case RarerOption::dropout: return with(std::integral_constant<RarerOption, RarerOption::dropout>());
    default: return false;
  }
}

template <class T>
bool launch_for(const Workspace& workspace, const backend::AttentionProblem& problem) {
  switch (problem.head_dim) {
    case 64: return launch_for<T, 64, SmallShape64, SmallShape64>(workspace, problem);
    case 128: return launch_for<T, 128, Shape<128>, GeneralShape128>(workspace, problem);
    default: return false;
  }
}

}  // namespace

std::string objection_to_bias_tiles(const backend::AttentionProblem& problem) {
  return only_option(problem) == RarerOption::bias ? objection_to_tiles(problem) : "";
}

bool attend_with_one_option(const Workspace& workspace, const backend::AttentionProblem& problem) {
  return problem.dtype == DType::bf16 ? launch_for<__nv_bfloat16>(workspace, problem)
                                      : launch_for<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
