#include "study/study.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>

#include "io/file.h"
#include "model/checkpoint.h"
#include "polyhead/info.h"
#include "polyhead/version.h"
#include "report/png.h"
#include "study/figures.h"
#include "study/findings.h"
#include "study/results_json.h"

namespace polyhead::study {
namespace {

struct Plans {
  ComparisonPlan copy{.task = "copy", .steps = 100, .every = 5, .seeds = 3};
  ComparisonPlan classify{.task = "classify", .steps = 600, .batch = 64, .every = 25, .rate = 2e-3};
  FormationPlan formation;
  AnatomyPlan anatomy;

  explicit Plans(bool quick) {
    if (!quick) return;
    copy.seeds = 2;
    copy.steps = 60;
    classify.seeds = 1;
    classify.steps = 150;
    formation.steps = 220;
    anatomy.steps = 300;
  }
  std::int64_t steps() const {
    const auto counts = static_cast<std::int64_t>(std::size(kHeadCounts));
    return counts * (copy.steps * static_cast<std::int64_t>(copy.seeds) +
                     classify.steps * static_cast<std::int64_t>(classify.seeds)) +
           3 * formation.steps + anatomy.steps;
  }
};

// Counts steps of all jobs and lets one thread at a time tell.
class Counter {
 public:
  Counter(std::int64_t total, const OnProgress& on_progress) : total_(total), on_progress_(on_progress) {}
  void step() {
    ++done_;
    tell();
  }
  void tell() {
    const std::lock_guard lock(mutex_);
    if (on_progress_) on_progress_(done_, total_);
  }

 private:
  std::atomic<std::int64_t> done_{0};
  std::int64_t total_;
  std::mutex mutex_;
  const OnProgress& on_progress_;
};

void write(const std::filesystem::path& path, const std::string& content) {
  io::write_atomically(path, [&](io::Writer& writer) { writer.write(content); });
}

void save_model(const Course& course, const model::Transformer& model, const std::filesystem::path& folder) {
  io::make_folder(folder);
  train::save_plan(course.plan, folder);
  model::save(model, folder);
}

void save_models(const Results& results, const std::filesystem::path& folder) {
  for (const auto* contenders : {&results.copy, &results.classify}) {
    for (const Contender& contender : *contenders) {
      const Course& course = contender.courses[0];
      save_model(course, *course.model, folder / (contender.task + "-" + std::to_string(contender.heads)));
    }
  }
  const Formations& formations = results.formations;
  save_model(formations.two_layers.course, *formations.two_layers.course.model, folder / "repeat");
  save_model(formations.one_layer.course, *formations.one_layer.course.model, folder / "repeat-one-layer");
  save_model(formations.fixed_length.course, *formations.fixed_length.course.model, folder / "repeat-fixed");
  save_model(results.anatomy.course, *results.anatomy.course.model, folder / "grammar");
  io::make_folder(folder / "grammar-pruned");
  save_cut(*results.anatomy.pruned, results.anatomy.course.plan, folder / "grammar-pruned");
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

report::Page page_of(Context& context, const Results& results) {
  report::Page page;
  page.title = "What heads do";
  page.lead = "Small transformers trained on this machine, compared by their number of heads, looked into, and pruned.";
  page.about = {{"version", std::string(version())},
                {"vector unit", info().target},
                {"threads", std::to_string(results.threads)},
                {"date", today()},
                {"time", std::to_string(static_cast<int>(results.seconds)) + " s"}};
  if (results.quick) page.about.emplace_back("extent", "quick: fewer seeds and steps");
  page.models = models(context, results);
  page.figures = figures(results, page.models);
  page.tables = tables(results);
  page.findings = findings(results);
  return page;
}

void write_report(const report::Page& page, const std::filesystem::path& folder) {
  write(folder / "report.html", report::html(page));
  for (const report::Figure& figure : page.figures) {
    const std::string drawing = report::svg(figure);
    write(folder / "figures" / (figure.id + ".svg"), drawing);
    write(folder / "figures" / (figure.id + ".png"), report::png(drawing));
  }
}

}  // namespace

Results run_study(const StudyOptions& options, const OnProgress& on_progress) {
  io::expect_new_folder(options.folder, options.force);
  for (const char* part : {"figures", "models"}) io::make_folder(options.folder / part);
  const io::FolderLock lock(options.folder);
  const auto begin = std::chrono::steady_clock::now();
  const Plans plans(options.quick);
  Results results;
  results.quick = options.quick;
  Context context(options.threads);
  results.threads = context.threads();
  Counter counter(plans.steps(), on_progress);
  const Watch watch = [&] { counter.step(); };
  // The long ones first, so that nobody waits for the last.
  std::vector<Job> jobs{dissect(
      plans.anatomy, watch, [&] { counter.tell(); }, results.anatomy)};
  const auto add = [&](std::vector<Job> more) { jobs.insert(jobs.end(), more.begin(), more.end()); };
  add(compare(plans.classify, watch, results.classify));
  add(form(plans.formation, watch, results.formations));
  add(compare(plans.copy, watch, results.copy));
  run_jobs(results.threads, jobs);
  knock_out(context, results.formations);
  Context alone(1);
  measure_saving(alone, results.anatomy);
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // What cannot be made again without training comes first.
  save_models(results, options.folder / "models");
  write(options.folder / "study.json", to_json(results));
  write_report(page_of(context, results), options.folder);
  return results;
}

}  // namespace polyhead::study
