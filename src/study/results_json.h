// study.json: every number of the study.
#pragma once

#include <string>

#include "study/study.h"

namespace polyhead::study {

std::string to_json(const Results& results);

}  // namespace polyhead::study
