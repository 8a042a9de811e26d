#include "study/study.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

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

void append(std::vector<Job>& jobs, std::vector<Job> more) { jobs.insert(jobs.end(), more.begin(), more.end()); }

// Those that little is asked of afterwards.
std::vector<Job> trainings(const Plans& plans, const std::filesystem::path& models, const Watch& watch, Results& to) {
  std::vector<Job> jobs = form(plans.formation, models, watch, to.formations);
  append(jobs, compare(plans.classify, models, watch, to.classify));
  append(jobs, compare(plans.copy, models, watch, to.copy));
  return jobs;
}

// Leaves all courses in the folder, where rank 0 reads them: what else ranks found out is forgotten.
void train_on(Ranks& ranks, const Plans& plans, const std::filesystem::path& models, const Watch& watch) {
  Results forgotten;
  std::vector<Job> jobs = train_for(plans.anatomy, models, watch);
  append(jobs, trainings(plans, models, watch, forgotten));
  Context context(1);
  ranks.share(std::ssize(jobs), [&](std::int64_t job) { jobs[static_cast<std::size_t>(job)](context); });
}

}  // namespace

Results run_study(const StudyOptions& options, const OnProgress& on_progress) {
  Ranks& ranks = *options.ranks;
  const bool first = ranks.rank() == 0;
  Context context = context_for_jobs(options.device);
  std::optional<io::FolderLock> lock;
  together(ranks, [&] {
    if (!first) return;
    prepare(options);
    lock.emplace(options.folder);
    if (!options.resume) remove_results(options.folder);
  });
  const std::filesystem::path models = options.folder / "models";
  const auto begin = std::chrono::steady_clock::now();
  const Plans plans(options.quick);
  Results results;
  results.quick = options.quick;
  results.target = train::target_of(context);
  results.threads = Context(options.threads).threads();
  const double alone = work_of_removals(plans.anatomy);
  Counter counter((plans.work(models) - alone) / ranks.size() + alone, on_progress);
  const Watch watch = [&](double work) { counter.add(work); };
  if (ranks.size() > 1) train_on(ranks, plans, models, watch);
  if (!first) return results;
  // The long ones first, so that no thread is left waiting for a long last one.
  std::vector<Job> jobs = dissect(plans.anatomy, models, watch, results.anatomies);
  append(jobs, trainings(plans, models, watch, results));
  run_jobs(options.device, results.threads, jobs);
  for (Anatomy& anatomy : results.anatomies) measure_saving(context, anatomy);
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write(options.folder / "study.json", to_json(results));
  write_report(page_of(context, results), options.folder);
  return results;
}

}  // namespace polyhead::study
