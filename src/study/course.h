// One model's course through training: observed on the way, and kept when it has ended.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "study/jobs.h"
#include "train/plan.h"

namespace polyhead::study {

// A validation of the model: its scores on validation sequences.
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
  std::string conclusion{};  // what was found out about the model at the end: JSON, or empty

  double accuracy() const { return points.back().accuracy; }
  // The first point from which on the accuracy stays at or above this.
  std::optional<std::int64_t> steps_to(double accuracy) const;
  // How much the accuracy has gained in the last quarter of the points.
  double still_gaining() const;
};

train::Plan make_plan(const std::string& task, std::int64_t layers, std::int64_t width, std::int64_t heads,
                      const train::TrainOptions& training);

inline constexpr double kNever = 2;  // above any accuracy

inline constexpr const char* kCourseFile = "course.json";  // in the folder: the plan and the points

struct Route {
  std::int64_t every = 10;         // steps from one validation to the next
  std::int64_t sequences = 256;    // of a validation; whole batches of 64
  double enough = kNever;          // ends early once the accuracy is this high at two validations in a row
  bool keep_model = true;          // along with the course
  std::filesystem::path folder{};  // where the course is written when it has ended; empty: nowhere
};

// Called after every step and every validation with its work, in estimated seconds of one thread; throws Interrupted to
// stop.
using Watch = std::function<void(double work)>;
using Observer = std::function<std::vector<double>(model::Transformer&)>;

// What is found out about the model once, at the end, and kept with the course: it takes longer than reading it.
struct Conclusion {
  std::string mark{};                                    // all that it depends on beside the model
  std::function<std::string(model::Transformer&)> find;  // as JSON
};

// Trains, and validates at the beginning, every `route.every` steps and at the end, when `observe` may look at the
// model. A course of the same plan that is already in the folder is read instead: it has the same numbers.
Course follow(Context& context, const train::Plan& plan, const Route& route, const Watch& watch,
              const Observer& observe = {}, const Conclusion& conclusion = {});

// The total that `watch` will receive if the course does not end early, without its conclusion; 0 if it is in its
// folder already.
double work_of(const train::Plan& plan, const Route& route);
// A pass of the plan's model over so many sequences, in the same unit.
double work_of_pass(const train::Plan& plan, std::int64_t sequences);

}  // namespace polyhead::study
