#include "study/course.h"

#include <algorithm>

#include "io/file.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "model/memory.h"
#include "polyhead/version.h"
#include "train/run.h"
#include "train/words.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kBatch = 64;  // of a validation
constexpr std::size_t kMostBytes = 1 << 26;

// Estimated seconds of one thread: a fixed cost for every op of a step, and the multiply-adds. Only used to show
// progress; a machine that is twice as fast is so for all courses. Courses took 0.9 to 1.3 times the estimate, the
// first ones 1.2 and all together 1.04, so the first estimate of the whole is within a fifth.
double work_of_tokens(const model::Config& config, double tokens, bool training) {
  constexpr double kSecondsPerOp = 1e-6, kOpsPerLayer = 24, kFlopsPerSecond = 100e9;
  const double pairs =
      tokens * static_cast<double>(config.context * config.width) * static_cast<double>(config.layers.size());
  const double flops = 2 * tokens * model::parameter_count(config) + 4 * pairs;
  return (training ? 3 : 1) *
         (kSecondsPerOp * kOpsPerLayer * static_cast<double>(config.layers.size()) + flops / kFlopsPerSecond);
}
double work_of_step(const train::Plan& plan) {
  return work_of_tokens(plan.model, static_cast<double>(plan.training.batch * plan.model.context), true);
}
double work_of_validation(const train::Plan& plan, const Route& route) {
  return 1.5 * work_of_tokens(plan.model, static_cast<double>(route.sequences * plan.model.context), false);
}

train::Plan fitted(train::Plan plan, const train::Task& task) {
  train::fit_to_task(plan.model, task);
  return plan;
}

// Everything that the numbers of a course depend on.
std::string mark_of(const Context& context, const train::Plan& plan, const Route& route, const Conclusion& conclusion) {
  const train::TrainOptions& t = plan.training;
  return io::Json{{"version", version()},
                  {"target", train::target_of(context)},
                  {"task", plan.task.name},
                  {"steps", t.steps},
                  {"batch", t.batch},
                  {"rate", t.rate},
                  {"warmup", t.warmup},
                  {"decay", t.decay},
                  {"clip", t.clip},
                  {"seed", t.seed},
                  {"data_seed", plan.task.seed},
                  {"model", model::to_json(plan.model)},
                  {"every", route.every},
                  {"sequences", route.sequences},
                  {"enough", route.enough},
                  {"conclusion", conclusion.mark}}
      .dump();
}

// The model first: if course.json is there, everything is.
void keep(const Course& course, const Route& route, const std::string& mark) {
  io::make_folder(route.folder);
  if (course.model) {
    train::save_tokenizer(course.plan.task, route.folder);
    train::save_plan(course.plan, route.folder);
    model::save(*course.model, route.folder);
  }
  io::Json points = io::Json::array();
  for (const Point& point : course.points) {
    points.push_back(
        {{"step", point.step}, {"loss", point.loss}, {"accuracy", point.accuracy}, {"observed", point.observed}});
  }
  const io::Json json{{"plan", mark}, {"points", points}, {"conclusion", course.conclusion}};
  io::write_atomically(route.folder / kCourseFile, [&](io::Writer& writer) { writer.write(json.dump(1) + "\n"); });
}

// Reads the course from the folder; false if there is none, a damaged one, or that of another plan.
bool recall(const Context& context, Course& course, const Route& route, const std::string& mark) {
  try {
    const std::string where = (route.folder / kCourseFile).string();
    if (route.folder.empty() || !io::is_there(where)) return false;
    const io::Json json = io::parse_json(io::read_file(where, kMostBytes), where);
    if (io::read_text(json, "plan", where) != mark) return false;
    std::vector<Point> points;
    for (const io::Json& point : json.at("points")) {
      points.push_back({point.at("step").get<std::int64_t>(), point.at("loss").get<double>(),
                        point.at("accuracy").get<double>(), point.at("observed").get<std::vector<double>>()});
    }
    if (points.empty()) return false;
    course.conclusion = io::read_text(json, "conclusion", where);
    if (route.keep_model) course.model = model::load(route.folder, context, Precision::f32);
    course.points = std::move(points);
    return true;
  } catch (const Error&) {
    return false;
  } catch (const io::Json::exception&) {
    return false;
  }
}

// Two validations in a row.
bool good_enough(const std::vector<Point>& points, double enough) {
  return points.size() >= 2 && points.back().accuracy >= enough && points[points.size() - 2].accuracy >= enough;
}

}  // namespace

train::Plan make_plan(const std::string& task, std::int64_t layers, std::int64_t width, std::int64_t heads,
                      const train::TrainOptions& training) {
  train::Plan plan;
  plan.task.name = task;
  plan.model = model::make_config(model::Kind::gpt, layers, width, heads);
  plan.training = training;
  return plan;
}

std::optional<std::int64_t> Course::steps_to(double wanted) const {
  std::optional<std::int64_t> step;
  for (const Point& point : points) {
    if (point.accuracy < wanted)
      step.reset();
    else if (!step)
      step = point.step;
  }
  return step;
}

double Course::still_gaining() const {
  return points.back().accuracy - points[points.size() - 1 - points.size() / 4].accuracy;
}

double work_of(const train::Plan& plan, const Route& route) {
  if (!route.folder.empty() && io::is_there(route.folder / kCourseFile)) return 0;
  const train::Plan whole = fitted(plan, *train::make_task(plan.task));
  const std::int64_t validations = 1 + (plan.training.steps + route.every - 1) / route.every;
  return static_cast<double>(plan.training.steps) * work_of_step(whole) +
         static_cast<double>(validations) * work_of_validation(whole, route);
}

double work_of_pass(const train::Plan& plan, std::int64_t sequences) {
  const train::Plan whole = fitted(plan, *train::make_task(plan.task));
  return work_of_tokens(whole.model, static_cast<double>(sequences * whole.model.context), false);
}

Course follow(Context& context, const train::Plan& plan, const Route& route, const Watch& watch,
              const Observer& observe, const Conclusion& conclusion) {
  Course course{plan, train::make_task(plan.task), nullptr, {}};
  course.plan = fitted(plan, *course.task);
  const std::string mark = mark_of(context, course.plan, route, conclusion);
  if (recall(context, course, route, mark)) return course;
  course.model =
      std::make_unique<model::Transformer>(course.plan.model, plan.training.seed, DType::f32, context.allocator());
  train::Trainer trainer(context, *course.model, *course.task, plan.training);
  const auto validate = [&] {
    const model::SequenceScores scores = train::evaluate(context, *course.model, *course.task, train::Split::validation,
                                                         route.sequences / kBatch, kBatch);
    course.points.push_back({trainer.steps_taken(), scores.mean_loss(), scores.accuracy(),
                             observe ? observe(*course.model) : std::vector<double>{}});
    watch(work_of_validation(course.plan, route));
  };
  validate();
  while (!trainer.done() && !good_enough(course.points, route.enough)) {
    trainer.step();
    watch(work_of_step(course.plan));
    if (trainer.steps_taken() % route.every == 0 || trainer.done()) validate();
  }
  if (conclusion.find) course.conclusion = conclusion.find(*course.model);
  if (!route.keep_model) course.model.reset();
  if (!route.folder.empty()) keep(course, route, mark);
  return course;
}

}  // namespace polyhead::study
