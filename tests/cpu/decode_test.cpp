// The path for few queries against the oracle on every vector target, and what its chunks must not change.
#include <gtest/gtest.h>

#include <optional>

#include "polyhead/attention.h"
#include "support/bits.h"
#include "support/plain.h"

namespace polyhead::test {
namespace {

// Several chunks of keys, the last one not full, and a head dim that leaves a part of a vector over.
Case decoding(const std::string& name, std::int64_t queries) {
  Case c;
  c.name = name;
  c.queries = queries;
  c.keys = 1301;
  c.kv_heads = 2;
  c.head_dim = 37;
  c.value_dim = 35;
  c.options.align = Align::bottom_right;
  c.options.causal = true;
  c.wants.lse = true;
  return c;
}

std::vector<Case> decode_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, std::int64_t queries, auto change) {
    Case c = decoding(name, queries);
    change(c);
    cases.push_back(c);
  };
  for (std::int64_t queries = 1; queries <= 16; ++queries) {
    add("queries_" + std::to_string(queries), queries, [](Case&) {});
  }
  for (const std::int64_t kv_heads : {1, 4}) {
    add("kv_heads_" + std::to_string(kv_heads), 3, [=](Case& c) { c.kv_heads = kv_heads; });
  }
  add("many_heads_share", 3, [](Case& c) {
    c.heads = 24;
    c.kv_heads = 1;
  });
  for (const std::int64_t dim : {1, 16, 64, 128}) {
    add("dim_" + std::to_string(dim), 2, [=](Case& c) { c.head_dim = c.value_dim = dim; });
  }
  for (const std::int64_t keys : {1, 511, 512, 513}) {
    add("keys_" + std::to_string(keys), 1, [=](Case& c) { c.keys = keys; });
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::string name(name_of(dtype));
    add(name, 2, [=](Case& c) { c.dtype = dtype; });
    add("f32_over_" + name, 5, [=](Case& c) { c.storage = dtype; });
    add("f32_over_" + name + "_many_queries", 40, [=](Case& c) { c.storage = dtype; });
    add("f32_over_" + name + "_tokens_outside", 2, [=](Case& c) {
      c.storage = dtype;
      c.layout = Layout::tokens_outside;
    });
  }
  add("softcap", 2, [](Case& c) { c.options.softcap = 2; });
  add("scale", 2, [](Case& c) { c.options.scale = -0.3; });
  add("alibi", 4, [](Case& c) { c.alibi = true; });
  add("sink", 4, [](Case& c) { c.sink_logit = true; });
  add("gates", 2, [](Case& c) { c.gates = Gates::per_sequence; });
  add("closed_gates", 2, [](Case& c) {
    c.kv_heads = 4;
    c.gates = Gates::per_head;
    c.closed_nan = true;
  });
  add("window", 8, [](Case& c) { c.options.window = {.left = 300, .right = 0, .always_first = 0}; });
  add("window_first", 8, [](Case& c) {
    c.options.window = {.left = 100, .right = 0, .always_first = 5};
    c.hidden_nan = true;
  });
  add("window_ahead", 3, [](Case& c) {
    c.options.causal = false;
    c.options.align = Align::top_left;
    c.options.window = {.left = 2, .right = 600, .always_first = 0};
    c.hidden_nan = true;
  });
  add("padded", 7, [](Case& c) {
    c.batch = 3;
    c.key_lengths = c.key_start = c.query_lengths = c.sink_logit = c.hidden_nan = true;
  });
  add("packed", 12, [](Case& c) { c.packed = c.hidden_nan = true; });
  add("rows_before_the_keys", 8, [](Case& c) { c.keys = 3; });
  return cases;
}

class CpuDecode : public ::testing::TestWithParam<Case> {};

TEST_P(CpuDecode, FollowsTheRuleOnEveryTarget) {
  const Materialised m = materialise(GetParam());
  const auto expected = judges(m.name) ? std::optional(expected_results(m)) : std::nullopt;
  const RestoreTarget restore;
  Context context(1);
  for (const std::string& target : targets_for(m.name)) {
    SCOPED_TRACE(target);
    cpu::use_target(target);
    Attention got = attend(context, m.q, m.k, m.v, m.options, m.wants);
    EXPECT_TRUE(expected ? judge(*expected, views_of(got)) : ::testing::AssertionSuccess());
    AttentionWants more = m.wants;
    more.weights = true;
    more.statistics = StatisticsSet::light;
    const Attention reported = attend(context, m.q, m.k, m.v, m.options, more);
    EXPECT_TRUE(same_bits("output", got.output, reported.output)) << "asking for more changed it";
  }
}

TEST_P(CpuDecode, ThreadsChangeNoBit) {
  const Materialised m = materialise(GetParam());
  Context one(1);
  const Attention expected = attend(one, m.q, m.k, m.v, m.options, m.wants);
  for (int threads = 2; threads <= 8; threads += kSanitized ? 3 : 1) {
    Context context(threads);
    expect_same_bits(expected, attend(context, m.q, m.k, m.v, m.options, m.wants));
  }
}

INSTANTIATE_TEST_SUITE_P(Options, CpuDecode, ::testing::ValuesIn(decode_cases()),
                         [](const auto& instance) { return instance.param.name; });

// A token that is decoded beside others, as in checking a draft, comes to the same bits as one decoded alone.
TEST(CpuDecodeRows, DoNotDependOnTheRowsBesideThem) {
  Case c = decoding("rows", 6);
  c.options.window = {.left = 700, .right = 0, .always_first = 3};
  c.alibi = c.sink_logit = true;
  const Materialised m = materialise(c);
  Context context(1);
  const Attention together = attend(context, m.q, m.k, m.v, m.options, {});
  for (std::int64_t i = 0; i < c.queries; ++i) {
    const std::int64_t seen = c.keys - c.queries + i + 1;
    const Attention alone =
        attend(context, m.q.slice(2, i, i + 1), m.k.slice(2, 0, seen), m.v.slice(2, 0, seen), m.options, {});
    EXPECT_EQ(reference::Array<double>(together.output.view().slice(2, i, i + 1)).values(),
              reference::Array<double>(alone.output).values());
  }
}

}  // namespace
}  // namespace polyhead::test
