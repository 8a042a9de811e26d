#include "ops/cache.h"

#include <algorithm>

#include "core/numbers.h"
#include "ops/call.h"
#include "ops/check.h"
#include "ops/resolve.h"
#include "ops/rotary.h"

namespace polyhead {
namespace {

void expect_tokens(const ops::Argument& argument, const Dims& shape, const Tensor& storage, const Tensor& other) {
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
  if (ops::overlap(view, storage) || ops::overlap(view, other))
    argument.refuse(ErrorCode::layout, "memory apart from the cache's own");
}

}  // namespace

// What is not public of a cache.
struct CacheAccess {
  static TensorView keys(KvCache& cache) { return cache.keys_.view(); }
  static TensorView values(KvCache& cache) { return cache.values_.view(); }
  static ConstTensorView keys(const KvCache& cache, std::int64_t end) { return cache.keys_.view().slice(2, 0, end); }
  static ConstTensorView values(const KvCache& cache, std::int64_t end) {
    return cache.values_.view().slice(2, 0, end);
  }
  static ConstTensorView start(const KvCache& cache) { return cache.device_start_; }
  static std::int64_t& length(KvCache& cache) { return cache.length_; }
};

namespace {

// The caller's options with those of the cache and the tokens up to `length`, and the memory that they refer to.
struct CacheOptions {
  AttentionOptions options;
  Tensor start;

  CacheOptions(Context& context, const AttentionOptions& given, const KvCache& cache, std::int64_t length)
      : options(given) {
    if (given.align == Align::top_left) {
      throw Error(ErrorCode::value, "attend",
                  "align: expected bottom_right over a cache (the last query stands at the last key), found top_left; "
                  "leave it out");
    }
    if (given.first_position || given.first_positions.present()) {
      throw Error(ErrorCode::value, "attend",
                  "first_position: expected none over a cache, where the last query stands at the last key");
    }
    if (given.key_lengths.present() || given.key_start.present() || given.query_lengths.present() ||
        given.cu_q.present() || given.cu_k.present()) {
      throw Error(ErrorCode::value, "attend",
                  "expected no lengths and no packing over a cache, which has its own; use KvCache::set_key_start");
    }
    options.align = Align::bottom_right;
    const std::vector<std::int32_t>& starts = cache.key_start();
    const std::int32_t most = starts.empty() ? 0 : *std::max_element(starts.begin(), starts.end());
    if (most == 0) return;
    options.key_start = CacheAccess::start(cache);
    if (most <= length) return;
    // The cache is still shorter than its padding: no sequence may begin beyond the last key.
    start = Tensor::empty({cache.sizes().batch}, DType::i32);
    std::transform(starts.begin(), starts.end(), start.as<std::int32_t>(),
                   [&](std::int32_t b) { return std::min(b, static_cast<std::int32_t>(length)); });
    start = moved_to(context.allocator(), std::move(start));
    options.key_start = start;
  }
};

}  // namespace

KvCache::KvCache(Context& context, const KvCacheSizes& sizes, DType storage) : sizes_(sizes) {
  const Dims keys{sizes.batch, sizes.kv_heads, sizes.capacity, sizes.head_dim};
  const Dims values{sizes.batch, sizes.kv_heads, sizes.capacity, sizes.value_dim};
  if (!is_float(storage)) {
    throw Error(ErrorCode::dtype, "kv_cache",
                "storage: expected f32, f16, bf16 or f64, found " + std::string(name_of(storage)));
  }
  const std::int64_t largest = std::max({sizes.batch, sizes.kv_heads, sizes.capacity, sizes.head_dim, sizes.value_dim});
  if (largest > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::shape, "kv_cache",
                "expected sizes below 2^31, found keys " + to_string(keys) + " and values " + to_string(values));
  }
  keys_ = Tensor::empty(keys, storage, context.allocator());
  values_ = Tensor::empty(values, storage, context.allocator());
  key_start_.assign(static_cast<std::size_t>(sizes.batch), 0);
}

void KvCache::append(Context& context, const ConstTensorView& k, const ConstTensorView& v) {
  const ops::Op op{"append", context.device()};
  const std::int64_t n = k.present() && k.rank() == 4 ? k.shape(2) : 0;
  expect_tokens({op, "k", k}, {sizes_.batch, sizes_.kv_heads, n, sizes_.head_dim}, keys_, values_);
  expect_tokens({op, "v", v}, {sizes_.batch, sizes_.kv_heads, n, sizes_.value_dim}, values_, keys_);
  if (n > sizes_.capacity - length_) {
    throw Error(ErrorCode::value, "append",
                "expected at most " + std::to_string(sizes_.capacity - length_) + " tokens more (" +
                    std::to_string(length_) + " of a capacity of " + std::to_string(sizes_.capacity) +
                    " are there), found " + std::to_string(n) + "; make a larger cache, or roll this one back");
  }
  const ops::Call call(context);
  call(&ops::Table::copy, k, keys_.view().slice(2, length_, length_ + n));
  call(&ops::Table::copy, v, values_.view().slice(2, length_, length_ + n));
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

void KvCache::set_key_start(Context& context, const ConstTensorView& start) {
  const ops::Argument argument{{"set_key_start", start.device()}, "start", start};
  argument.expect_dtype(DType::i32);
  argument.expect_shape({sizes_.batch});
  argument.expect_memory();
  Tensor starts = to_host(context, start);
  const std::int32_t* numbers = starts.as<std::int32_t>();
  for (std::int64_t b = 0; b < sizes_.batch; ++b) {
    if (numbers[b] >= 0 && numbers[b] <= sizes_.capacity) continue;
    throw Error(ErrorCode::value, "set_key_start",
                "start[" + std::to_string(b) + "]: expected 0 to the capacity of " + std::to_string(sizes_.capacity) +
                    ", found " + std::to_string(numbers[b]));
  }
  key_start_.assign(numbers, numbers + sizes_.batch);
  device_start_ = moved_to(keys_.allocator(), std::move(starts));
}

Attention attend(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants) {
  const CacheOptions completed(context, options, cache, cache.length());
  return attend(context, q, cache.keys(), cache.values(), completed.options, wants);
}

void attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                 const AttentionWants& wants, const AttentionOutputs& outputs) {
  const CacheOptions completed(context, options, cache, cache.length());
  attend_into(context, q, cache.keys(), cache.values(), completed.options, wants, outputs);
}

void ops::append(Context& context, KvCache& cache, const TensorView& q, const TensorView& k, const ConstTensorView& v,
                 const std::optional<Rotary>& rotary, const ConstTensorView& positions, const CacheRows& rows) {
  kernels::AppendProblem problem{q, k, v, CacheAccess::keys(cache), CacheAccess::values(cache), rows.first};
  if (rotary) {
    problem.rotary = resolve({"append", context.device()}, k, *rotary, positions);
    problem.rotary.x = {};
  }
  run(context, &Table::append, problem);
}

void ops::attend_into(Context& context, const ConstTensorView& q, const KvCache& cache, const AttentionOptions& options,
                      const CacheRows& rows, const TensorView& output) {
  const std::int64_t length = cache.length() + q.shape(2), end = rows.bound > 0 ? rows.bound : length;
  CacheOptions completed(context, options, cache, length);
  if (rows.bound > 0) completed.options.key_lengths = rows.ends;
  const Op op{"attend", context.device()};
  kernels::AttentionProblem problem =
      resolve(op, q, CacheAccess::keys(cache, end), CacheAccess::values(cache, end), completed.options, {});
  attach_outputs(op, completed.options, {}, shapes_of(problem, {}, 0), {.output = output}, problem);
  run(context, &Table::attend, problem);  // lengths are the cache's own: nothing to check
}

void ops::count(KvCache& cache, std::int64_t n) { CacheAccess::length(cache) += n; }

}  // namespace polyhead
