#include "study/formation.h"

#include <algorithm>

#include "model/score.h"

namespace polyhead::study {
namespace {

using heads::HeadId;

constexpr std::int64_t kFixedLength = 32;  // of the task repeat-fixed

train::Plan plan_of(const FormationPlan& plan, const std::string& task, std::int64_t layers) {
  const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate};
  train::Plan made = make_plan(task, layers, plan.width, plan.heads, training);
  made.model.feed_forward = model::FeedForward::none;
  return made;
}

Snapshot snapshot(const Point& point, const heads::Survey& survey) {
  Snapshot made{point, {}, {}};
  for (const heads::HeadSurvey& head : survey.heads) {
    made.previous.push_back(head.mean(Statistic::previous_weight, Statistic::previous_rows));
    made.induction.push_back(head.target(heads::kInduction));
  }
  return made;
}

double best_induction(const heads::Survey& survey) { return Formation::most(snapshot({}, survey).induction); }

Job formation_job(const FormationPlan& plan, const std::string& task, std::int64_t layers, const Watch& watch,
                  Formation& to) {
  return [=, &to](Context& context) {
    const auto for_probes = train::make_task(plan_of(plan, task, layers).task);
    const std::vector<heads::Probe> probes = repeat_probes(*for_probes);
    to.course = follow(context, plan_of(plan, task, layers), plan.every, watch,
                       [&](const Point& point, model::Transformer& model) {
                         to.snapshots.push_back(snapshot(point, heads::survey(context, model, probes)));
                       });
    const heads::Survey ours = heads::survey(context, *to.course.model, probes);
    to.roles = heads::roles(ours, ours);
    to.ours = best_induction(ours);
    to.naive = best_induction(heads::survey(context, *to.course.model, repeat_probes(*for_probes, kFixedLength)));
  };
}

std::vector<HeadId> with_role(const Formation& formation, const std::string& role) {
  std::vector<HeadId> found;
  for (const heads::HeadRoles& head : formation.roles) {
    if (head.role() != nullptr && head.role()->role == role) found.push_back(head.id);
  }
  return found;
}

std::string names(const std::vector<HeadId>& heads) {
  std::string text;
  for (const HeadId& head : heads) text += (text.empty() ? "" : ", ") + to_string(head);
  return text;
}

}  // namespace

std::vector<heads::Probe> repeat_probes(const train::Task& task, std::optional<std::int64_t> length) {
  const std::vector<std::int32_t> special = task.special_tokens();
  heads::RepeatProbe options{.batch = 32, .length = task.context(), .seed = 11};
  for (std::int32_t token = 0; token < task.vocabulary(); ++token) {
    if (std::find(special.begin(), special.end(), token) == special.end()) options.alphabet.push_back(token);
  }
  if (!special.empty()) options.beginning = {special[0]};
  const std::int64_t room = (task.context() - 1) / 2;
  options.longest = std::min<std::int64_t>(32, room);
  options.shortest =
      2 * options.longest / 3;  // a token has then one place before, or two, not many that share the weight
  if (length) options.shortest = options.longest = *length;
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_repeats(options));
  return probes;
}

double Formation::most(const std::vector<double>& scores) { return *std::max_element(scores.begin(), scores.end()); }

std::optional<HeadId> Formation::best(const std::string& role) const {
  std::optional<HeadId> found;
  double score = 0;
  for (const heads::HeadRoles& head : roles) {
    for (const heads::RoleScore& each : head.scores) {
      if (each.role != role || !each.holds() || each.score <= score) continue;
      score = each.score;
      found = head.id;
    }
  }
  return found;
}

std::vector<Job> form(const FormationPlan& plan, const Watch& watch, Formations& to) {
  to.two_layers.name = "repeat, two layers";
  to.one_layer.name = "repeat, one layer";
  to.fixed_length.name = "repeat of fixed length, two layers";
  return {formation_job(plan, "repeat", 2, watch, to.two_layers), formation_job(plan, "repeat", 1, watch, to.one_layer),
          formation_job(plan, "repeat-fixed", 2, watch, to.fixed_length)};
}

void knock_out(Context& context, Formations& formations) {
  Course& course = formations.two_layers.course;
  std::vector<model::Examples> examples;
  for (std::uint64_t n = 0; n < 4; ++n) examples.push_back(course.task->batch(train::Split::validation, n, 64));
  const auto add = [&](const std::string& what, const std::vector<HeadId>& shut) {
    heads::Gates gates(course.model->config());
    gates.shut(shut);
    formations.knock_outs.push_back({what, model::score(context, *course.model, examples, gates.get()).accuracy()});
  };
  add("nothing", {});
  const std::vector<HeadId> previous = with_role(formations.two_layers, "previous token"),
                            induction = with_role(formations.two_layers, "induction");
  if (previous.empty() || induction.empty()) return;
  add("the previous-token heads (" + names(previous) + ")", previous);
  add("the induction heads (" + names(induction) + ")", induction);
  std::vector<HeadId> both = previous;
  both.insert(both.end(), induction.begin(), induction.end());
  add("both kinds", both);
  std::vector<HeadId> rest;
  for (const HeadId& head : heads::all_heads(course.model->config())) {
    if (std::find(both.begin(), both.end(), head) == both.end()) rest.push_back(head);
  }
  if (!rest.empty()) add("others instead (" + names(rest) + ")", rest);
}

}  // namespace polyhead::study
