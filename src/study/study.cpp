#include "study/study.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "io/file.h"
#include "report/png.h"
#include "study/figures.h"
#include "study/results_json.h"
#include "train/run.h"

namespace polyhead::study {
namespace {

struct Plans {
  ComparisonPlan copy{.task = "copy", .steps = 150, .every = 5, .expected = 0.37};
  ComparisonPlan classify{
      .task = "classify", .width = 128, .steps = 2000, .batch = 64, .every = 25, .rate = 2e-3, .expected = 0.32};
  FormationPlan formation;
  AnatomyPlan anatomy;

  explicit Plans(bool quick) {
    if (!quick) return;
    copy.seeds = classify.seeds = 2;
    copy.steps = 60;
    classify.steps = 150;
    copy.expected = classify.expected = 1;
    formation.seeds = anatomy.seeds = 1;
    formation.steps = 220;
    anatomy.steps = 300;
  }
  // The work that is still to be done.
  double work(const std::filesystem::path& models) const {
    return work_of(copy, models) + work_of(classify, models) + work_of(formation, models) + work_of(anatomy, models);
  }
};

// Adds up the work of all jobs and reports it from one thread at a time. Work beyond the expected total is not counted.
class Counter {
 public:
  Counter(double total, const OnProgress& on_progress) : total_(total), on_progress_(on_progress) {}
  void add(double work) {
    const std::lock_guard lock(mutex_);
    done_ = std::min(done_ + work, total_);
    if (on_progress_) on_progress_(static_cast<std::int64_t>(1e3 * done_), static_cast<std::int64_t>(1e3 * total_));
  }

 private:
  double done_ = 0, total_;
  std::mutex mutex_;
  const OnProgress& on_progress_;
};

void write(const std::filesystem::path& path, const std::string& content) {
  io::write_atomically(path, [&](io::Writer& writer) { writer.write(content); });
}

void write_report(const report::Page& page, const std::filesystem::path& folder) {
  write(folder / "report.html", report::html(page));
  for (const report::Figure& figure : page.figures) {
    const std::string drawing = report::svg(figure);
    write(folder / "figures" / (figure.id + ".svg"), drawing);
    if (report::can_draw_png()) write(folder / "figures" / (figure.id + ".png"), report::png(drawing));
  }
}

// Prepares the folder: an empty one, one that may be overwritten, or one to resume in.
void prepare(const StudyOptions& options) {
  if (!options.resume) io::expect_new_folder(options.folder, options.force);
  for (const char* part : {"figures", "models"}) io::make_folder(options.folder / part);
}

// Remains of an older study would be taken for ours.
void remove_results(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove(folder / "study.json", ignored);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "models")) {
    std::filesystem::remove(entry.path() / kCourseFile, ignored);
  }
}

}  // namespace

Results run_study(const StudyOptions& options, const OnProgress& on_progress) {
  Context context = context_for_jobs(options.device);
  prepare(options);
  const io::FolderLock lock(options.folder);
  const std::filesystem::path models = options.folder / "models";
  if (!options.resume) remove_results(options.folder);
  const auto begin = std::chrono::steady_clock::now();
  const Plans plans(options.quick);
  Results results;
  results.quick = options.quick;
  results.target = train::target_of(context);
  results.threads = Context(options.threads).threads();
  Counter counter(plans.work(models), on_progress);
  const Watch watch = [&](double work) { counter.add(work); };
  // The long ones first, so that no thread is left waiting for a long last one.
  std::vector<Job> jobs = dissect(plans.anatomy, models, watch, results.anatomies);
  const auto add = [&](std::vector<Job> more) { jobs.insert(jobs.end(), more.begin(), more.end()); };
  add(form(plans.formation, models, watch, results.formations));
  add(compare(plans.classify, models, watch, results.classify));
  add(compare(plans.copy, models, watch, results.copy));
  run_jobs(options.device, results.threads, jobs);
  for (Anatomy& anatomy : results.anatomies) measure_saving(context, anatomy);
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write(options.folder / "study.json", to_json(results));
  write_report(page_of(context, results), options.folder);
  return results;
}

}  // namespace polyhead::study
