#include "exam/cut.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "io/file.h"
#include "io/gguf.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"
#include "train/run.h"

namespace polyhead::exam {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostTokenizer = std::size_t{1} << 28;

double seconds_of(Context& context, autograd::Tape& tape, model::Transformer& model, const Examples& some) {
  const Clock::time_point begin = Clock::now();
  tape.clear();
  model.forward(tape, some.tokens, {.lengths = some.lengths});
  context.synchronise();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median times of a pass of each, which take turns, and turns at being first.
std::pair<double, double> time_both(Context& context, model::Transformer& before, model::Transformer& after,
                                    const Examples& some) {
  constexpr double kSeconds = 1;
  constexpr std::size_t kLeast = 30, kMost = 2000;
  autograd::Tape tape(context, false);
  seconds_of(context, tape, before, some);  // warms up
  seconds_of(context, tape, after, some);
  std::vector<double> a, b;
  const Clock::time_point begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() > kSeconds; };
  while (a.size() < kLeast || (a.size() < kMost && !spent())) {
    a.push_back(seconds_of(context, tape, before, some));
    b.push_back(seconds_of(context, tape, after, some));
    b.push_back(seconds_of(context, tape, after, some));
    a.push_back(seconds_of(context, tape, before, some));
  }
  return {median(a), median(b)};
}

Facts facts_of(Context& context, model::Transformer& model, const std::vector<Examples>& examples) {
  const model::SequenceScores scores = model::score(context, model, examples);
  scores.expect_finite("the model with " + std::to_string(model.config().head_count()) + " heads");
  return {.heads = model.config().head_count(),
          .parameters = model.parameter_count(),
          .bytes = static_cast<std::int64_t>(model::saved_bytes(model)),
          .accuracy = scores.accuracy(),
          .loss = scores.mean_loss()};
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
  BeforeAndAfter both{facts_of(context, before, examples), facts_of(context, after, examples)};
  std::tie(both.before.seconds_of_one, both.after.seconds_of_one) =
      time_both(context, before, after, first_of(examples, 1));
  std::tie(both.before.seconds_of_16, both.after.seconds_of_16) =
      time_both(context, before, after, first_of(examples, 16));
  return both;
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
  train::save_plan(left, folder);  // last: without it there is no model here for other commands
}

void save_cut(const model::Transformer& model, const std::filesystem::path& from, const std::filesystem::path& folder) {
  const bool gguf = from.extension() == ".gguf", pruned = !gguf && io::is_there(from / text::kTokenizerGguf);
  const char *name = text::kTokenizerFile, *other = text::kTokenizerGguf;
  if (gguf || pruned) std::swap(name, other);
  const std::string tokenizer = gguf ? io::gguf_metadata_alone(from) : io::read_file(from / name, kMostTokenizer);
  io::Json ends;
  ends["eos_token_id"] = text::end_tokens(from);
  const io::FolderLock lock(folder);
  io::sweep_temporaries(folder);
  train::remove_run(folder);
  io::write_atomically(folder / name, [&](io::Writer& writer) { writer.write(tokenizer); });
  std::filesystem::remove(folder / other);
  io::write_atomically(folder / text::kGenerationFile, [&](io::Writer& writer) { writer.write(ends.dump(2) + "\n"); });
  model::save(model, folder);
}

}  // namespace polyhead::exam
