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

// A task that is easy, one that takes long, and one that a single layer cannot solve: its models are far from the
// ceiling, and all of them are taken apart.
struct Plans {
  std::vector<ComparisonPlan> tasks{
      {.task = "copy",
       .steps = 120,
       .every = 1,
       .sequences = 64,
       .seeds = 10,
       .removal = {.samples = 128},
       .expected = 0.4},
      {.task = "classify",
       .steps = 640,
       .batch = 64,
       .every = 20,
       .sequences = 512,
       .removal = {.samples = 512},
       .expected = 0.85},
      {.task = "grammar", .steps = 240, .batch = 16, .every = 20, .seeds = 6, .dissected = 6}};
  FormationPlan formation;

  explicit Plans(bool quick) {
    if (!quick) return;
    for (ComparisonPlan& task : tasks) {
      task.seeds = 1;
      task.dissected = 1;
      task.steps = 60;
      task.expected = 1;
      task.removal = {.samples = 64, .random_orders = 2};
    }
    formation.seeds = 1;
    formation.steps = 220;
  }
  // The work that is still to be done.
  double work(const std::filesystem::path& models) const {
    double work = work_of(formation, models);
    for (const ComparisonPlan& task : tasks) work += work_of(task, models);
    return work;
  }
  double work_of_dissections() const {
    double work = 0;
    for (const ComparisonPlan& task : tasks) work += study::work_of_dissections(task);
    return work;
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

// Leaves all courses in the folder, where rank 0 reads them: what else ranks found out is forgotten.
void train_on(Ranks& ranks, const Plans& plans, const std::filesystem::path& models, const Watch& watch) {
  Results forgotten;
  std::vector<Job> jobs = form(plans.formation, models, watch, forgotten.formations);
  for (const ComparisonPlan& task : plans.tasks) append(jobs, train_for(task, models, watch));
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
  const double alone = plans.work_of_dissections();
  Counter counter((plans.work(models) - alone) / ranks.size() + alone, on_progress);
  const Watch watch = [&](double work) { counter.add(work); };
  if (ranks.size() > 1) train_on(ranks, plans, models, watch);
  if (!first) return results;
  results.tasks.resize(plans.tasks.size());
  // The long ones first, so that no thread is left waiting for a long last one.
  std::vector<Job> jobs = compare(plans.tasks[1], models, watch, results.tasks[1]);
  append(jobs, compare(plans.tasks[2], models, watch, results.tasks[2]));
  append(jobs, form(plans.formation, models, watch, results.formations));
  append(jobs, compare(plans.tasks[0], models, watch, results.tasks[0]));
  run_jobs(options.device, results.threads, jobs);
  results.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write(options.folder / "study.json", to_json(results));
  write_report(page_of(context, results), options.folder);
  return results;
}

}  // namespace polyhead::study
