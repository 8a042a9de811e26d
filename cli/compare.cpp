#include "cli/compare.h"

#include <fmt/format.h>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/subject.h"
#include "exam/examination.h"
#include "model/checkpoint.h"

namespace polyhead::cli {
namespace {

struct CompareOptions {
  SubjectChoice subject;
  std::string other;
  DeviceChoice on;
  std::string format = "table";
};

// Heads are compared by their numbers, on the same tokens.
void expect_alike(const CompareOptions& o, const model::Config& a, const model::Config& b) {
  const auto heads = [](const model::Config& config) {
    std::vector<std::int64_t> counts;
    for (const model::LayerHeads& layer : config.layers) counts.push_back(layer.heads);
    return counts;
  };
  if (heads(a) == heads(b) && a.vocabulary == b.vocabulary && a.kind == b.kind) return;
  throw Failure(Exit::input,
                fmt::format("{}: expected the vocabulary, layers and heads of {} ({} tokens; heads by layer "
                            "{}), found {} tokens; heads by layer {}",
                            o.other, o.subject.model, a.vocabulary, fmt::join(heads(a), " "), b.vocabulary,
                            fmt::join(heads(b), " ")));
}

Side side_of(Context& context, const model::Transformer& model, const exam::Material& material) {
  auto [survey, roles] = exam::survey_roles(context, model, material);
  return {std::move(survey), std::move(roles)};
}

void compare(const CompareOptions& o) {
  o.subject.expect_model();
  if (o.other.empty()) throw Failure(Exit::usage, "expected two models to compare, found one");
  Context context = o.on.context();
  const exam::Subject subject = o.subject.load(context);
  std::optional<Progress> progress(std::in_place, "loading " + o.other);
  const std::unique_ptr<model::Transformer> other = model::load(o.other, context);
  progress.reset();
  expect_alike(o, subject.model->config(), other->config());
  const exam::Material material = o.subject.material(subject);
  exam::expect_memory("compare", subject.model->config(), material, false, 0);
  progress.emplace("compare", 2);
  progress->update(0, o.subject.model);
  const Side a = side_of(context, *subject.model, material);
  progress->update(1, o.other);
  const Side b = side_of(context, *other, material);
  progress.reset();
  print(compare_report({o.subject.model, o.other, subject.about, a, b}), o.format);
}

}  // namespace

Command compare_command() {
  auto o = std::make_shared<CompareOptions>();
  const std::vector<Option> text_options = o->subject.text_options();
  return {
      .name = "compare",
      .summary = "two checkpoints of a model, head by head",
      .description =
          "Reads the same sequences with both models, those of the first one's task or windows of a text that its "
          "tokenizer reads, and says of every head how often its largest weight lies on the same key in both, and what "
          "became of its role, its entropy and its distance. Both models must have the same layers, heads and "
          "vocabulary.",
      .examples = {{"polyhead compare run other", "two models of the same task"},
                   {"polyhead compare base tuned --text book.txt", "a downloaded model, and one made from it"}},
      .options = {o->subject.model_option("A"),
                  {"B", "", "another model of the same shape and tokenizer", &o->other},
                  o->subject.samples_option(),
                  {"seed", "N", "seed of the sequences", &o->subject.seed, {}, 0, INT32_MAX},
                  text_options[0],
                  text_options[1],
                  text_options[2],
                  o->on.device_option(),
                  o->on.precision_option(),
                  o->on.threads_option(),
                  format_option(o->format)},
      .run = [o] { compare(*o); }};
}

}  // namespace polyhead::cli
