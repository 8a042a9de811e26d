#include "cli/rates.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>

#include "cli/timing.h"
#include "model/memory.h"
#include "polyhead/attention.h"
#include "train/optimiser.h"
#include "train/parts.h"

namespace polyhead::cli {
namespace {

constexpr double kMostFlops = 1e10;      // of a pass forward and backward
constexpr double kMostParameters = 5e7;  // 200 MB, four to six times
constexpr std::int64_t kLeastVocabulary = 512;

// The next smaller sample; false if there is none.
bool cut(Sample& sample) {
  model::Config& config = sample.config;
  if (config.layers.size() > 1) {
    config.layers.resize(config.layers.size() / 2);
  } else if (config.vocabulary > kLeastVocabulary) {
    config.vocabulary /= 2;
  } else if (sample.sequences > 1) {
    sample.sequences /= 2;
  } else if (sample.tokens > 16 && forward_flops(config, 1, sample.tokens) > kMostFlops / 3) {
    sample.tokens /= 2;
  } else if (config.layers[0].heads > 1 && config.width > 64) {
    model::LayerHeads& heads = config.layers[0];
    heads.kv_heads = std::max<std::int64_t>(heads.kv_heads / 2, 1);
    heads.heads = heads.kv_heads * std::max<std::int64_t>(heads.heads / 2 / heads.kv_heads, 1);
    config.width /= 2;
    config.hidden = std::max<std::int64_t>(config.hidden / 2, 1);
  } else {
    return false;
  }
  return true;
}

// The same tokens in every run.
Tensor some_tokens(const Sample& sample) {
  Tensor tokens = Tensor::empty({sample.sequences, sample.tokens}, DType::i32);
  for (std::int64_t n = 0; n < tokens.view().count(); ++n) {
    tokens.as<std::int32_t>()[n] = static_cast<std::int32_t>(n * 7919 % sample.config.vocabulary);
  }
  return tokens;
}

// Of the next token; of a classifier a class for each sequence.
Tensor some_targets(const Sample& sample) {
  const bool classes = sample.config.kind == model::Kind::classifier;
  const std::int64_t count = sample.sequences * (classes ? 1 : sample.tokens);
  Tensor targets = Tensor::empty(classes ? Dims{count} : Dims{sample.sequences, sample.tokens}, DType::i32);
  for (std::int64_t n = 0; n < count; ++n) {
    targets.as<std::int32_t>()[n] = static_cast<std::int32_t>(n * 104729 % sample.config.outputs());
  }
  return targets;
}

// What this thread computes: others on the machine do not disturb it.
struct ThreadClock {
  static std::chrono::nanoseconds now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

template <class Call>
double seconds_on(const Context& context, const Call& call) {
  return context.threads() == 1 ? time<ThreadClock>(call).seconds : time(call).seconds;
}

double merges(const Context& context, const Sample& sample) {
  const model::LayerHeads& heads = sample.config.layers[0];
  if (heads.heads == 0) return 1e9;  // no attention, no merging
  const Dims shape{1, heads.heads, sample.tokens, sample.config.head_dim}, rows{1, heads.heads, sample.tokens};
  const Tensor output = Tensor::zeros(shape, DType::f32), lse = Tensor::zeros(rows, DType::f32);
  Tensor merged = Tensor::empty(shape, DType::f64), sum = Tensor::empty(rows, DType::f64);
  const AttentionPart parts[] = {{output, lse, {}}, {output, lse, {}}};
  return static_cast<double>(merged.view().count()) /
         seconds_on(context, [&] { merge_attention(parts, {.output = merged, .lse = sum}); });
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Sample sample_of(const Workload& work) {
  Sample sample{work.config, (work.batch + work.parts - 1) / work.parts, work.tokens};
  const auto too_large = [&] {
    return 3 * forward_flops(sample.config, sample.sequences, sample.tokens) > kMostFlops ||
           model::parameter_count(sample.config) > kMostParameters;
  };
  while (too_large() && cut(sample)) {
  }
  return sample;
}

Rates measured_rates(Context& context, const Sample& sample, const std::function<void(const char*)>& on_stage) {
  const double flops = forward_flops(sample.config, sample.sequences, sample.tokens);
  model::expect_memory("plan", sample.config, 6, {sample.sequences, sample.tokens, true});
  model::Transformer model(sample.config, 1, DType::f32, host_allocator(), context.threads(), model::Drawn::uniform);
  const Tensor tokens = some_tokens(sample);
  const std::vector<autograd::Parameter*> parameters = model.parameters();
  const double count = static_cast<double>(model.parameter_count());
  Rates rates;
  on_stage("a pass forward");
  autograd::Tape forward(context, false);
  const auto pass = [&] {
    forward.clear();
    model.forward(forward, tokens);
  };
  rates.forward = flops / seconds_on(context, pass);
  on_stage("merging");
  rates.merges = merges(context, sample);
  if (sample.config.kind == model::Kind::encoder) return rates;
  on_stage("a pass forward and backward");
  const Tensor targets = some_targets(sample);
  autograd::Tape tape(context);
  const auto learn = [&] {
    tape.clear();
    autograd::cross_entropy(tape, model.forward(tape, tokens, {.training = true}), targets);
    tape.backward();
  };
  rates.training = 3 * flops / seconds_on(context, learn);
  on_stage("sums of gradients");
  train::PartSums sums(context, parameters, 2, alone());  // two are packed, one is added, one unpacked
  rates.sums = 4 * count / seconds_on(context, [&] { sums.sum(tape.gradients(), [](std::int64_t) { return 0.5; }); });
  on_stage("the optimiser");
  train::Optimiser optimiser(parameters, {});
  const auto step = [&] { optimiser.step(context, tape.gradients(), optimiser.norm(context, tape.gradients()), 0); };
  rates.steps = count / seconds_on(context, step);
  return rates;
}

Link measured_link(Ranks& ranks) {
  constexpr int kRounds = 200, kLargeRounds = 5;
  constexpr std::size_t kLarge = std::size_t{1} << 24;
  std::vector<std::byte> bytes(kLarge);
  const auto there_and_back = [&](std::size_t size) {
    const std::span<std::byte> some(bytes.data(), size);
    if (ranks.rank() == 0) {
      ranks.send(some, 1);
      ranks.receive(some, 1);
    } else {
      ranks.receive(some, 0);
      ranks.send(some, 0);
    }
  };
  Link link;
  if (ranks.rank() < 2) {
    const auto one_way = [&](std::size_t size, int rounds) {
      there_and_back(size);
      std::vector<double> times;
      for (int n = 0; n < rounds; ++n) times.push_back(seconds_of([&] { there_and_back(size); }) / 2);
      std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
      return times[static_cast<std::size_t>(rounds / 2)];
    };
    link.latency = one_way(8, kRounds);
    link.bandwidth = static_cast<double>(kLarge) / std::max(one_way(kLarge, kLargeRounds) - link.latency, 1e-9);
  }
  ranks.broadcast(std::as_writable_bytes(std::span(&link, 1)), 0);
  return link;
}

}  // namespace polyhead::cli
