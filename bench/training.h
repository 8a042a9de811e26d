// A step of training, timed: "train:L,C,H,T,B/step", with "+bf16" under that precision, a GPT of L layers, as
// tests/support/training_run.h makes it.
#pragma once

#include <string>

#include "support/training_run.h"

namespace polyhead::bench {

// Throws std::invalid_argument for a name that it does not know.
test::TrainingSizes training_sizes(const std::string& name);
bool is_rounded(const std::string& name);

}  // namespace polyhead::bench
