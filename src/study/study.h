// The main job: train, compare, look inside, prune, and write down what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/ranks.h"
#include "study/comparison.h"
#include "study/formation.h"

namespace polyhead::study {

struct StudyOptions {
  std::filesystem::path folder;
  bool quick = false;  // fewer seeds and steps: a first look
  Device device{};
  int threads = 0;          // 0: as many as there are processors for this process
  bool force = false;       // start over in a folder that is not empty
  bool resume = false;      // continue the study in the folder; courses that have ended are read
  Ranks* ranks = &alone();  // whoever is free trains the next model, on one thread, into the folder that all share
};

// Everything that was measured.
struct Results {
  std::vector<TaskStudy> tasks;  // copy, classify, grammar
  Formations formations;
  double seconds = 0;
  bool quick = false;
  std::string target;  // train::target_of
  int threads = 0;
};

// Work done and in total, in estimated milliseconds of one thread. Called often, from any thread, but never from two at
// a time. Throws Interrupted to stop.
using OnProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// Makes the folder first, so that an error of the file system comes before any training. Writes each of models/ when
// its course has ended, then study.json, figures/ and report.html. A study that was stopped or killed resumes from the
// courses that have ended and gives the same numbers; times are measured again. Of several ranks rank 0 alone has the
// results, and they are those of one process.
Results run_study(const StudyOptions& options, const OnProgress& on_progress);

}  // namespace polyhead::study
