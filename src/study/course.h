// One model's way through training, looked at as it goes, and kept when it has ended.
#pragma once

#include <filesystem>
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
  std::vector<double> observed{};  // what the observer saw in the model
};

struct Course {
  train::Plan plan;
  std::unique_ptr<train::Task> task;
  std::unique_ptr<model::Transformer> model;  // null if it was not to be kept
  std::vector<Point> points;

  double accuracy() const { return points.back().accuracy; }
  // The first point from which on the accuracy stays at or above this.
  std::optional<std::int64_t> steps_to(double accuracy) const;
  // How much the accuracy has gained in the last quarter of the points.
  double still_gaining() const;
};

train::Plan make_plan(const std::string& task, std::int64_t layers, std::int64_t width, std::int64_t heads,
                      const train::TrainOptions& training);

inline constexpr double kNever = 2;  // an accuracy that none has

inline constexpr const char* kCourseFile = "course.json";  // in the folder: the plan and the points

struct Route {
  std::int64_t every = 10;         // steps from one look to the next
  double enough = kNever;          // ends early when the accuracy has been so high at two looks in a row
  bool keep_model = true;          // with the course, when it is over
  std::filesystem::path folder{};  // where the course is written when it has ended; empty: nowhere
};

// Called after every step and every look with the work that it was, in seconds of a thread, about; throws Interrupted
// to stop.
using Watch = std::function<void(double work)>;
using Observer = std::function<std::vector<double>(model::Transformer&)>;

// Trains and validates at the beginning, every so many steps and at the end; `observe` may look at the model then. A
// course that is in the folder already, of the same plan, is read instead: it has the same numbers.
Course follow(Context& context, const train::Plan& plan, const Route& route, const Watch& watch,
              const Observer& observe = {});

// What `watch` will be told in all, if the course does not end early: nothing if it is in its folder already.
double work_of(const train::Plan& plan, const Route& route);

}  // namespace polyhead::study
