#include <algorithm>

#include "ops/on_host.h"
#include "report/describe.h"
#include "study/figures.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kMostTokens = 40;

// The name of a text: its first words.
std::string beginning_of(const std::vector<std::string>& words) {
  constexpr std::size_t kWords = 6;
  std::string name;
  for (std::size_t n = 0; n < std::min(kWords, words.size()); ++n) name += (n == 0 ? "" : " ") + words[n];
  return name + (words.size() > kWords ? " …" : "");
}

// Attention of every head over one sequence of the task.
report::Sample sample(Context& context, const Course& course, std::int64_t number) {
  const train::Sequence sequence = course.task->sequence(train::Split::validation, 99, number);
  const auto length = std::min<std::int64_t>(std::ssize(sequence.tokens), kMostTokens);
  report::Sample made;
  Tensor tokens = Tensor::empty({1, length}, DType::i32);
  std::copy_n(sequence.tokens.begin(), length, tokens.as<std::int32_t>());
  for (std::int64_t t = 0; t < length; ++t) {
    made.tokens.push_back(course.task->token_text(sequence.tokens[static_cast<std::size_t>(t)]));
  }
  made.name = beginning_of(made.tokens);
  autograd::Tape tape(context, false);
  model::PassOptions options;
  options.wants.attention.weights = true;
  course.model->forward(tape, tokens, options);
  for (const HeadId& id : model::all_heads(course.model->config())) {
    const OnHost all(context, course.model->attention(tape, id.layer).forward.weights);
    const float* weights = all.as<float>() + id.head * length * length;
    made.heads.emplace_back(static_cast<int>(id.layer), static_cast<int>(id.head));
    made.weights.insert(made.weights.end(), weights, weights + length * length);
  }
  return made;
}

report::Model of_formation(Context& context, const Formation& formation, const std::string& note) {
  report::Model made{formation.name, note, {}, {}};
  const heads::Survey survey = heads::survey(context, *formation.course.model, repeat_probes(*formation.course.task));
  for (std::size_t n = 0; n < formation.roles.size(); ++n) {
    made.heads.push_back(report::describe(formation.roles[n], &survey.heads[n]));
  }
  for (std::int64_t n = 0; n < 2; ++n) made.samples.push_back(sample(context, formation.course, n));
  return made;
}

report::Model of_task(Context& context, const TaskStudy& task) {
  const Contender& contender = task.dissected();
  const Anatomy& anatomy = task.anatomies[0];
  report::Model made{task.task + ", " + heads_text(contender.heads),
                     "The task: " + contender.courses[0].task->summary() + ".",
                     {},
                     {}};
  const std::vector<HeadId> gone = contender.removals[0].ranked.removed();
  for (std::size_t n = 0; n < anatomy.examination.roles.size(); ++n) {
    report::Head head = report::describe(anatomy.examination.roles[n], &anatomy.examination.survey.heads[n]);
    const HeadImportance& importance = anatomy.examination.importance[n];
    head.importance = importance.normalised;
    head.statistics.emplace_back("adds to the logit of the right answer", importance.logit.mean);
    head.damage = importance.zero.mean;
    head.damage_low = importance.zero.low;
    head.damage_high = importance.zero.high;
    head.kept = std::find(gone.begin(), gone.end(), importance.id) == gone.end();
    made.heads.push_back(head);
  }
  for (std::int64_t n = 0; n < 4; ++n) made.samples.push_back(sample(context, contender.courses[0], n));
  return made;
}

}  // namespace

// First the one in which heads can be seen best, then those of the tasks, then the controls.
std::vector<report::Model> models(Context& context, const Results& results) {
  const Formations& formations = results.formations;
  std::vector<report::Model> made;
  made.push_back(
      of_formation(context, formations.two_layers[0], "Trained on random segments of 8 to 32 tokens, repeated."));
  for (const TaskStudy& task : results.tasks) made.push_back(of_task(context, task));
  made.push_back(of_formation(context, formations.one_layer[0], "The same task as the first, with one layer."));
  made.push_back(of_formation(context, formations.fixed_length[0],
                              "All segments have 32 tokens, so looking back a fixed distance is enough."));
  return made;
}

}  // namespace polyhead::study
