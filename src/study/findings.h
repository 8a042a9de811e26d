// What the numbers say, in sentences made from them.
#pragma once

#include <vector>

#include "report/page.h"
#include "study/study.h"

namespace polyhead::study {

std::vector<report::Finding> findings(const Results& results);

// Those about the heads of one task's models: what they do, which can go, and which stay.
void add_anatomies(const TaskStudy& task, std::vector<report::Finding>& to);
void add_removals(const TaskStudy& task, std::vector<report::Finding>& to);
void add_survivors(const TaskStudy& task, std::vector<report::Finding>& to);

}  // namespace polyhead::study
