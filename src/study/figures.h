// The study's numbers as figures, tables and models to inspect, and the questions they answer.
#pragma once

#include "report/page.h"
#include "study/study.h"

namespace polyhead::study {

std::vector<report::Figure> figures(const Results& results, const std::vector<report::Model>& models);
std::vector<report::Table> tables(const Results& results);
// The questions of the study with their answers, and an example of each task where it first occurs.
std::vector<report::Chapter> chapters(const Results& results);
// With the attention of every head over a few sequences.
std::vector<report::Model> models(Context& context, const Results& results);
// Where, when and with what it was made.
std::vector<std::pair<std::string, std::string>> about(const Results& results);
// All of them, and the findings.
report::Page page_of(Context& context, const Results& results);

}  // namespace polyhead::study
