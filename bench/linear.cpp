#include "linear.h"

#include <cstdio>
#include <stdexcept>

#include "cases.h"
#include "kernels/table.h"

#ifdef POLYHEAD_BENCH_OPENBLAS
#include <cblas.h>
#endif

namespace polyhead::bench {

Linear::Linear(Context& context, std::int64_t M, std::int64_t N, std::int64_t K, DType dtype)
    : x(Tensor::empty({M, K}, dtype)),
      w(Tensor::empty({N, K}, dtype)),
      bias(Tensor::empty({N}, dtype)),
      y(Tensor::zeros({M, N}, dtype)) {
  fill_uniform(x, 1);
  fill_uniform(w, 2);
  fill_uniform(bias, 3);
  packed = context.executor().kernels().pack(context.executor(), w.view().transpose(0, 1), kernels::Products::exact);
}

void Linear::call(Context& context) {
  kernels::GemmProblem problem;
  problem.a = x;
  problem.packed = &packed;
  problem.bias = bias;
  problem.c = y;
  context.executor().kernels().gemm(context.executor(), problem);
}

void Linear::call_blas() {
#ifdef POLYHEAD_BENCH_OPENBLAS
  const auto M = static_cast<int>(y.shape()[0]), N = static_cast<int>(y.shape()[1]), K = static_cast<int>(x.shape()[1]);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, M, N, K, 1.0f, x.as<float>(), K, w.as<float>(), K, 0.0f,
              y.as<float>(), N);
#else
  throw std::runtime_error("built without OpenBLAS");
#endif
}

std::unique_ptr<Linear> make_linear(Context& context, const std::string& name) {
  int M = 0, N = 0, K = 0, end = 0;
  const bool numbers = std::sscanf(name.c_str(), "%d,%d,%d%n", &M, &N, &K, &end) == 3 && M >= 0 && N >= 0 && K >= 0;
  const std::string type = numbers ? name.substr(static_cast<std::size_t>(end)) : name;
  if (!type.empty() && type != ",bf16") throw std::invalid_argument(name + ": expected M,N,K or M,N,K,bf16");
  return std::make_unique<Linear>(context, M, N, K, type.empty() ? DType::f32 : DType::bf16);
}

}  // namespace polyhead::bench
