// Attention around a ring of ranks, in one process: each rank has some of the queries and sees one shard of the keys
// after the other, forward and back. The right ring follows the rule of the call with all keys; known mistakes do not.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/plain.h"
#include "support/ring_cases.h"
#include "support/shards.h"

namespace polyhead::test {
namespace {

enum class Mistake {
  none,
  stale_keys,
  lse_ignored,
  own_lse,
  tail_dropped,
  local_positions,
  local_dropout,
  sink_in_every_shard
};

// Rows [begin, end) of [B,H,T,..].
ConstTensorView rows_of(const ConstTensorView& x, std::int64_t begin, std::int64_t end) {
  return x.present() ? x.slice(2, begin, end) : x;
}

// What one rank is called with: its queries, and all keys.
Materialised rank_of(const Materialised& m, std::int64_t begin, std::int64_t end) {
  Materialised rank;
  rank.q = m.q.slice(2, begin, end);
  rank.k = m.k;
  rank.v = m.v;
  rank.options = m.options;
  rank.options.align = Align::unset;
  rank.options.first_position = reference::sequences_of(m.q, m.k, m.options).front().shift + begin;
  rank.options.dropout.origin.row += begin;
  rank.wants = {.lse = true};
  rank.upstream = {rows_of(m.upstream.output, begin, end), rows_of(m.upstream.lse, begin, end), {}};
  rank.gradient_wants = m.gradient_wants;
  return rank;
}

std::int64_t place(std::int64_t size, std::int64_t rank, std::int64_t ranks) { return size * rank / ranks; }

std::vector<Shard> shards_for(const Materialised& rank, std::int64_t ranks, Mistake mistake) {
  std::vector<std::int64_t> cuts;
  for (std::int64_t n = 1; n < ranks; ++n) cuts.push_back(place(rank.k.shape(2), n, ranks));
  std::vector<Shard> shards = shards_of(rank, cuts);
  if (mistake == Mistake::tail_dropped) {  // as many keys for every rank
    const std::int64_t each = rank.k.shape(2) / ranks;
    for (Shard& shard : shards) {
      shard.k = shard.k.slice(2, 0, std::min(each, shard.k.shape(2)));
      shard.v = shard.v.slice(2, 0, std::min(each, shard.v.shape(2)));
      shard.options.key_lengths = {};
    }
  }
  for (std::size_t n = 0; n < shards.size(); ++n) {
    if (mistake == Mistake::local_positions) shards[n].options.first_positions = shards[0].options.first_positions;
    if (mistake == Mistake::local_dropout) shards[n].options.dropout.origin = {};
    if (mistake == Mistake::sink_in_every_shard) shards[n].options.sink_logit = rank.options.sink_logit;
  }
  if (mistake == Mistake::stale_keys) {  // those that came a step before
    shards.back().k = rank.k.slice(2, shards.back().begin - 1, shards.back().end - 1);
    shards.back().v = rank.v.slice(2, shards.back().begin - 1, shards.back().end - 1);
  }
  return shards;
}

// Sums of parts, each at its place in a tensor.
class Sums {
 public:
  explicit Sums(const ConstTensorView& like) : numbers_(like.shape(), 0), dtype_(like.dtype()) {}
  void add(const ConstTensorView& part, int axis, std::int64_t begin) {
    const reference::Array<double> more(part);
    Tensor sum = Tensor::empty(numbers_.shape(), DType::f64);
    numbers_.store_to(sum);
    const TensorView to = sum.view().slice(axis, begin, begin + part.shape(axis));
    const reference::Array<double> before(to);
    std::size_t n = 0;
    fill_with(to, [&] {
      const double x = before.values()[n] + more.values()[n];
      ++n;
      return x;
    });
    numbers_ = reference::Array<double>(sum.view());
  }
  Tensor rounded() const {
    Tensor made = Tensor::empty(numbers_.shape(), dtype_);
    numbers_.store_to(made);
    return made;
  }

 private:
  reference::Array<double> numbers_;
  DType dtype_;
};

struct Ring {
  Attention results;
  AttentionGradients gradients;
};

Ring run_ring(Context& context, const Materialised& m, std::int64_t ranks, Mistake mistake) {
  const DType numbers = m.q.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Dims rows{m.q.shape(0), m.q.shape(1), m.q.shape(2)};
  Ring ring;
  ring.results.output = Tensor::empty(m.upstream.output.shape(), m.q.dtype());
  ring.results.lse = Tensor::empty(rows, numbers);
  Sums dq(m.q), dk(m.k), dv(m.v);
  std::optional<Sums> dsink, dgates;
  if (m.gradient_wants.sink_logit) dsink.emplace(m.options.sink_logit);
  if (m.gradient_wants.gates) dgates.emplace(Tensor::zeros({rows[0], rows[1]}, numbers).view());
  for (std::int64_t r = 0; r < ranks; ++r) {
    const std::int64_t begin = place(rows[2], r, ranks), end = place(rows[2], r + 1, ranks);
    const Materialised rank = rank_of(m, begin, end);
    const std::vector<Shard> shards = shards_for(rank, ranks, mistake);
    std::vector<Attention> seen;
    std::vector<AttentionPart> parts;
    for (const Shard& shard : shards) {
      seen.push_back(attend(context, rank.q, shard.k, shard.v, shard.options, {.lse = true}));
    }
    for (const Attention& one : seen) parts.push_back({one.output, one.lse, {}});
    const TensorView output = ring.results.output.view().slice(2, begin, end);
    const TensorView lse = ring.results.lse.view().slice(2, begin, end);
    merge_attention(parts, {.output = output, .lse = lse});
    for (std::size_t n = 0; n < shards.size(); ++n) {
      const Shard& shard = shards[n];
      ForwardResults forward{output, lse, true};
      if (mistake == Mistake::lse_ignored) forward.merged = false;
      if (mistake == Mistake::own_lse) forward = {seen[n].output, seen[n].lse, true};
      GradientWants wants = rank.gradient_wants;
      wants.sink_logit = shard.options.sink_logit.present();
      const AttentionGradients part =
          attend_backward(context, rank.q, shard.k, shard.v, shard.options, rank.upstream, wants, forward);
      dq.add(part.dq, 2, begin);
      dk.add(part.dk, 2, shard.begin);
      dv.add(part.dv, 2, shard.begin);
      if (wants.sink_logit) dsink->add(part.dsink_logit, 0, 0);
      if (dgates) dgates->add(part.dgates, 0, 0);
    }
  }
  ring.gradients.dq = dq.rounded();
  ring.gradients.dk = dk.rounded();
  ring.gradients.dv = dv.rounded();
  if (dsink) ring.gradients.dsink_logit = dsink->rounded();
  if (dgates) ring.gradients.dgates = dgates->rounded();
  return ring;
}

// This ring keeps its output as it is stored. What the gradient of a sink makes of one in 16 bits is up to 2.2 times
// beyond the rule; ops/ring.h keeps it in f32.
std::vector<Case> cases_of_one_process() {
  std::vector<Case> cases = ring_cases();
  std::erase_if(cases, [](const Case& c) { return c.sink_logit && c.dtype == DType::bf16; });
  return cases;
}

class RingAttention : public ::testing::TestWithParam<Case> {};

TEST_P(RingAttention, FollowsTheRuleAtAnyNumberOfRanks) {
  const Materialised m = materialise(GetParam());
  const ExpectedResults results = expected_results(m);
  const ExpectedGradients gradients = expected_gradients(m);
  Context context(1);
  for (const std::int64_t ranks : {1, 2, 3, 4, 7}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    Ring ring = run_ring(context, m, ranks, Mistake::none);
    EXPECT_TRUE(judge(results, views_of(ring.results)));
    EXPECT_TRUE(judge(gradients, views_of(ring.gradients)));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RingAttention, ::testing::ValuesIn(cases_of_one_process()),
                         [](const auto& instance) { return instance.param.name; });

// Each known mistake, planted, is seen by the rule: in the results or in the gradients.
TEST(RingMistakes, AreSeen) {
  Context context(1);
  for (const Case& c : cases_of_one_process()) {
    if (c.name.find("sink_gates") == c.name.npos) continue;
    SCOPED_TRACE(c.name);
    const Materialised m = materialise(c);
    const ExpectedResults results = expected_results(m);
    const ExpectedGradients gradients = expected_gradients(m);
    for (const Mistake mistake : {Mistake::stale_keys, Mistake::lse_ignored, Mistake::own_lse, Mistake::tail_dropped,
                                  Mistake::local_positions, Mistake::local_dropout, Mistake::sink_in_every_shard}) {
      Ring ring = run_ring(context, m, 3, mistake);
      const bool right = judge(results, views_of(ring.results)) && judge(gradients, views_of(ring.gradients));
      EXPECT_FALSE(right) << "mistake " << static_cast<int>(mistake);
    }
  }
}

}  // namespace
}  // namespace polyhead::test
