#include "polyhead/cache.h"

#include <algorithm>

#include "backend/convert.h"
#include "ops/check.h"

namespace polyhead {
namespace {

void expect_tokens(const ops::Argument& argument, const Dims& shape, const Tensor& storage) {
  const ConstTensorView& view = argument.view;
  if (!view.present() || view.shape() != shape) {
    argument.refuse(ErrorCode::shape, to_string(shape), "n must be the same in k and v");
  }
  const bool narrows = view.dtype() == DType::f32 && size_of(storage.dtype()) == 2;
  if (view.dtype() != storage.dtype() && !narrows) {
    const std::string name(name_of(storage.dtype()));
    argument.refuse(ErrorCode::dtype, size_of(storage.dtype()) == 2 ? name + " or f32" : name);
  }
  argument.expect_memory();
  argument.expect_last_stride_one();
  if (ops::overlap(view, storage)) argument.refuse(ErrorCode::layout, "memory apart from the cache's own");
}

// The caller's options and what the cache knows. `start` lends its memory to the result.
AttentionOptions completed(const AttentionOptions& options, const KvCache& cache, std::vector<std::int32_t>& start) {
  if (options.align == Align::top_left) {
    throw Error(ErrorCode::value, "attend",
                "align: expected bottom_right over a cache (the last query stands at the last key), found top_left; "
                "leave it out");
  }
  if (options.key_lengths.present() || options.key_start.present() || options.query_lengths.present() ||
      options.cu_q.present() || options.cu_k.present()) {
    throw Error(ErrorCode::value, "attend",
                "expected no lengths and no packing over a cache, which has its own; use KvCache::set_key_start");
  }
  AttentionOptions result = options;
  result.align = Align::bottom_right;
  const auto length = static_cast<std::int32_t>(cache.length());
  for (std::int32_t& b : start = cache.key_start()) b = std::min(b, length);
  if (std::any_of(start.begin(), start.end(), [](std::int32_t b) { return b > 0; })) {
    result.key_start = ConstTensorView(start.data(), {cache.sizes().batch});
  }
  return result;
}

}  // namespace

KvCache::KvCache(const KvCacheSizes& sizes, DType storage) : sizes_(sizes) {
  const Dims keys{sizes.batch, sizes.kv_heads, sizes.capacity, sizes.head_dim};
  const Dims values{sizes.batch, sizes.kv_heads, sizes.capacity, sizes.value_dim};
  if (!is_float(storage)) {
    throw Error(ErrorCode::dtype, "kv_cache",
                "storage: expected f32, f16, bf16 or f64, found " + std::string(name_of(storage)));
  }
  if (sizes.capacity > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::shape, "kv_cache", "keys: expected a capacity below 2^31, found " + to_string(keys));
  }
  keys_ = Tensor::empty(keys, storage);
  values_ = Tensor::empty(values, storage);
  key_start_.assign(static_cast<std::size_t>(sizes.batch), 0);
}

void KvCache::append(const ConstTensorView& k, const ConstTensorView& v) {
  const std::int64_t n = k.present() && k.rank() == 4 ? k.shape(2) : 0;
  expect_tokens({"append", "k", k}, {sizes_.batch, sizes_.kv_heads, n, sizes_.head_dim}, keys_);
  expect_tokens({"append", "v", v}, {sizes_.batch, sizes_.kv_heads, n, sizes_.value_dim}, values_);
  if (n > sizes_.capacity - length_) {
    throw Error(ErrorCode::value, "append",
                "expected at most " + std::to_string(sizes_.capacity - length_) + " tokens more (" +
                    std::to_string(length_) + " of a capacity of " + std::to_string(sizes_.capacity) +
                    " are there), found " + std::to_string(n) + "; make a larger cache, or roll this one back");
  }
  cpu::convert(k, keys_.view().slice(2, length_, length_ + n));
  cpu::convert(v, values_.view().slice(2, length_, length_ + n));
  length_ += n;
}

void KvCache::rollback(std::int64_t n) {
  if (n < 0 || n > length_) {
    throw Error(
        ErrorCode::value, "rollback",
        "expected 0 to " + std::to_string(length_) + " tokens, as many as there are, found " + std::to_string(n));
  }
  length_ -= n;
}

void KvCache::clear() noexcept {
  length_ = 0;
  std::fill(key_start_.begin(), key_start_.end(), 0);
}

void KvCache::set_key_start(const ConstTensorView& start) {
  const ops::Argument argument{"set_key_start", "start", start};
  argument.expect_dtype(DType::i32);
  argument.expect_shape({sizes_.batch});
  argument.expect_memory();
  std::vector<std::int32_t> starts(key_start_.size());
  for (std::size_t b = 0; b < starts.size(); ++b) {
    starts[b] = start.as<std::int32_t>()[static_cast<std::int64_t>(b) * start.stride(0)];
    if (starts[b] < 0 || starts[b] > sizes_.capacity) {
      throw Error(ErrorCode::value, "set_key_start",
                  "start[" + std::to_string(b) + "]: expected 0 to the capacity of " + std::to_string(sizes_.capacity) +
                      ", found " + std::to_string(starts[b]));
    }
  }
  key_start_ = std::move(starts);
}

Attention attend(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants) {
  std::vector<std::int32_t> start;
  return attend(context, q, cache.keys(), cache.values(), completed(options, cache, start), wants);
}

void attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants, const AttentionOutputs& outputs) {
  std::vector<std::int32_t> start;
  attend_into(context, q, cache.keys(), cache.values(), completed(options, cache, start), wants, outputs);
}

}  // namespace polyhead
