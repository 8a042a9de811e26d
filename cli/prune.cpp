#include "cli/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/signals.h"
#include "cli/subject.h"
#include "exam/examination.h"
#include "io/file.h"
#include "model/transformers_folder.h"
#include "text/tokenizer.h"
#include "train/run.h"

namespace polyhead::cli {
namespace {

struct PruneOptions {
  SubjectChoice subject;
  std::string out, order, layout = "polyhead";
  double budget = 1;
  std::int64_t fine_tune = 0;
  DeviceChoice on;
  bool mean = false, compare = false, dry_run = false, force = false;
  std::string format = "table";
};

// In the order of the enumeration.
const std::vector<std::string> kOrders{"iterative", "one-shot", "random", "damage"};
const std::vector<std::string> kLayouts{"polyhead", "transformers"};
constexpr int kRandomOrders = 5;

// A curve as bytes, for other ranks.
struct PackedStep {
  std::uint64_t layer;
  std::int64_t head;
  double loss, accuracy;
};

std::string packed(const PruneCurve& curve) {
  std::vector<PackedStep> steps{{curve.within_budget, 0, curve.loss, curve.accuracy}};
  for (const PruneStep& step : curve.steps) {
    steps.push_back({step.removed.layer, step.removed.head, step.loss, step.accuracy});
  }
  return {reinterpret_cast<const char*>(steps.data()), steps.size() * sizeof steps[0]};
}

PruneCurve unpacked(const std::string& bytes) {
  std::vector<PackedStep> steps(bytes.size() / sizeof(PackedStep));
  std::memcpy(steps.data(), bytes.data(), bytes.size());
  PruneCurve curve{.loss = steps[0].loss, .accuracy = steps[0].accuracy, .steps = {}, .within_budget = steps[0].layer};
  for (std::size_t n = 1; n < steps.size(); ++n) {
    curve.steps.push_back({{steps[n].layer, steps[n].head}, steps[n].loss, steps[n].accuracy});
  }
  return curve;
}

void check(const PruneOptions& o) {
  o.subject.expect_model();
  const std::filesystem::path model = o.subject.model;
  if (o.fine_tune > 0 && exam::reads_text(model)) {
    throw Failure(Exit::usage, "--fine-tune: for models that polyhead trained on a task");
  }
  if (o.layout == "transformers") {
    if (o.mean) throw Failure(Exit::usage, "--mean: the means need a bias that --layout transformers has no place for");
    model::expect_for_transformers(model);
  }
  if (o.dry_run) return;
  if (o.out.empty())
    throw Failure(Exit::usage, "no output folder given; name one, for example --out small, or use --dry-run");
  std::error_code ignored;
  if (std::filesystem::equivalent(model, o.out, ignored)) {
    throw Failure(Exit::usage, fmt::format("--out: {} is the model itself; name another folder", o.out));
  }
  io::expect_new_folder(o.out, o.force);
}

// Of the files of weights that a model is in.
std::int64_t weight_bytes(const std::filesystem::path& model) {
  if (!io::is_folder(model)) return static_cast<std::int64_t>(std::filesystem::file_size(model));
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model)) {
    const std::filesystem::path& file = entry.path();
    const bool weights = file.extension() == ".safetensors" && file.filename() != train::kStateFile;
    const bool gguf = file.extension() == ".gguf" && file.filename() != text::kTokenizerGguf;
    if (entry.is_regular_file() && (weights || gguf)) bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

class Pruning {
 public:
  explicit Pruning(const PruneOptions& o) : o_(o), context_(o.on.context()), subject_(o.subject.load(context_)) {
    order_ = !o.order.empty() ? o.order : answers() ? "iterative" : "damage";
    if (!answers() && (order_ == "iterative" || order_ == "one-shot")) {
      throw Failure(Exit::usage, fmt::format("--order: {} ranks by the gradient of a loss, and an encoder has none; "
                                             "use damage or random",
                                             order_));
    }
    if (!o.dry_run && ranks().rank() == 0) io::make_folder(o.out);  // before the work, so that a refusal costs nothing
    material_ = o.subject.material(subject_);
    exam::expect_memory("prune", subject_.model->config(), material_, true, 1);  // plus the smaller model
    const Progress progress("means");
    if (o.mean) means_ = heads::mean_outputs(context_, *subject_.model, material_.ranking);
  }

  void expect_alike() const {
    const auto means = [&] { return o_.mean ? "means" : "nothing"; };
    expect_ranks_alike(
        "prune", *subject_.model,
        {{"text, task or seed", digest_of(material_.ranking) + " " + digest_of(material_.judging)},
         {"set of options", fmt::format("order {}, budget {}, leaving {}, {}, seed {}", order_, o_.budget, means(),
                                        o_.compare ? "all orders" : "one order", seed())}});
  }

  // Of several ranks the first one goes to the end; the others find out with it what it takes longest to find out.
  std::optional<Pruned> go() {
    Pruned result{.folder = o_.subject.model,
                  .out = o_.dry_run ? "" : o_.out,
                  .order = order_,
                  .budget = o_.budget,
                  .answers = answers(),
                  .mean = o_.mean,
                  .fine_tuned = o_.fine_tune};
    result.curve = curve(order_, seed(), o_.compare, ranks());
    if (o_.compare) result.orders = compare(result.curve);
    if (ranks().rank() > 0) return std::nullopt;
    result.roles = roles_of(*subject_.model);
    const std::vector<HeadId> gone = result.curve.removed();
    const auto smaller = heads::without_heads(*subject_.model, gone, o_.mean ? &means_ : nullptr);
    if (o_.fine_tune > 0) tune(*smaller);
    result.left = exam::left_of(subject_.model->config(), gone);
    result.roles_left = roles_of(*smaller);
    const Progress timing("timing both");
    result.facts = exam::compare(context_, *subject_.model, *smaller, material_.reporting);
    if (!o_.dry_run) {
      result.missing = save(*smaller, gone);
      result.bytes_read = weight_bytes(o_.subject.model);
      result.bytes_written = weight_bytes(o_.out);
    }
    return result;
  }

 private:
  std::uint64_t seed() const { return static_cast<std::uint64_t>(o_.subject.seed); }

  std::vector<heads::HeadRoles> roles_of(model::Transformer& model) {
    const Progress progress("roles");
    return exam::survey_roles(context_, model, material_).roles;
  }

  // Returns what could not be written, in words.
  std::string save(const model::Transformer& smaller, const std::vector<HeadId>& gone) const {
    if (o_.layout == "transformers") {
      const model::TransformersFolder made = model::for_transformers(o_.subject.model, *subject_.model, gone);
      exam::save_cut(made, o_.out);
      return made.missing;
    }
    if (subject_.task != nullptr) {
      exam::save_cut(smaller, subject_.plan, o_.out);
    } else {
      exam::save_cut(smaller, std::filesystem::path(o_.subject.model), o_.out);
    }
    return {};
  }

  bool answers() const { return subject_.model->config().kind != model::Kind::encoder; }

  PruneCurve curve(const std::string& order, std::uint64_t seed, bool to_the_end, Ranks& among) {
    const auto number = std::find(kOrders.begin(), kOrders.end(), order) - kOrders.begin();
    const heads::PruneOptions options{.order = static_cast<PruneOrder>(number),
                                      .seed = seed,
                                      .budget = o_.budget / 100,
                                      .to_the_end = to_the_end,
                                      .means = o_.mean ? &means_ : nullptr,
                                      .ranks = &among};
    Progress progress(order, subject_.model->config().head_count());
    std::int64_t steps = 0;
    std::vector<PruneStep> taken;
    const bool one = ranks().size() == 1;
    std::optional<Signals> signals;
    if (one) signals.emplace();
    return heads::prune(context_, *subject_.model, material_.ranking, material_.judging, options,
                        [&](const PruneStep& step) {
                          const std::string left = answers() ? fmt::format("accuracy {:.2f} %", 100 * step.accuracy)
                                                             : fmt::format("1 - cos {:.4f}", step.loss);
                          progress.update(++steps, fmt::format("without {} {}", to_string(step.removed), left));
                          taken.push_back(step);
                          if (one && Signals::noted() != 0) {
                            throw Stopped{o_.subject.model, order, answers(), std::move(taken)};
                          }
                        });
  }

  // `found` is the curve of the order asked for, which is not computed again. Each of the others is one rank's.
  Orders compare(const PruneCurve& found) {
    std::vector<std::pair<std::string, std::uint64_t>> wanted;
    for (const char* order : {"iterative", "one-shot", "damage"}) {
      if (answers() || order == std::string("damage")) wanted.emplace_back(order, seed());
    }
    for (std::uint64_t n = 0; n < kRandomOrders; ++n) wanted.emplace_back("random", seed() + n);
    std::vector<std::string> curves(wanted.size());
    ranks().share(std::ssize(wanted), [&](std::int64_t job) {
      const auto& [order, with] = wanted[static_cast<std::size_t>(job)];
      const bool known = order == order_ && with == seed();
      curves[static_cast<std::size_t>(job)] = packed(known ? found : curve(order, with, true, alone()));
    });
    complete(ranks(), curves);
    Orders orders;
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      const std::string& order = wanted[n].first;
      if (order == "random") {
        orders.random.push_back(unpacked(curves[n]));
      } else {
        orders.ranked.emplace_back(order, unpacked(curves[n]));
      }
    }
    return orders;
  }

  void tune(model::Transformer& model) {
    Progress progress("fine-tune", o_.fine_tune);
    try {
      exam::fine_tune(context_, model, subject_, o_.fine_tune, [&](const train::StepReport& report) {
        progress.update(report.step, fmt::format("loss {:.3f}", report.loss));
      });
    } catch (const train::Diverged& diverged) {
      throw Failure(Exit::diverged,
                    fmt::format("{}; nothing was written. Try it without --fine-tune", diverged.what()));
    }
  }

  const PruneOptions& o_;
  std::string order_;
  Context context_;
  exam::Subject subject_;
  exam::Material material_;
  std::vector<Tensor> means_;
};

void prune(const PruneOptions& o) {
  together(ranks(), [&] { check(o); });
  std::optional<Pruning> pruning;
  together(ranks(), [&] { pruning.emplace(o); });
  pruning->expect_alike();
  try {
    if (const std::optional<Pruned> pruned = pruning->go()) print(prune_report(*pruned), o.format);
  } catch (const Stopped& stopped) {
    print(stopped_report(stopped), o.format);
    Signals::end_if_noted("stopped; no model was written");
  }
}

std::vector<Option> options_of(PruneOptions& o) {
  const std::vector<Option> text_options = o.subject.text_options();
  return {
      o.subject.model_option(),
      {"out", "FOLDER", "where the smaller model goes; created if missing", &o.out},
      {"budget",
       "X",
       "points of accuracy that may be lost; of an encoder, hundredths of the cosine distance (1 - cos) between its "
       "embeddings before and after",
       &o.budget,
       {},
       0,
       100},
      {"order", "ORDER",
       "which head goes next: iterative (the smallest gradient, ranked again after each), one-shot (ranked once), "
       "damage (the least loss of accuracy when removed alone) or random; default: iterative, of an encoder damage",
       &o.order, kOrders},
      {"layout", "LAYOUT",
       "polyhead; or transformers, for a folder that transformers loads, too: its layers all have the same number of "
       "heads, so only whole groups that share a key/value head leave, as many from each layer, and other removed "
       "heads stay as zeros",
       &o.layout, kLayouts},
      {"mean", "", "a removed head leaves its mean output behind, in the bias of its layer", &o.mean},
      {"fine-tune",
       "N",
       "steps of training afterwards, at a tenth of the learning rate",
       &o.fine_tune,
       {},
       0,
       1'000'000'000},
      {"compare", "", "also compare all orders, down to zero heads; five random ones", &o.compare},
      {"dry-run", "", "write nothing", &o.dry_run},
      {"force", "", "write into a folder that is not empty; files of an older run are removed", &o.force},
      o.subject.samples_option(),
      {"seed", "N", "seed of the sequences and of the random order", &o.subject.seed, {}, 0, INT32_MAX},
      text_options[0],
      text_options[1],
      text_options[2],
      o.on.device_option(),
      o.on.threads_option(),
      format_option(o.format)};
}

}  // namespace

Command prune_command() {
  auto o = std::make_shared<PruneOptions>();
  return {
      .name = "prune",
      .summary = "remove the heads that a model can do without",
      .description =
          "Takes out one head after the other until the accuracy has fallen by more than the budget, puts the last one "
          "back, and writes the model without them: smaller matrices, not masks, so that it is faster and takes less "
          "space. Heads are ranked on some sequences and judged on others, and what is reported at the end is measured "
          "on a third set; a model that polyhead trained was trained on none of them. Heads that share a key/value "
          "head are removed together. Prints the order, the heads that are left, and parameters, bytes, time and "
          "accuracy before and after. Models that come with a tokenizer are judged by how often they predict the next "
          "token of a text, and encoders by the cosine distance (1 - cos) between the embeddings of a text before and "
          "after: name one with --text.",
      .examples = {{"polyhead prune run --out small", "lose at most one point of accuracy"},
                   {"polyhead prune run --dry-run --budget 5", "see what five points would buy; write nothing"},
                   {"polyhead prune run --dry-run --compare", "the orders side by side, down to zero heads"},
                   {"mpirun -n 4 polyhead prune run --dry-run --compare", "four ranks share the orders"},
                   {"polyhead prune run --out small --mean --fine-tune 200",
                    "keep the means, then train a little longer"},
                   {"polyhead prune smollm2 --text book.txt --out small", "a downloaded model, judged on a text"},
                   {"polyhead prune smollm2 --text book.txt --out small --layout transformers",
                    "the same, as a folder that transformers loads"}},
      .options = options_of(*o),
      .run = [o] { prune(*o); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
