// Decoding over a cache: the same as one pass over everything, however the tokens arrive.
#include "polyhead/cache.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "io/scratch.h"
#include "support/bits.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

Context context(2);  // of all tests here

KvCacheSizes sizes_of(const ConstTensorView& k, const ConstTensorView& v, std::int64_t capacity) {
  return {k.shape(0), k.shape(1), capacity, k.shape(3), v.shape(3)};
}

// The tokens arrive in pieces of any size, and each piece asks for its own queries.
Attention decode(const Materialised& m, KvCache& cache, Random& random, std::int64_t longest) {
  Attention result = make_results(m);
  AttentionOptions options = m.options;
  options.key_start = {};
  options.align = Align::unset;
  if (m.options.key_start.present()) cache.set_key_start(context, m.options.key_start);
  for (std::int64_t begin = 0, end; begin < m.k.shape(2); begin = end) {
    end = std::min(begin + 1 + random.below(longest), m.k.shape(2));
    cache.append(context, m.k.slice(2, begin, end), m.v.slice(2, begin, end));
    attend_into(context, m.q.slice(2, begin, end), cache, options, m.wants,
                {.output = result.output.view().slice(2, begin, end), .lse = result.lse.view().slice(2, begin, end)});
  }
  return result;
}

std::vector<Case> cache_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, auto change) {
    Case c;
    c.name = name;
    c.queries = c.keys = 149;
    c.kv_heads = 2;
    c.options.align = Align::bottom_right;
    c.options.causal = true;
    c.wants.lse = true;
    change(c);
    cases.push_back(c);
  };
  add("plain", [](Case&) {});
  add("every_head_its_own", [](Case& c) { c.kv_heads = 4; });
  add("one_for_all", [](Case& c) { c.kv_heads = 1; });
  add("several_chunks", [](Case& c) {
    c.batch = 1;
    c.queries = c.keys = 1100;
  });
  add("f16", [](Case& c) { c.dtype = DType::f16; });
  add("f64", [](Case& c) { c.dtype = DType::f64; });
  add("f32_over_f16", [](Case& c) { c.storage = DType::f16; });
  add("f32_over_bf16", [](Case& c) { c.storage = DType::bf16; });
  add("padded", [](Case& c) { c.key_start = c.hidden_nan = true; });
  add("window", [](Case& c) { c.options.window = {.left = 20, .right = 0, .always_first = 3}; });
  add("sink_padded", [](Case& c) { c.sink_logit = c.key_start = true; });
  add("alibi_padded", [](Case& c) { c.alibi = c.key_start = true; });
  add("softcap", [](Case& c) { c.options.softcap = 3; });
  add("gates", [](Case& c) { c.gates = Gates::per_sequence; });
  return cases;
}

class Cache : public ::testing::TestWithParam<Case> {};

TEST_P(Cache, DecodingInAnyPiecesIsTheFullPass) {
  const Materialised m = materialise(GetParam());
  const ExpectedResults expected = expected_results(m);
  Random random(m.name);
  for (const std::int64_t longest : {1, 4, 16, 60}) {
    KvCache cache(context, sizes_of(m.k, m.v, m.k.shape(2) + 3), m.k.dtype());
    Attention got = decode(m, cache, random, longest);
    EXPECT_TRUE(judge(expected, views_of(got))) << "in pieces of up to " << longest;
  }
}

INSTANTIATE_TEST_SUITE_P(Options, Cache, ::testing::ValuesIn(cache_cases()),
                         [](const auto& instance) { return instance.param.name; });

// One layer's tokens: k, v and q of [2,G,n,8], of a seed.
struct Tokens {
  Tensor q, k, v;
  Tokens(std::int64_t n, std::string_view seed, DType dtype = DType::f32) {
    Random random(seed);
    q = Tensor::zeros({2, 4, n, 8}, DType::f32);
    k = Tensor::zeros({2, 2, n, 8}, dtype);
    v = Tensor::zeros({2, 2, n, 5}, dtype);
    for (Tensor* tensor : {&q, &k, &v}) fill_normal(*tensor, random);
  }
};
constexpr KvCacheSizes kSizes{.batch = 2, .kv_heads = 2, .capacity = 40, .head_dim = 8, .value_dim = 5};

TEST(CacheLife, RollbackAndTheSameTokensGiveTheSameBits) {
  const Tokens prompt(17, "prompt"), draft(6, "draft"), next(3, "next");
  for (const DType storage : {DType::f32, DType::f16}) {
    KvCache straight(context, kSizes, storage), turned(context, kSizes, storage);
    straight.append(context, prompt.k, prompt.v);
    straight.append(context, next.k, next.v);
    turned.append(context, prompt.k, prompt.v);
    turned.append(context, draft.k, draft.v);
    turned.rollback(6);
    EXPECT_EQ(turned.length(), 17);
    turned.append(context, next.k, next.v);
    expect_same_bits(attend(context, next.q, straight, {.causal = true}),
                     attend(context, next.q, turned, {.causal = true}));
    turned.clear();
    EXPECT_EQ(turned.length(), 0);
    turned.append(context, prompt.k, prompt.v);
    turned.append(context, next.k, next.v);
    expect_same_bits(attend(context, next.q, straight), attend(context, next.q, turned));
  }
}

TEST(CacheLife, ExplainSaysThatQueriesAreFew) {
  const Tokens prompt(17, "prompt"), next(1, "next");
  KvCache cache(context, kSizes, DType::f16);
  cache.append(context, prompt.k, prompt.v);
  const std::string text = explain(context, next.q, cache.keys(), cache.values());
  EXPECT_NE(text.find("few queries"), std::string::npos) << text;
  EXPECT_NE(text.find("in registers"), std::string::npos) << text;
}

TEST(CacheLife, ClearForgetsThePadding) {
  const std::int32_t start[] = {2, 0};
  KvCache cache(context, kSizes);
  cache.set_key_start(context, ConstTensorView(start, {2}));
  EXPECT_EQ(cache.key_start(), (std::vector<std::int32_t>{2, 0}));
  cache.clear();
  EXPECT_EQ(cache.key_start(), (std::vector<std::int32_t>{0, 0}));
}

// Ties to even, beyond the largest to infinity, NaN stays NaN; and any layout goes in.
TEST(CacheLife, RoundsToNearestEven) {
  Tokens tokens(9, "round");
  float* k = tokens.k.as<float>();
  const float awkward[] = {1 + 0x1p-11f, 1 + 0x3p-11f, 1 + 0x1p-8f, 65520.0f,      -70000.0f, 0x1p-25f,
                           0x1p-24f,     -0.0f,        3e38f,       std::nanf(""), -INFINITY, 1e-40f};
  std::copy(std::begin(awkward), std::end(awkward), k);
  const auto check = [&](auto half) {
    using Half = decltype(half);
    KvCache cache(context, kSizes, dtype_of<Half>);
    cache.append(context, tokens.k, tokens.v);
    const ConstTensorView keys = cache.keys();
    EXPECT_EQ(keys.shape(), (Dims{2, 2, 9, 8}));
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 72; ++i) {
        const Half wanted(k[b * 144 + i]), got = keys.as<Half>()[b * keys.stride(0) + i];
        if (std::isnan(static_cast<float>(wanted))) {
          EXPECT_TRUE(std::isnan(static_cast<float>(got)));
        } else {
          EXPECT_EQ(got.bits, wanted.bits) << k[b * 144 + i];
        }
      }
    }
  };
  check(float16());
  check(bfloat16());
}

TEST(CacheLife, TakesTokensInAnyLayout) {
  const Tokens tokens(7, "layout");
  Placed k = place(2, 2, 7, 8, DType::f32, Layout::tokens_outside);
  const reference::Array<double> values(tokens.k);
  std::size_t n = 0;
  fill_with(k.view, [&] { return values.values()[n++]; });
  KvCache cache(context, kSizes);
  cache.append(context, k.view, tokens.v);
  EXPECT_EQ(reference::Array<double>(cache.keys()).values(), values.values());
}

// Refuses with this code and these words, and leaves the cache as it was.
template <class Spoil>
void expect_cache_refused(const Spoil& spoil, ErrorCode code, const std::vector<std::string>& words) {
  const Tokens tokens(38, "there");
  KvCache cache(context, kSizes, DType::f16);
  cache.append(context, tokens.k, tokens.v);
  const auto before = reference::Array<double>(cache.keys()).values();
  try {
    spoil(cache);
    ADD_FAILURE() << "nothing was refused; expected words: " << ::testing::PrintToString(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " is not in: " << error.what();
    }
  }
  EXPECT_EQ(cache.length(), 38);
  EXPECT_EQ(reference::Array<double>(cache.keys()).values(), before);
  EXPECT_EQ(cache.key_start(), (std::vector<std::int32_t>{0, 0}));
}

TEST(CacheErrors, LeaveItUntouched) {
  const Tokens three(3, "three"), one(1, "one"), doubles(1, "doubles", DType::f64), brains(1, "brains", DType::bf16);
  expect_cache_refused([&](KvCache& c) { c.append(context, three.k, three.v); }, ErrorCode::value,
                       {"[append]", "at most 2 tokens", "capacity of 40", "found 3"});
  expect_cache_refused([&](KvCache& c) { c.append(context, one.k, three.v); }, ErrorCode::shape,
                       {"v: expected [2,2,1,5]", "[2,2,3,5]"});
  expect_cache_refused([&](KvCache& c) { c.append(context, one.q, one.v); }, ErrorCode::shape,
                       {"k: expected [2,2,1,8]", "[2,4,1,8]"});
  expect_cache_refused([&](KvCache& c) { c.append(context, {}, one.v); }, ErrorCode::shape, {"k:", "nothing"});
  expect_cache_refused([&](KvCache& c) { c.append(context, doubles.k, one.v); }, ErrorCode::dtype,
                       {"k: expected f16 or f32", "f64"});
  expect_cache_refused([&](KvCache& c) { c.append(context, one.k, brains.v); }, ErrorCode::dtype,
                       {"v: expected f16 or f32", "bf16"});
  expect_cache_refused([&](KvCache& c) { c.append(context, c.keys().slice(2, 0, 1), one.v); }, ErrorCode::layout,
                       {"k:", "apart from the cache"});
  expect_cache_refused([&](KvCache& c) { c.append(context, one.k.view().transpose(0, 3).slice(3, 0, 2), one.v); },
                       ErrorCode::shape, {"k:"});
  expect_cache_refused([](KvCache& c) { c.rollback(39); }, ErrorCode::value, {"[rollback]", "0 to 38", "found 39"});
  expect_cache_refused([](KvCache& c) { c.rollback(-1); }, ErrorCode::value, {"found -1"});
  const std::int32_t beyond[] = {0, 41};
  expect_cache_refused([&](KvCache& c) { c.set_key_start(context, ConstTensorView(beyond, {2})); }, ErrorCode::value,
                       {"start[1]", "capacity of 40", "found 41"});
  expect_cache_refused([&](KvCache& c) { c.set_key_start(context, ConstTensorView(beyond, {1})); }, ErrorCode::shape,
                       {"[2]"});
}

TEST(CacheErrors, OptionsThatTheCacheHasItself) {
  const Tokens one(1, "one");
  const std::int32_t lengths[] = {1, 1};
  expect_cache_refused([&](KvCache& c) { attend(context, one.q, c, {.align = Align::top_left}); }, ErrorCode::value,
                       {"[attend] align", "bottom_right"});
  expect_cache_refused([&](KvCache& c) { attend(context, one.q, c, {.key_lengths = ConstTensorView(lengths, {2})}); },
                       ErrorCode::value, {"lengths"});
  EXPECT_THROW(KvCache(context, kSizes, DType::i32), Error);
}

TEST(CacheErrors, EverySizeIsBelowTwoToThe31) {
  using Sizes = KvCacheSizes;
  for (std::int64_t Sizes::*size :
       {&Sizes::batch, &Sizes::kv_heads, &Sizes::capacity, &Sizes::head_dim, &Sizes::value_dim}) {
    Sizes sizes;  // nothing is taken for a capacity of 0
    sizes.*size = std::int64_t{1} << 31;
    io::expect_error(ErrorCode::shape, {"[kv_cache]", "sizes below 2^31", "2147483648"},
                     [&] { KvCache cache(context, sizes); });
  }
}

// Gradients are for training, where nothing is cached: the backward pass wants one type.
TEST(CacheErrors, BackwardRefusesMixedTypes) {
  const Tokens halves(4, "halves", DType::f16);
  const Tensor dout = Tensor::zeros({2, 4, 4, 5}, DType::f32);
  try {
    attend_backward(context, halves.q, halves.k, halves.v, {}, {.output = dout});
    FAIL() << "mixed types were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::dtype);
    EXPECT_NE(std::string(error.what()).find("[attend_backward] k: expected f32, found f16"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace polyhead::test
