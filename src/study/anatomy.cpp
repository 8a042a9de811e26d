#include "study/anatomy.h"

#include <algorithm>

#include "exam/cut.h"
#include "io/file.h"

namespace polyhead::study {
namespace {

std::map<std::string, RelationFound> relations_of(const heads::Survey& survey) {
  std::map<std::string, RelationFound> relations;
  for (const auto& [name, offset] : survey.chance.relations) {
    RelationFound& found = relations[name] = {0, offset, survey.heads.front().id};
    for (const heads::HeadSurvey& head : survey.heads) {
      const double accuracy = head.relations.at(name).value();
      if (accuracy > found.accuracy) found = {accuracy, offset, head.id};
    }
  }
  return relations;
}

}  // namespace

std::size_t Anatomy::most_damaging() const {
  const auto& all = examination.importance;
  return static_cast<std::size_t>(
      std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.zero.mean < b.zero.mean; }) -
      all.begin());
}

Anatomy dissect(Context& context, const Course& course, const std::vector<HeadId>& gone,
                const std::filesystem::path& pruned) {
  model::Transformer& model = *course.model;
  Anatomy anatomy;
  anatomy.examination = exam::examine(context, model, exam::make_material(*course.task), {.seed = 1234});
  anatomy.relations = relations_of(anatomy.examination.survey);
  const std::unique_ptr<model::Transformer> smaller = heads::without_heads(model, gone);
  anatomy.parameters = model.parameter_count();
  anatomy.pruned_parameters = smaller->parameter_count();
  io::make_folder(pruned);
  exam::save_cut(*smaller, course.plan, pruned);
  return anatomy;
}

}  // namespace polyhead::study
