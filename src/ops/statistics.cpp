#include "ops/check.h"
#include "polyhead/attention.h"

namespace polyhead {
namespace {

template <class T, class From>
void merge(const TensorView& into, const ConstTensorView& more) {
  const std::int64_t fields = into.shape(2);
  for (std::int64_t b = 0; b < into.shape(0); ++b) {
    for (std::int64_t h = 0; h < into.shape(1); ++h) {
      T* to = static_cast<T*>(into.data()) + b * into.stride(0) + h * into.stride(1);
      const From* from = static_cast<const From*>(more.data()) + b * more.stride(0) + h * more.stride(1);
      for (std::int64_t f = 0; f < fields; ++f) {
        T& sum = to[f * into.stride(2)];
        const T value = from[f * more.stride(2)];
        sum = f == static_cast<std::int64_t>(Statistic::max_logit) ? (value <= sum ? sum : value) : sum + value;
      }
    }
  }
}

}  // namespace

void merge_statistics(const TensorView& into, const ConstTensorView& more) {
  const ops::Op op{"merge_statistics", Device{}};
  const ops::Argument target{op, "into", into}, source{op, "more", more};
  const bool numbers = into.dtype() == DType::f32 || into.dtype() == DType::f64;
  if (into.rank() != 3 || !numbers || (into.shape(2) != kLightStatistics && into.shape(2) != kFullStatistics)) {
    target.refuse(ErrorCode::shape, "statistics [B,H," + std::to_string(kLightStatistics) + " or " +
                                        std::to_string(kFullStatistics) + "] of f32 or f64");
  }
  if (more.dtype() != DType::f32) source.expect_dtype(into.dtype());
  source.expect_shape(into.shape());
  target.expect_memory();
  source.expect_memory();
  target.expect_writable_strides();
  if (ops::overlap(into, more)) target.refuse(ErrorCode::layout, "memory apart from that of more");
  if (into.dtype() == DType::f32) return merge<float, float>(into, more);
  more.dtype() == DType::f32 ? merge<double, float>(into, more) : merge<double, double>(into, more);
}

}  // namespace polyhead
