#include "study/course.h"

namespace polyhead::study {
namespace {

constexpr std::int64_t kBatches = 2, kBatch = 128;  // of a validation

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

Course follow(Context& context, const train::Plan& plan, std::int64_t every, const Watch& watch,
              const OnPoint& on_point) {
  Course course{plan, train::make_task(plan.task), nullptr, {}};
  train::fit_to_task(course.plan.model, *course.task);
  course.model = std::make_unique<model::Transformer>(course.plan.model, plan.training.seed);
  train::Trainer trainer(context, *course.model, *course.task, plan.training);
  const auto look = [&] {
    const model::SequenceScores scores =
        train::evaluate(context, *course.model, *course.task, train::Split::validation, kBatches, kBatch);
    course.points.push_back({trainer.steps_taken(), scores.mean_loss(), scores.accuracy()});
    if (on_point) on_point(course.points.back(), *course.model);
  };
  look();
  while (!trainer.done()) {
    trainer.step();
    watch();
    if (trainer.steps_taken() % every == 0 || trainer.done()) look();
  }
  return course;
}

}  // namespace polyhead::study
