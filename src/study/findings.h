// What the numbers say, in sentences made from them.
#pragma once

#include "report/page.h"
#include "study/study.h"

namespace polyhead::study {

std::vector<report::Finding> findings(const Results& results);

}  // namespace polyhead::study
