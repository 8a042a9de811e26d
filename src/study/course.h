// One model's way through training, looked at as it goes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "study/jobs.h"
#include "train/plan.h"

namespace polyhead::study {

// On validation sequences.
struct Point {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0;
};

struct Course {
  train::Plan plan;
  std::unique_ptr<train::Task> task;
  std::unique_ptr<model::Transformer> model;
  std::vector<Point> points;

  double accuracy() const { return points.back().accuracy; }
  // The first point from which on the accuracy stays at or above this.
  std::optional<std::int64_t> steps_to(double accuracy) const;
};

train::Plan make_plan(const std::string& task, std::int64_t layers, std::int64_t width, std::int64_t heads,
                      const train::TrainOptions& training);

// Called after every step; throws Interrupted to stop.
using Watch = std::function<void()>;
using OnPoint = std::function<void(const Point&, model::Transformer&)>;

// Trains and validates every `every` steps, at the beginning and at the end; `on_point` may look at the model then.
Course follow(Context& context, const train::Plan& plan, std::int64_t every, const Watch& watch,
              const OnPoint& on_point = {});

}  // namespace polyhead::study
