// How long a step of decoding takes on a GPU, for language models of llama's kind with random weights:
//   polyhead_gpu_decoding LAYERS,WIDTH,HEADS,KV_HEADS,HEAD_DIM,HIDDEN,VOCABULARY PRECISION BATCH PROMPT STEPS
//   [TEMPERATURE]
// prints the time of reading the prompt and of a step, the bytes of the weights, and those over the time of a step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/sample.h"

namespace polyhead::bench {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(std::stoll(word));
  return numbers;
}

model::Config config_of(const std::string& text, std::int64_t context) {
  const std::vector<std::int64_t> n = numbers_of(text);
  if (n.size() != 7) throw std::invalid_argument(text + ": expected seven numbers");
  model::Config config;
  config.layers.assign(static_cast<std::size_t>(n[0]), {n[2], n[3]});
  config.width = n[1];
  config.head_dim = n[4];
  config.hidden = n[5];
  config.vocabulary = n[6];
  config.context = context;
  config.positions = model::Positions::rotary;
  config.norm = model::Norm::rms;
  config.feed_forward = model::FeedForward::swiglu;
  config.bias = false;
  return config;
}

// Weights from one table of random numbers, which is copied over and over: drawing eight billion takes minutes.
class RandomWeights {
 public:
  RandomWeights(Context& context, DType dtype) : context_(context), table_(drawn(dtype)) {
    table_ = clone(context, table_);
  }
  Tensor make(const Dims& shape) {
    Tensor made = Tensor::empty(shape, table_.dtype(), context_.allocator());
    const std::int64_t count = count_of(shape);
    const TensorView all = made.view().reshape({count});
    for (std::int64_t n = 0; n < count; n += kTable) {
      const std::int64_t some = std::min(kTable, count - n);
      copy(context_, table_.view().slice(0, 0, some), all.slice(0, n, n + some));
    }
    return made;
  }

 private:
  static constexpr std::int64_t kTable = std::int64_t{1} << 24;
  static Tensor drawn(DType dtype) {
    Tensor numbers = Tensor::empty({kTable}, DType::f32);
    std::uint32_t state = 1;
    for (std::int64_t n = 0; n < kTable; ++n) {
      state = state * 1664525u + 1013904223u;
      numbers.as<float>()[n] = (static_cast<float>(state >> 8) / 8388608.0f - 1) * 0.03f;
    }
    if (dtype == DType::f32) return numbers;
    Context host(1);
    Tensor rounded = Tensor::empty({kTable}, dtype);
    copy(host, numbers, rounded);
    return rounded;
  }

  Context& context_;
  Tensor table_;
};

std::unique_ptr<model::Transformer> random_model(Context& context, const model::Config& config, double& bytes) {
  const bool halves = context.precision() == Precision::bf16 || context.precision() == Precision::f16;
  RandomWeights narrow(context, context.precision() == Precision::f16 ? DType::f16 : DType::bf16),
      wide(context, DType::f32);
  auto model = model::Transformer::unfilled(config, DType::f32, context.allocator());
  for (autograd::Parameter* parameter : model->parameters()) {
    const Dims shape = parameter->value.shape();
    RandomWeights& weights = halves && model::may_be_half(*parameter) ? narrow : wide;
    parameter->value = {};  // its memory first
    parameter->value = weights.make(shape);
    bytes += static_cast<double>(count_of(shape)) * static_cast<double>(size_of(parameter->value.dtype()));
  }
  return model;
}

void run(const std::string& sizes, const std::string& word, std::int64_t batch, std::int64_t prompt, int steps,
         double temperature) {
  Context context(Device{Device::Kind::cuda, 0});
  context.set_precision(word == "f32"    ? Precision::f32
                        : word == "tf32" ? Precision::tf32
                        : word == "f16"  ? Precision::f16
                                         : Precision::bf16);
  constexpr int kWarm = 8;
  const model::Config config = config_of(sizes, prompt + steps + kWarm + 8);
  double bytes = 0;
  const auto model = random_model(context, config, bytes);
  std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(batch));
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    for (std::int64_t n = 0; n < prompt; ++n) {
      prompts[b].push_back(
          static_cast<std::int32_t>((7919 * n + 31 * static_cast<std::int64_t>(b)) % config.vocabulary));
    }
  }
  model::Generator(context, *model, prompts, {.temperature = temperature}).next();  // warms up
  model::Generator generator(context, *model, prompts, {.temperature = temperature});
  Clock::time_point begin = Clock::now();
  generator.next();
  const double reading = milliseconds_since(begin);
  for (int n = 0; n < kWarm; ++n) generator.next();
  std::vector<double> times;
  for (int n = 0; n < steps; ++n) {
    begin = Clock::now();
    generator.next();
    times.push_back(milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "%s %s batch %lld prompt %lld: prompt %.3f ms, step median %.4f least %.4f ms, weights %.3f GB, %.0f GB/s\n",
      sizes.c_str(), word.c_str(), static_cast<long long>(batch), static_cast<long long>(prompt), reading, median,
      times.front(), bytes * 1e-9, bytes * 1e-6 / median);
}

}  // namespace
}  // namespace polyhead::bench

int main(int count, char** words) {
  if (count != 6 && count != 7) {
    std::fprintf(stderr, "usage: polyhead_gpu_decoding SIZES PRECISION BATCH PROMPT STEPS [TEMPERATURE]\n");
    return 2;
  }
  try {
    polyhead::bench::run(words[1], words[2], std::stoll(words[3]), std::stoll(words[4]), std::stoi(words[5]),
                         count == 7 ? std::stod(words[6]) : 0.0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "polyhead_gpu_decoding: %s\n", error.what());
    return 1;
  }
  return 0;
}
