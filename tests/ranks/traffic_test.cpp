// What `polyhead plan` says that ranks send, beside what they send.
#include <gtest/gtest.h>

#include "cli/forecast.h"
#include "heads/importance.h"
#include "io/scratch.h"
#include "ops/ring.h"
#include "ranks/joined.h"
#include "support/random.h"
#include "train/run.h"

namespace polyhead::test {
namespace {

// Ranks, and the bytes that this one gives to others. Rank 0's answers about jobs count where they are heard.
class Counted final : public Ranks {
 public:
  explicit Counted(Ranks& ranks) : Ranks(ranks.rank(), ranks.size()), ranks_(ranks) {}
  // A group of them, which counts for all in the end.
  Counted(std::unique_ptr<Ranks> group, Counted& all)
      : Ranks(group->rank(), group->size()), group_(std::move(group)), ranks_(*group_), all_(&all) {}
  ~Counted() override {
    if (all_ == nullptr) return;
    all_->messages += messages;
    all_->texts += texts;
  }

  double messages = 0, texts = 0, jobs = 0;

  std::string transport() const override { return ranks_.transport(); }
  int threads() const override { return ranks_.threads(); }
  std::unique_ptr<Message> start_send(std::span<const std::byte> bytes, int to) override {
    messages += static_cast<double>(bytes.size());
    return ranks_.start_send(bytes, to);
  }
  std::unique_ptr<Message> start_receive(std::span<std::byte> bytes, int from) override {
    return ranks_.start_receive(bytes, from);
  }
  void broadcast(std::span<std::byte> bytes, int from) override {
    if (from == rank()) messages += (size() - 1) * static_cast<double>(bytes.size());
    ranks_.broadcast(bytes, from);
  }
  std::vector<std::string> gather(const std::string& mine) override {
    texts += (size() - 1) * (8 + static_cast<double>(mine.size()));
    return ranks_.gather(mine);
  }
  void share(std::int64_t count, const std::function<void(std::int64_t)>& run) override {
    if (rank() > 0) jobs += 8;
    ranks_.share(count, [&](std::int64_t job) {
      if (rank() > 0) jobs += 8;
      run(job);
    });
  }
  std::unique_ptr<Ranks> split(int number) override { return std::make_unique<Counted>(ranks_.split(number), *this); }

 private:
  std::unique_ptr<Ranks> group_;
  Ranks& ranks_;
  Counted* all_ = nullptr;
};

double over_ranks(double mine) {
  double sum = 0;
  for (const std::string& text : ranks().gather(std::to_string(mine))) sum += std::stod(text);
  return sum;
}

const cli::Rates kRates{1e9, 1e9, 1e9, 1e9, 1e9};
const cli::Link kLink{1e-6, 1e9};

train::Plan plan() {
  train::Plan plan = train::plan_for("copy");
  plan.model = model::make_config(model::Kind::gpt, 2, 24, 4);
  plan.model.layers[1] = {.heads = 2, .kv_heads = 1};
  plan.model.qk_norm = true;
  plan.model.feed_forward = model::FeedForward::swiglu;
  plan.training.batch = 9;
  plan.training.parts = 8;
  return plan;
}

// Of a run of so many steps, in which so many ranks share every pass.
double sent_in(std::int64_t steps, int heads) {
  const io::Scratch scratch;
  Context context(1);
  train::Plan some = plan();
  some.training.steps = steps;
  Counted counted(ranks());
  {
    const train::RankGrid grid(counted, heads);
    train::Run::start(context, some, scratch / "run", false, grid)->go([](const auto&) { return true; });
  }
  return over_ranks(counted.messages + counted.texts);
}

TEST(Traffic, OfAStepIsWhatThePlanSays) {
  train::Plan some = plan();
  train::fit_to_task(some.model, *train::task_of(some));
  for (int heads = 1; heads <= ranks().size(); ++heads) {
    if (ranks().size() % heads != 0) continue;
    SCOPED_TRACE(heads);
    const cli::Workload work{
        .config = some.model, .batch = 9, .tokens = some.model.context, .parts = 8, .heads = heads};
    const double two = sent_in(2, heads), three = sent_in(3, heads);
    EXPECT_EQ(three - two, cli::forecast_training(work, kRates, kLink, ranks().size()).bytes);
    EXPECT_EQ(three > two, ranks().size() > 1);
  }
}

// Bytes that a call sends, over all ranks.
double sent_around(std::int64_t tokens, ops::RingOrder order, const AttentionOptions& options, bool backward = false) {
  std::int64_t mine = 0;
  for (const ops::RowRange& some : ops::rows_on(ranks().rank(), ops::evenly(tokens, ranks().size()), order)) {
    mine += some.count();
  }
  const auto rows = [&](const char* name, std::int64_t heads) {
    return normal({1, heads, mine, 6}, name, DType::bf16);
  };
  const Tensor q = rows("q", 4), k = rows("k", 2), v = rows("v", 2);
  Context context(1);
  Counted counted(ranks());
  const ops::RingAttention forward = ops::ring_attend(context, {counted, order}, q, k, v, options);
  if (backward) {
    counted.messages = 0;
    ops::ring_attend_backward(context, {counted, order}, q, k, v, options, {.output = q}, {}, forward);
  }
  return over_ranks(counted.messages);
}
// Of one row's keys and values.
constexpr double kRow = 2 * 2 * 6 * 2;

TEST(Traffic, OfARingIsWhatThePlanSays) {
  for (const std::int64_t tokens : {5, 29, 96}) {
    for (const std::int64_t window : {0, 1, 9, 40}) {
      cli::Workload work{.config = model::make_config(model::Kind::gpt, 1, 24, 4), .tokens = tokens};
      work.config.layers[0].kv_heads = 2;
      work.config.layers[0].window = window;
      AttentionOptions options{.causal = true};
      if (window > 0) options.window.left = window - 1;
      // The plan counts in f32.
      EXPECT_EQ(2 * sent_around(tokens, ops::RingOrder::halves, options),
                cli::forecast_prefill(work, kRates, kLink, ranks().size()).bytes)
          << tokens << " tokens, window " << window;
    }
  }
  cli::Workload work{.config = model::make_config(model::Kind::classifier, 1, 24, 4), .tokens = 29};
  work.config.layers[0].kv_heads = 2;
  EXPECT_EQ(2 * sent_around(29, ops::RingOrder::in_turn, {}),
            cli::forecast_prefill(work, kRates, kLink, ranks().size()).bytes);
}

// Keys go to those who see them and no further.
TEST(Traffic, OfARingIsWhatRanksSee) {
  constexpr std::int64_t each = 12;
  const std::int64_t n = ranks().size(), rows = each * n;
  const auto sent = [&](ops::RingOrder order, const AttentionOptions& options) {
    return sent_around(rows, order, options) / kRow;
  };
  using enum ops::RingOrder;
  EXPECT_EQ(sent(in_turn, {}), (n - 1) * rows);
  EXPECT_EQ(sent(halves, {}), (n - 1) * rows);
  EXPECT_EQ(sent(in_turn, {.causal = true}), each * n * (n - 1) / 2);
  EXPECT_EQ(sent(halves, {.causal = true}), each / 2 * (n * (n - 1) + n * (n - 1) / 2));
  EXPECT_EQ(sent(in_turn, {.causal = true, .window = {.left = each}}), each * (n - 1));  // to the next one
  EXPECT_EQ(sent(in_turn, {.causal = true, .window = {.left = 0}}), 0);
  EXPECT_EQ(sent(in_turn, {.window = {.left = 3, .right = 3}}), 2 * each * (n - 1));  // to both neighbours
  EXPECT_EQ(sent(in_turn, {.window = {.left = 0, .right = 0, .always_first = 1}}), each * (n - 1));
  const Tensor lengths = [&] {
    Tensor one = Tensor::zeros({1}, DType::i32);
    one.as<std::int32_t>()[0] = static_cast<std::int32_t>(each);  // keys of the first rank alone
    return one;
  }();
  EXPECT_EQ(sent(in_turn, {.key_lengths = lengths}), each * (n - 1));
  Tensor offsets = Tensor::zeros({ranks().size() + 1}, DType::i32);  // every rank a sequence of its own
  for (int rank = 0; rank <= ranks().size(); ++rank) offsets.as<std::int32_t>()[rank] = rank * 12;
  EXPECT_EQ(sent(in_turn, {.cu_q = offsets, .cu_k = offsets}), 0);
  // Going back, keys and values as they are stored, and their gradients in f32, which come home, too.
  for (const ops::RingOrder order : {in_turn, halves}) {
    EXPECT_EQ(sent_around(rows, order, {.causal = true}, true), 3 * sent_around(rows, order, {.causal = true}));
  }
}

// But for who gets the jobs, which is luck.
TEST(Traffic, OfAScanIsWhatThePlanSays) {
  model::Config config = model::make_config(model::Kind::gpt, 3, 16, 4);
  config.vocabulary = 11;
  config.context = 128;
  const cli::Workload work{.config = config, .sequences = 12, .window = 128, .at_once = 6};
  Context context(1);
  std::vector<Examples> examples;
  for (int n = 0; n < 2; ++n) {
    Tensor tokens = Tensor::empty({6, 128}, DType::i32);
    for (std::int32_t i = 0; i < 6 * 128; ++i) tokens.as<std::int32_t>()[i] = (i * i + n) % 11;
    Tensor targets = clone(context, tokens);
    examples.push_back({std::move(tokens), std::move(targets), {}});
  }
  const model::Transformer model(config, 1);
  std::vector<HeadImportance> heads;
  for (const HeadId& id : model::all_heads(config)) heads.emplace_back().id = id;
  Counted counted(ranks());
  heads::add_damage(context, model, examples, {.means = false, .ranks = &counted}, heads);
  const double jobs = over_ranks(counted.jobs), found = jobs + over_ranks(counted.texts + counted.messages);
  const double said = cli::forecast_scan(work, kRates, kLink, ranks().size()).bytes;
  EXPECT_NEAR(said, found, 8.0 * 7);  // 12 heads, two to a pass, and the whole model
  EXPECT_EQ(said > 0, ranks().size() > 1);
}

}  // namespace
}  // namespace polyhead::test
