#include "models.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "model/checkpoint.h"

namespace polyhead::bench {
namespace {

constexpr std::int64_t kRoom = 512;  // for tokens that are decoded during timing

// The n-th token, as peers.py has it: somewhere in the vocabulary, past the special ones.
std::int32_t token(std::int64_t n, std::int64_t vocabulary) {
  constexpr std::int64_t kSpecial = 200;
  return static_cast<std::int32_t>(kSpecial + n * 7919 % (vocabulary - kSpecial));
}

// "gpt,L,C,H", for `length` tokens.
std::unique_ptr<model::Transformer> random_model(const std::string& sizes, std::int64_t length) {
  std::istringstream words(sizes.substr(4));
  std::int64_t layers = 0, width = 0, heads = 0;
  char comma = ',';
  if (!(words >> layers >> comma >> width >> comma >> heads)) {
    throw std::invalid_argument(sizes + ": expected gpt,L,C,H");
  }
  model::Config config = model::make_config(model::Kind::gpt, layers, width, heads);
  config.vocabulary = 1000;
  config.context = length;
  return std::make_unique<model::Transformer>(config, 1);
}

}  // namespace

ModelCase::ModelCase(Context& context, const std::string& name) {
  const std::size_t begin = name.find(':') + 1, end = name.find(':', begin);
  if (end == name.npos) throw std::invalid_argument(name + ": expected model:WHAT:PATH");
  path_ = name.substr(end + 1);
  std::istringstream words(name.substr(begin, end - begin));
  char comma = ',';
  std::getline(words, what_, ',');
  if (what_ == "load") return;
  if (what_ == "encode") words >> batch_ >> comma;
  if (!(words >> length_)) throw std::invalid_argument(name + ": expected sizes");
  model_ = path_.string().starts_with("gpt,") ? random_model(path_, length_) : model::load(path_);
  tape_ = std::make_unique<autograd::Tape>(context, false);
  tape_->pack_weights();
  const model::Config& config = model_->config();
  for (std::int64_t n = 0; n < batch_ * length_ + 1; ++n) tokens_.push_back(token(n, config.vocabulary));
  if (what_ == "encode" || what_ == "plain" || what_ == "statistics" || what_ == "regenerate") return;
  if (what_ != "prefill" && what_ != "decode" && what_ != "generate") {
    throw std::invalid_argument("no model case " + what_);
  }
  const std::int64_t room = what_ == "decode" ? std::min(length_ + kRoom, config.context) : length_;
  caches_ = std::make_unique<model::KvCaches>(context, *model_, 1, room);
}

void ModelCase::pass(Context& context, const model::PassOptions& options, std::int64_t first, std::int64_t count) {
  tape_->clear();
  const ConstTensorView input(tokens_.data() + first, {batch_, count});
  output_ = tape_->value(model_->forward(*tape_, input, options));
  context.synchronise();
}

void ModelCase::call(Context& context) {
  if (what_ == "load") {
    model::load(path_);
  } else if (what_ == "encode") {
    pass(context, {}, 0, length_);
  } else if (what_ == "plain" || what_ == "statistics") {
    model::PassOptions options{.last_only = true};
    if (what_ == "statistics") options.wants.attention.statistics = StatisticsSet::full;
    pass(context, options, 0, length_);
  } else if (what_ == "prefill") {
    caches_->clear(context, std::vector<std::int32_t>(1));
    pass(context, {.caches = caches_.get(), .last_only = true}, 0, length_);
  } else if (what_ == "generate") {
    caches_->clear(context, std::vector<std::int32_t>(1));
    for (std::int64_t n = 0; n < length_; ++n) pass(context, {.caches = caches_.get()}, n, 1);
  } else if (what_ == "regenerate") {
    for (std::int64_t n = 1; n <= length_; ++n) pass(context, {.last_only = true}, 0, n);
  } else {
    if (caches_->length() == 0 || caches_->length() == caches_->capacity()) {
      caches_->clear(context, std::vector<std::int32_t>(1));
      pass(context, {.caches = caches_.get(), .last_only = true}, 0, length_);
    }
    pass(context, {.caches = caches_.get()}, length_, 1);
  }
}

const Tensor& ModelCase::result(Context& context) {
  call(context);
  if (what_ != "statistics") return result_ = clone(context, output_);
  const std::size_t layers = model_->config().layers.size();
  const std::int64_t heads = model_->config().layers[0].heads;
  result_ = Tensor::empty({static_cast<std::int64_t>(layers), heads}, DType::f32);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const Tensor& sums = model_->attention(*tape_, layer).forward.statistics;
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* row = sums.as<float>() + h * kFullStatistics;
      result_.as<float>()[static_cast<std::int64_t>(layer) * heads + h] =
          row[static_cast<int>(Statistic::entropy)] / row[static_cast<int>(Statistic::rows)];
    }
  }
  return result_;
}

}  // namespace polyhead::bench
