#include <algorithm>
#include <ctime>

#include "polyhead/version.h"
#include "study/figures.h"
#include "study/findings.h"

namespace polyhead::study {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

// Figures and tables are numbered as they come.
template <class Shown>
void put_in_order(const std::vector<report::Chapter>& chapters, std::vector<Shown>& shown) {
  std::vector<std::string> ids;
  for (const report::Chapter& chapter : chapters) ids.insert(ids.end(), chapter.answers.begin(), chapter.answers.end());
  const auto place = [&](const Shown& one) { return std::find(ids.begin(), ids.end(), one.id) - ids.begin(); };
  std::stable_sort(shown.begin(), shown.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> about(const Results& results) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"version", std::string(version())},
      {"device", results.target},
      {"threads", std::to_string(results.threads)},
      {"date", today()},
      {"time", std::to_string(static_cast<int>(results.seconds)) + " s"},
      {"to open a model", "polyhead serve models/NAME"}};
  if (results.quick) lines.emplace_back("extent", "quick: fewer seeds and steps");
  return lines;
}

report::Page page_of(Context& context, const Results& results) {
  report::Page page;
  page.title = "What heads do";
  page.lead =
      "Small transformers, trained on this machine: compared by their number of heads, examined head by head, and "
      "pruned.";
  page.about = about(results);
  page.models = models(context, results);
  page.figures = figures(results, page.models);
  page.tables = tables(results);
  page.findings = findings(results);
  page.chapters = chapters(results);
  put_in_order(page.chapters, page.figures);
  put_in_order(page.chapters, page.tables);
  return page;
}

}  // namespace polyhead::study
