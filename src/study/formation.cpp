#include "study/formation.h"

#include <algorithm>

#include "model/score.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kFixedLength = 32;  // of the task repeat-fixed

train::Plan plan_of(const FormationPlan& plan, const std::string& task, std::int64_t layers, std::uint64_t seed) {
  const train::TrainOptions training{.steps = plan.steps, .batch = plan.batch, .rate = plan.rate, .seed = seed};
  train::Plan made = make_plan(task, layers, plan.width, plan.heads, training);
  made.model.feed_forward = model::FeedForward::none;
  return made;
}

Route route_of(const FormationPlan& plan, const char* name, std::size_t seed, const std::filesystem::path& models) {
  return {.every = plan.every, .folder = models / name_of_seed(name, seed)};
}

// Odds, as the role is judged by them: said as the weight on one key in eight.
double induction_score(const heads::HeadSurvey& head) {
  return head.odds[heads::on_slot(heads::kInduction)].weight_at(heads::kStandardShare);
}

std::vector<double> scores_of(const heads::Survey& survey) {
  std::vector<double> scores;
  for (const heads::HeadSurvey& head : survey.heads) {
    scores.push_back(head.mean(Statistic::previous_weight, Statistic::previous_rows));
  }
  for (const heads::HeadSurvey& head : survey.heads) scores.push_back(induction_score(head));
  return scores;
}

double best_induction(const heads::Survey& survey) {
  double most = 0;
  for (const heads::HeadSurvey& head : survey.heads) most = std::max(most, induction_score(head));
  return most;
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

// Trains one model and finds its roles; then calls `then`.
Job formation_job(const train::Plan& plan, const Route& route, const Watch& watch, Formation& to,
                  const std::function<void(Context&)>& then = {}) {
  return [=, &to](Context& context) {
    const auto task = train::make_task(plan.task);
    const std::vector<heads::Probe> probes = repeat_probes(*task);
    to.course = follow(context, plan, route, watch,
                       [&](model::Transformer& model) { return scores_of(heads::survey(context, model, probes)); });
    const heads::Survey ours = heads::survey(context, *to.course.model, probes);
    to.roles = heads::roles(ours, ours);
    to.ours = best_induction(ours);
    to.naive = best_induction(heads::survey(context, *to.course.model, repeat_probes(*task, kFixedLength)));
    if (then) then(context);
  };
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
  options.shortest = 2 * options.longest / 3;  // so a token has only one or two earlier places to share the weight
  if (length) options.shortest = options.longest = *length;
  std::vector<heads::Probe> probes;
  probes.push_back(heads::make_repeats(options));
  return probes;
}

KnockOut knock_out(Context& context, const Formation& formation) {
  const Course& course = formation.course;
  std::vector<Examples> examples;
  for (std::uint64_t n = 0; n < 4; ++n) examples.push_back(course.task->batch(train::Split::validation, n, 64));
  const auto without = [&](const std::vector<HeadId>& shut) {
    model::Gates gates(course.model->config());
    gates.shut(shut);
    return model::score(context, *course.model, examples, gates.get()).accuracy();
  };
  const std::vector<HeadId> previous = with_role(formation, "previous token"),
                            induction = with_role(formation, "induction");
  KnockOut found{.nothing = without({}), .previous_heads = names(previous), .induction_heads = names(induction)};
  std::vector<HeadId> both = previous, others = model::all_heads(course.model->config());
  both.insert(both.end(), induction.begin(), induction.end());
  std::erase_if(others, [&](const HeadId& head) { return std::find(both.begin(), both.end(), head) != both.end(); });
  if (!previous.empty()) found.previous = without(previous);
  if (!induction.empty()) found.induction = without(induction);
  if (previous.empty() || induction.empty()) return found;  // then "the others" could include the missing kind
  found.both = without(both);
  if (!others.empty()) found.others = without(others);
  return found;
}

std::vector<double> Formation::previous(const Point& point) const {
  return {point.observed.begin(), point.observed.begin() + std::ssize(point.observed) / 2};
}
std::vector<double> Formation::induction(const Point& point) const {
  return {point.observed.begin() + std::ssize(point.observed) / 2, point.observed.end()};
}

const heads::HeadRoles* Formation::best(const std::string& role) const {
  const heads::HeadRoles* found = nullptr;
  double most = 0;
  for (const heads::HeadRoles& head : roles) {
    const heads::RoleScore* score = head.score_in(role);
    if (score == nullptr || !score->holds() || score->score <= most) continue;
    most = score->score;
    found = &head;
  }
  return found;
}

std::vector<Job> form(const FormationPlan& plan, const std::filesystem::path& models, const Watch& watch,
                      Formations& to) {
  std::vector<Job> jobs;
  for (auto* formations : {&to.two_layers, &to.one_layer, &to.fixed_length}) formations->resize(plan.seeds);
  to.knock_outs.resize(plan.seeds);
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    const auto route = [&](const char* name) { return route_of(plan, name, seed, models); };
    Formation &two = to.two_layers[seed - 1], &one = to.one_layer[seed - 1], &fixed = to.fixed_length[seed - 1];
    two.name = "repeat, two layers";
    one.name = "repeat, one layer";
    fixed.name = "repeat of fixed length, two layers";
    KnockOut& shut = to.knock_outs[seed - 1];
    jobs.push_back(formation_job(plan_of(plan, "repeat", 2, seed), route("repeat"), watch, two,
                                 [&](Context& context) { shut = knock_out(context, two); }));
    jobs.push_back(formation_job(plan_of(plan, "repeat", 1, seed), route("repeat-one-layer"), watch, one));
    jobs.push_back(formation_job(plan_of(plan, "repeat-fixed", 2, seed), route("repeat-fixed"), watch, fixed));
  }
  return jobs;
}

double work_of(const FormationPlan& plan, const std::filesystem::path& models) {
  double work = 0;
  for (std::size_t seed = 1; seed <= plan.seeds; ++seed) {
    work += work_of(plan_of(plan, "repeat", 2, seed), route_of(plan, "repeat", seed, models)) +
            work_of(plan_of(plan, "repeat", 1, seed), route_of(plan, "repeat-one-layer", seed, models)) +
            work_of(plan_of(plan, "repeat-fixed", 2, seed), route_of(plan, "repeat-fixed", seed, models));
  }
  return work;
}

}  // namespace polyhead::study
