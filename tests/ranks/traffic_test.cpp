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
  void send(std::span<const std::byte> bytes, int to) override {
    messages += static_cast<double>(bytes.size());
    ranks_.send(bytes, to);
  }
  void receive(std::span<std::byte> bytes, int from) override { ranks_.receive(bytes, from); }
  void exchange(std::span<const std::byte> out, int to, std::span<std::byte> in, int from) override {
    messages += static_cast<double>(out.size());
    ranks_.exchange(out, to, in, from);
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

TEST(Traffic, OfARingIsWhatThePlanSays) {
  cli::Workload work{.config = model::make_config(model::Kind::gpt, 1, 24, 4), .tokens = 29};
  work.config.layers[0].kv_heads = 2;
  const std::int64_t begin = work.tokens * ranks().rank() / ranks().size(),
                     end = work.tokens * (ranks().rank() + 1) / ranks().size();
  const auto rows = [&](const char* name, std::int64_t heads) {
    return normal({1, heads, end - begin, 6}, name, DType::f32);
  };
  Context context(1);
  Counted counted(ranks());
  ops::ring_attend(context, counted, rows("q", 4), rows("k", 2), rows("v", 2), {.causal = true});
  EXPECT_EQ(over_ranks(counted.messages), cli::forecast_prefill(work, kRates, kLink, ranks().size()).bytes);
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
