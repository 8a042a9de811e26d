// Forward kernels for calls that have one score modifier: the general instance has code for all of them, and too few
// registers for that. A bias comes by the copy engine; one that it cannot take, and heads of 256, are left to the
// general instance.
#include "cuda/sm90/launch.cuh"

namespace polyhead::cuda::sm90 {
namespace {

// The only score modifier that a call has; `several` if it has more.
ScoreModifier only_option(const kernels::AttentionProblem& problem) {
  if (!(problem.scale > 0)) return ScoreModifier::several;
  ScoreModifier found = ScoreModifier::several;
  int count = 0;
  const auto look_for = [&](ScoreModifier option, bool given) {
    if (given) found = option;
    count += given ? 1 : 0;
  };
  look_for(ScoreModifier::softcap, problem.softcap > 0);
  look_for(ScoreModifier::alibi, problem.alibi.present());
  look_for(ScoreModifier::bias, problem.bias.present());
  look_for(ScoreModifier::keep, problem.keep.present());
  look_for(ScoreModifier::dropout, problem.dropout.p > 0);
  return count == 1 ? found : ScoreModifier::several;
}

// Why the copy engine cannot bring the bias, or nothing. It is added to q . k, so the scale must not be too small to
// divide by; where keys begin late the copies would begin between multiples of 16 bytes (an illegal instruction).
std::string_view why_not_tiles(const kernels::AttentionProblem& problem) {
  const ConstTensorView bias = without_copies(problem.bias);
  if (problem.head_dim == 256) return "head_dim is 256";
  if (bias.dtype() != problem.dtype) return "its type is not that of q";
  if (problem.sequences.key_start.present()) return "key_start is given";
  if (!(problem.scale > 1e-6)) return "scale is below 1e-6";
  const bool rows = bias.stride(3) == 1 && (bias.shape(2) == 1 || bias.stride(2) >= bias.shape(3));
  return rows && is_mappable(bias) ? "" : "its rows must be aligned to 16 bytes";
}

template <class T, int D, class Sizes, class BiasSizes>
bool launch_for(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  const auto with = [&]<ScoreModifier kOnly>(std::integral_constant<ScoreModifier, kOnly>) {
    launch<T, D, Instance::general, Sizes, kOnly>(workspace, problem);
    return true;
  };
  switch (only_option(problem)) {
    case ScoreModifier::softcap: return with(std::integral_constant<ScoreModifier, ScoreModifier::softcap>());
    case ScoreModifier::alibi: return with(std::integral_constant<ScoreModifier, ScoreModifier::alibi>());
    case ScoreModifier::bias:
      if (!why_not_tiles(problem).empty()) return false;
      launch<T, D, Instance::general, BiasSizes, ScoreModifier::bias>(workspace, problem);
      return true;
    case ScoreModifier::keep: return with(std::integral_constant<ScoreModifier, ScoreModifier::keep>());
    case ScoreModifier::dropout: return with(std::integral_constant<ScoreModifier, ScoreModifier::dropout>());
    default: return false;
  }
}

template <class T>
bool launch_for(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  switch (problem.head_dim) {
    case 64: return launch_for<T, 64, SmallShape64, SmallShape64>(workspace, problem);
    case 128: return launch_for<T, 128, Shape<128>, GeneralShape128>(workspace, problem);
    default: return false;
  }
}

}  // namespace

std::string_view why_not_bias_tiles(const kernels::AttentionProblem& problem) {
  return only_option(problem) == ScoreModifier::bias ? why_not_tiles(problem) : "";
}

bool attend_with_one_option(const Workspace& workspace, const kernels::AttentionProblem& problem) {
  return problem.dtype == DType::bf16 ? launch_for<__nv_bfloat16>(workspace, problem)
                                      : launch_for<__half>(workspace, problem);
}

}  // namespace polyhead::cuda::sm90
