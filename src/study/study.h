// The main job: train, compare, look inside, prune, and write down what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "study/anatomy.h"
#include "study/comparison.h"
#include "study/formation.h"

namespace polyhead::study {

struct StudyOptions {
  std::filesystem::path folder;
  bool quick = false;  // fewer seeds and steps: a first look
  int threads = 0;     // 0: as many as this process may run on
  bool force = false;  // write into a folder that is not empty
};

// Everything that was measured.
struct Results {
  std::vector<Contender> copy, classify;
  Formations formations;
  Anatomy anatomy;
  double seconds = 0;
  bool quick = false;
  int threads = 0;
};

// Training steps done and to do; called often, from any thread, never from two at a time. Throws Interrupted to stop.
using OnProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// The folder is made first, so that what the file system refuses is known before anything is trained. Writes
// report.html, study.json, figures/, models/.
Results run_study(const StudyOptions& options, const OnProgress& on_progress);

}  // namespace polyhead::study
