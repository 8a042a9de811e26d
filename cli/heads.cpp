#include "cli/heads.h"

#include <fmt/format.h>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "exam/links.h"

namespace polyhead::cli {
namespace {

struct Options {
  std::string model, links, file;
  std::int64_t samples = 256, seed = 1;
  DeviceChoice on;
  bool all_roles = false;
  std::string format = "table";
};

void examine_heads(const Options& o) {
  if (o.model.empty()) throw Failure(Exit::usage, "which model? Name the folder that polyhead train made");
  Context context = o.on.context();
  const exam::Subject subject = exam::load_subject(context, o.model, o.file);
  const auto seed = static_cast<std::uint64_t>(o.seed);
  exam::Material material = exam::make_material(*subject.task, {.samples = o.samples, .seed = seed});
  if (!o.links.empty()) {
    for (heads::Probe& probe : exam::load_links(o.links, *subject.task)) material.plain.push_back(std::move(probe));
  }
  say(fmt::format("{}: {}, {} heads, {} sequences\n", o.model, subject.task->name(),
                  subject.model->config().head_count(), o.samples));
  std::optional<Progress> progress(std::in_place, "heads", subject.model->config().head_count());
  const exam::Examination found =
      exam::examine(context, *subject.model, material, seed, [&](std::int64_t done) { progress->update(done, ""); });
  progress.reset();
  print(heads_report({o.model, o.samples, subject, found}, o.all_roles), o.format);
}

}  // namespace

Command heads_command() {
  auto o = std::make_shared<Options>();
  return {
      .name = "heads",
      .summary = "what every head of a model does, and how much depends on it",
      .description =
          "A row for every head: how sharp it is and where it looks; its role, if it reaches the threshold and beats "
          "its control; how much the model depends on it, by the gradient of its gate and by the loss that its absence "
          "costs, with 95 % intervals; and the head that is most like it. An untrained model of the same shape is the "
          "control of all detectors. Everything is measured on sequences that the model was not trained on. "
          "Columns: entropy of the weights in nats, and relative to that of equal weights (of largest); mean weight on "
          "the first key, the row's own and the one before; mean distance; mean of the largest weight; gradient of the "
          "gate, relative to its layer; damage: how much the loss rises with the head's output set to 0, or to its "
          "mean; "
          "what the accuracy changes by; what the head adds to the logit of the right answer; the head whose largest "
          "weights lie on the same keys, and how often.",
      .examples = {{"polyhead heads run", "the table of a model that polyhead train made"},
                   {"polyhead heads run --all-roles", "also the score of every head in every role, and its control"},
                   {"polyhead heads run --format json", "all of it, for a program"},
                   {"polyhead heads run --links links.jsonl", "which heads follow relations that you know"}},
      .options = {{"MODEL", "", "a folder that polyhead train or prune made", &o->model},
                  {"links", "FILE",
                   "relations between words, a JSON object on each line: {\"tokens\": \"BOS today the king is old\", "
                   "\"query\": 4, \"key\": 3, \"relation\": \"subject-verb\"}",
                   &o->links},
                  {"all-roles", "", "every role's score, threshold and control; with --format csv only those",
                   &o->all_roles},
                  {"samples", "N", "how many sequences of each kind", &o->samples, {}, 2, 100'000},
                  {"seed", "N", "seed of the sequences and of the untrained model", &o->seed, {}, 0, INT32_MAX},
                  {"file", "FILE", "where the text that the model was trained on is now", &o->file},
                  o->on.device_option(),
                  o->on.threads_option(),
                  format_option(o->format)},
      .run = [o] { examine_heads(*o); }};
}

}  // namespace polyhead::cli
