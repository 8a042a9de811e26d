#include "study/study.h"

#include <fmt/format.h>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "io/file.h"
#include "report/png.h"
#include "study/findings.h"

namespace polyhead::cli {
namespace {

struct StudyOptions {
  std::string out = "polyhead-study";
  bool quick = false, force = false, resume = false;
  DeviceChoice on;
  std::string format = "table";
};

std::vector<Fact> facts_of(const StudyOptions& o) {
  std::vector<Fact> facts = own_facts();
  facts.push_back({"folder", o.out});
  facts.push_back({"set of options", fmt::format("quick {}, resume {}, force {}", o.quick, o.resume, o.force)});
  return facts;
}

void check(const StudyOptions& o) {
  if (ranks().size() > 1) o.on.context();  // refuses a GPU
  if (o.force && o.resume) throw Failure(Exit::usage, "--resume continues a study and --force starts over: choose one");
  if (!o.force && !o.resume && ranks().rank() == 0 && io::is_folder(o.out) &&
      io::is_there(std::filesystem::path(o.out) / "models")) {
    throw Failure(Exit::input, fmt::format("{}: there is a study in this folder; --resume continues it, --force "
                                           "starts over",
                                           o.out));
  }
}

study::Results study_of(const StudyOptions& o) {
  together(ranks(), [&] { check(o); });
  expect_agreement(ranks(), "study", facts_of(o));
  const Signals signals;
  std::optional<Progress> bar;
  try {
    return study::run_study({.folder = o.out,
                             .quick = o.quick,
                             .device = o.on.chosen(),
                             .threads = static_cast<int>(o.on.threads),
                             .force = o.force,
                             .resume = o.resume,
                             .ranks = &ranks()},
                            [&](std::int64_t done, std::int64_t total) {
                              if (Signals::noted() != 0) throw study::Interrupted();
                              if (!bar) bar.emplace("study", total, done, Progress::Unit::percent);
                              bar->update(done, "");
                            });
  } catch (const study::Interrupted&) {
    bar.reset();
    throw Failure(
        Signals::exit_code(),
        fmt::format("stopped; models that were done are kept. To continue: polyhead study --resume{} --out {}",
                    o.quick ? " --quick" : "", o.out));
  }
}

Report report_of(const study::Results& results, const StudyOptions& o) {
  Report report{.command = "study", .text = {}, .fields = {}, .tables = {}, .csv = {}};
  Table findings{"findings", {{"finding", "", Style::words}, {"shown_by", "", Style::words}}, {}};
  for (const report::Finding& finding : study::findings(results)) {
    report.text += "- " + wrapped(finding.text, 2) + "\n";
    findings.rows.push_back({finding.text, finding.figure});
  }
  report.text += fmt::format("\n{}/report.html shows it all ({:.0f} s).\n", o.out, results.seconds);
  if (!report::can_draw_png()) {
    report.text += fmt::format("Its figures are there as SVG alone; PNG takes librsvg: {}.\n", report::kPngNeeds);
  }
  report.fields = {{"folder", o.out}, {"seconds", results.seconds}, {"quick", results.quick}};
  report.tables = {findings};
  report.csv = findings;
  return report;
}

}  // namespace

Command study_command() {
  auto o = std::make_shared<StudyOptions>();
  return {
      .name = "study",
      .summary = "train, compare, look inside, prune, and write the report: the main job",
      .description =
          "Trains small transformers with 1, 2, 4, 8 and 16 heads on copying, on classification and on sentences, over "
          "several seeds, and compares them; takes each head of every model out, ranks them, and prunes until a point "
          "of accuracy is lost; watches induction heads form, with the controls that tell them from look-alikes; says "
          "what each head of the models of sentences does and how much depends on it. Writes "
          "a folder: report.html (one file, opens offline), figures as SVG and, with librsvg, PNG, study.json with "
          "every number, and "
          "the models. Takes minutes on two cores and nothing from the network. Every model is written when it is "
          "trained: "
          "after Ctrl-C, a kill or a full disk --resume continues with the rest and arrives at the same numbers.",
      .examples = {{"polyhead study", "everything, into the folder polyhead-study"},
                   {"polyhead study --quick --out first-look", "fewer seeds and steps: a minute"},
                   {"polyhead study --resume", "continue after Ctrl-C or a crash"},
                   {"mpirun -n 4 polyhead study", "four ranks train the models in turn: the same numbers"},
                   {"polyhead heads polyhead-study/models/grammar-8", "one of its models, head by head"}},
      .options = {{"out", "FOLDER", "where the report goes; a folder that is not empty is refused", &o->out},
                  {"quick", "", "fewer seeds and steps, for a first look", &o->quick},
                  {"resume", "", "continue the study in the folder; finished models are not trained again", &o->resume},
                  o->on.device_option(),
                  o->on.threads_option(),
                  {"force", "", "start over in a folder that is not empty", &o->force},
                  format_option(o->format)},
      .run =
          [o] {
            const study::Results results = study_of(*o);
            if (ranks().rank() == 0) print(report_of(results, *o), o->format);
          },
      .on_ranks = true};
}

}  // namespace polyhead::cli
