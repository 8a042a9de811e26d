#include "exam/cut.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "io/file.h"
#include "model/checkpoint.h"
#include "model/decoding.h"
#include "text/speech.h"
#include "train/run.h"
#include "train/words.h"

namespace polyhead::exam {
namespace {

using Clock = std::chrono::steady_clock;

// Columns [begin, end) of tokens [B,T].
Tensor columns(const Tensor& tokens, std::int64_t begin, std::int64_t end) {
  const std::int64_t B = tokens.shape()[0], T = tokens.shape()[1];
  Tensor some = Tensor::empty({B, end - begin}, DType::i32);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int32_t* row = tokens.as<std::int32_t>() + b * T;
    std::copy(row + begin, row + end, some.as<std::int32_t>() + b * (end - begin));
  }
  return some;
}

// A model at work, to be timed: it reads sequences, which a language model remembers, and takes one more token.
class Worker {
 public:
  Worker(Context& context, const model::Transformer& model, const Examples& some)
      : context_(context), model_(model), some_(some), length_(some.tokens.shape()[1]), tape_(context, false) {
    tape_.pack_weights();
    if (goes_on()) caches_.emplace(context, model, some.tokens.shape()[0], length_);
  }

  bool goes_on() const { return model_.config().kind == model::Kind::gpt && length_ > 1; }

  double read() {
    if (caches_) forget();
    return seconds_of(some_.tokens);
  }

  // Begins after half of the tokens and takes one more at each call, until there are none left.
  double step() {
    if (caches_->length() == 0 || caches_->length() == length_) {
      forget();
      seconds_of(columns(some_.tokens, 0, length_ / 2));
    }
    return seconds_of(columns(some_.tokens, caches_->length(), caches_->length() + 1));
  }

 private:
  void forget() { caches_->clear(context_, std::vector<std::int32_t>(static_cast<std::size_t>(caches_->batch()))); }

  double seconds_of(const Tensor& tokens) {
    const Clock::time_point begin = Clock::now();
    tape_.clear();
    model::PassOptions options{.lengths = some_.lengths};
    if (caches_) options = {.caches = &*caches_, .last_only = true};
    model_.forward(tape_, tokens, options);
    context_.synchronise();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Context& context_;
  const model::Transformer& model_;
  const Examples& some_;
  std::int64_t length_;
  autograd::Tape tape_;
  std::optional<model::KvCaches> caches_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Times {
  double before = 0, after = 0;
  TimeRatio ratio;
};

// The median times of both; they alternate, and so does which comes first.
Times time_both(Worker& before, Worker& after, double (Worker::*work)()) {
  constexpr double kSeconds = 0.5;
  constexpr std::size_t kLeast = 16, kMost = 2000;
  (before.*work)();  // warms up
  (after.*work)();
  std::vector<double> a, b;
  const Clock::time_point begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() > kSeconds; };
  while (a.size() < kLeast || (a.size() < kMost && !spent())) {
    a.push_back((before.*work)());
    b.push_back((after.*work)());
    b.push_back((after.*work)());
    a.push_back((before.*work)());
  }
  return {median(a), median(b), ratio_of_medians(a, b)};
}

Facts sizes_of(const model::Transformer& model) {
  return {.heads = model.config().head_count(),
          .parameters = model.parameter_count(),
          .bytes = static_cast<std::int64_t>(model::saved_bytes(model))};
}

void score(Context& context, const model::Transformer& model, const std::vector<Examples>& examples, Facts& to) {
  const model::SequenceScores scores = model::score(context, model, examples);
  scores.expect_finite("the model with " + std::to_string(model.config().head_count()) + " heads");
  to.accuracy = scores.accuracy();
  to.loss = scores.mean_loss();
}

}  // namespace

Examples first_of(const std::vector<Examples>& examples, std::int64_t count) {
  const Examples& some = examples[0];
  const std::int64_t B = some.tokens.shape()[0], T = some.tokens.shape()[1];
  Examples taken{Tensor::empty({count, T}, DType::i32), Tensor(), Tensor()};
  if (some.lengths.present()) taken.lengths = Tensor::empty({count}, DType::i32);
  for (std::int64_t b = 0; b < count; ++b) {
    std::copy_n(some.tokens.as<std::int32_t>() + b % B * T, T, taken.tokens.as<std::int32_t>() + b * T);
    if (some.lengths.present()) taken.lengths.as<std::int32_t>()[b] = some.lengths.as<std::int32_t>()[b % B];
  }
  return taken;
}

BeforeAndAfter compare(Context& context, model::Transformer& before, model::Transformer& after,
                       const std::vector<Examples>& examples) {
  BeforeAndAfter both{sizes_of(before), sizes_of(after)};
  if (before.config().kind == model::Kind::encoder) {
    const auto whole = model::embeddings(context, before, examples), left = model::embeddings(context, after, examples);
    both.after.loss = heads::estimate(heads::cosine_distances(whole, left, "the pruned model")).mean;
    both.before.accuracy = 1;
    both.after.accuracy = 1 - both.after.loss;
  } else {
    score(context, before, examples, both.before);
    score(context, after, examples, both.after);
  }
  const auto keep = [&](const Times& times, double Facts::*seconds, TimeRatio BeforeAndAfter::*ratio) {
    both.before.*seconds = times.before;
    both.after.*seconds = times.after;
    both.*ratio = times.ratio;
  };
  const auto time = [&](std::int64_t sequences, const auto& kept_of_reading, const auto& kept_of_steps) {
    const Examples some = first_of(examples, sequences);
    Worker a(context, before, some), b(context, after, some);
    kept_of_reading(time_both(a, b, &Worker::read));
    if (a.goes_on()) kept_of_steps(time_both(a, b, &Worker::step));
  };
  time(
      1, [&](const Times& t) { keep(t, &Facts::seconds_of_one, &BeforeAndAfter::of_one); },
      [&](const Times& t) { keep(t, &Facts::step_of_one, &BeforeAndAfter::step_of_one); });
  time(
      16, [&](const Times& t) { keep(t, &Facts::seconds_of_16, &BeforeAndAfter::of_16); },
      [&](const Times& t) { keep(t, &Facts::step_of_16, &BeforeAndAfter::step_of_16); });
  return both;
}

// By order statistics: how many of n values lie below their median is binomial.
TimeRatio ratio_of_medians(const std::vector<double>& before, const std::vector<double>& after) {
  std::vector<double> ratios;
  for (std::size_t n = 0; n < before.size(); ++n) ratios.push_back(after[n] / before[n]);
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const auto count = static_cast<double>(ratios.size());
  const auto below = static_cast<std::size_t>(std::max(0.0, std::floor(count / 2 - 0.98 * std::sqrt(count))));
  return {ratios[below], ratios[ratios.size() - 1 - below]};
}

std::vector<HeadId> left_of(const model::Config& whole, const std::vector<HeadId>& gone) {
  std::vector<HeadId> left = model::all_heads(whole);
  std::erase_if(left, [&](const auto& id) { return std::find(gone.begin(), gone.end(), id) != gone.end(); });
  return left;
}

void fine_tune(Context& context, model::Transformer& model, const Subject& subject, std::int64_t steps,
               const std::function<void(const train::StepReport&)>& on_step) {
  train::TrainOptions options = subject.plan.training;
  options.steps = steps;
  options.rate /= 10;
  options.warmup = std::min(options.warmup, steps / 10);
  train::Trainer trainer(context, model, *subject.task, options);
  while (!trainer.done()) on_step(trainer.step());
}

void save_cut(const model::Transformer& model, const train::Plan& plan, const std::filesystem::path& folder) {
  const io::FolderLock lock(folder);
  io::sweep_temporaries(folder);
  train::remove_run(folder);
  model::save(model, folder);
  train::Plan left = plan;
  left.model = model.config();
  left.pruned = true;
  train::save_tokenizer(plan.task, folder);
  train::save_plan(left, folder);  // last: without it other commands find no model here
}

void save_cut(const model::Transformer& model, const std::filesystem::path& given,
              const std::filesystem::path& folder) {
  const std::vector<text::SpeechFile> speech = text::speech_files(given);
  const io::FolderLock lock(folder);
  io::sweep_temporaries(folder);
  train::remove_run(folder);
  text::save_speech(speech, folder);
  model::save(model, folder);
}

void save_cut(const model::TransformersFolder& made, const std::filesystem::path& folder) {
  const io::FolderLock lock(folder);
  train::remove_run(folder);
  model::save(made, folder);
}

}  // namespace polyhead::exam
