#include "cli/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/device.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/subject.h"
#include "core/numbers.h"
#include "exam/links.h"
#include "exam/page.h"
#include "io/checksum.h"
#include "io/file.h"
#include "report/describe.h"

namespace polyhead::cli {
namespace {

struct HeadsOptions {
  SubjectChoice subject;
  std::string links;
  Budget damage;
  std::optional<bool> means, gradient;
  Selection selection;
  DeviceChoice on;
  bool all_roles = false;
  std::string format = "table", html;
};

constexpr std::int64_t kLongWindow = 2048;  // beyond it the backward pass takes more memory than most machines have

// The page: the heads as examined, and the attention of each over the first of the sequences used.
void write_page(const HeadsOptions& o, Context& context, const exam::Material& material, const Examined& examined) {
  const exam::Examination& found = examined.found;
  constexpr std::int64_t kTexts = 2;
  exam::Observer observer(context, o.subject.model);
  report::Page page;
  page.title = exam::name_of(o.subject.model);
  page.lead = exam::in_a_sentence(observer.model());
  report::Model& model = page.models.emplace_back();
  model.name = page.title;
  const Examples& some = material.ranking[0];
  const std::int64_t T = some.tokens.shape()[1];
  for (std::int64_t b = 0; b < std::min(kTexts, some.tokens.shape()[0]); ++b) {
    const std::int32_t* row = some.tokens.as<std::int32_t>() + b * T;
    const std::int64_t length = some.lengths.present() ? some.lengths.as<std::int32_t>()[b] : T;
    const std::vector<std::int32_t> tokens(row, row + length);
    model.samples.push_back(std::move(exam::describe(observer, model.name, observer.observe(tokens)).samples[0]));
    for (std::size_t layer = 0; layer < observer.model().config().layers.size(); ++layer) {
      exam::add_weights(model, observer, tokens, {}, layer);
    }
  }
  for (std::size_t n = 0; n < found.roles.size(); ++n) {
    report::Head head = report::describe(found.roles[n], &found.survey.heads[n]);
    const HeadImportance& importance = found.importance[n];
    if (examined.has_gradient()) head.importance = importance.normalised;
    if (examined.damage && heads::has_damage(importance)) {
      head.damage = importance.zero.mean;
      head.damage_low = importance.zero.low;
      head.damage_high = importance.zero.high;
    }
    model.heads.push_back(std::move(head));
  }
  io::write_atomically(o.html, [&](io::Writer& writer) { writer.write(report::html(page)); });
}

std::vector<heads::Probe> links_of(const HeadsOptions& o, const exam::Subject& subject) {
  if (subject.task != nullptr) return exam::load_links(o.links, *subject.task);
  return exam::load_links(o.links, text::load_tokenizer(o.subject.model), subject.reading, subject.model->config());
}

// A model, and what it is examined on. Of several ranks each has its own, and all are the same.
struct Patient {
  Context context;
  exam::Subject subject;
  exam::Material material;
};

Patient patient_of(const HeadsOptions& o) {
  o.subject.expect_model();
  if (!o.html.empty() && ranks().rank() == 0) io::expect_writable(o.html);
  Context context = o.on.context();
  exam::Subject subject = o.subject.load(context);
  exam::Material material = o.subject.material(subject);
  if (!o.links.empty()) {
    for (heads::Probe& probe : links_of(o, subject)) material.probes.plain.push_back(std::move(probe));
  }
  return {std::move(context), std::move(subject), std::move(material)};
}

// What is done, once the options that were left out are settled.
struct Choice {
  bool small, damage, means, gradient;

  Choice(const HeadsOptions& o, const Patient& patient)
      : small(patient.subject.task != nullptr),  // models that polyhead trained are small
        damage(o.damage.asked.value_or(small || o.means.value_or(false))),
        means(damage && o.means.value_or(small)),
        gradient(o.gradient.value_or(patient.material.probes.plain[0].tokens.shape()[1] <= kLongWindow)) {}
};

void expect_alike(const HeadsOptions& o, const Patient& patient, const Choice& choice) {
  expect_ranks_alike("heads", *patient.subject.model,
                     {{"text, task or seed", digest_of(patient.material.judging)},
                      {"set of options", fmt::format("damage {}, gradient {}, means {}, precision {}", choice.damage,
                                                     o.gradient.value_or(true), choice.means,
                                                     o.on.precision.empty() ? "of its own" : o.on.precision)}});
}

void expect_selectable(const HeadsOptions& o, const Patient& patient, const Choice& choice) {
  const bool answers = patient.subject.model->config().kind != model::Kind::encoder;
  const auto refuse = [&](const char* why) {
    throw Failure(Exit::usage, fmt::format("--sort {}: {}", o.selection.sort, why));
  };
  const std::string& by = o.selection.sort;
  if ((by == "damage" || by == "accuracy" || by == "logit") && !choice.damage) refuse("goes with --damage");
  if ((by == "accuracy" || by == "logit") && !answers) refuse("an encoder gives no answers");
  if (by == "gradient" && !(answers && choice.gradient)) refuse("there is no gradient here");
  if (ranks().size() > 1 && std::isfinite(o.damage.seconds)) {
    throw Failure(Exit::usage, "--damage TIME: one process keeps to a time; ranks measure all heads");
  }
}

// The heads that the table may show, those with the largest gradients first.
std::vector<HeadId> order_of(const Selection& selection, const exam::Examination& found) {
  std::vector<std::size_t> places = admitted(selection, found.roles);
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return found.importance[a].gradient > found.importance[b].gradient;
  });
  std::vector<HeadId> order;
  for (const std::size_t place : places) order.push_back(found.importance[place].id);
  return order;
}

// Until the time is over or a signal comes: what was measured by then is printed. A pass that would end more than half
// of itself too late is not begun.
class Patience {
 public:
  explicit Patience(double seconds) : seconds_(seconds) {}

  bool go_on() {
    const double now = std::chrono::duration<double>(Progress::Clock::now() - begin_).count();
    const double pass = now - last_;
    last_ = now;
    return Signals::noted() == 0 && (now == pass || now + pass / 2 < seconds_);
  }

 private:
  const Signals signals_;
  double seconds_, last_ = 0;
  Progress::Clock::time_point begin_ = Progress::Clock::now();
};

// Shows each stage; the damage is the one whose length is known.
class Stages {
 public:
  void begin(const std::string& name) {
    progress_.emplace("heads: " + name);
    progress_->note("");  // on a terminal at once
  }
  void begin_damage(std::int64_t heads) {
    progress_.emplace("heads: damage", heads);
    progress_->note("");
  }
  void done(std::int64_t heads) { progress_->update(heads, ""); }
  void end() { progress_.reset(); }

 private:
  std::optional<Progress> progress_;
};

exam::Examination examination_of(const HeadsOptions& o, Patient& patient, const Choice& choice, Stages& stages) {
  auto& [context, subject, material] = patient;
  const bool one = ranks().size() == 1;
  std::optional<Patience> patience;
  const auto begin_damage = [&](std::int64_t heads) {
    if (one) patience.emplace(o.damage.seconds);
    stages.begin_damage(heads);
  };
  exam::ExamineOptions options{.seed = static_cast<std::uint64_t>(o.subject.seed),
                               .gradient = choice.gradient,
                               .damage = {},
                               .on_stage = [&](const std::string& name) { stages.begin(name); },
                               .ranks = &ranks()};
  if (choice.damage) {
    options.damage = {
        .means = choice.means,
        .products = choice.small || o.on.precision == "f32" ? ops::Products::exact : ops::Products::coarse,
        .on_head = [&](std::int64_t done) { stages.done(done); },
        .go_on = [&] { return !patience || patience->go_on(); }};
    options.on_stage = [&](const std::string& name) {
      if (name == "damage")
        begin_damage(subject.model->config().head_count());
      else
        stages.begin(name);
    };
  }
  if (choice.damage && one) {
    options.order = [&](const exam::Examination& found) {
      std::vector<HeadId> order = order_of(o.selection, found);
      stages.begin_damage(std::ssize(order));
      return order;
    };
  }
  return exam::examine(context, *subject.model, material, options);
}

void examine_heads(const HeadsOptions& o) {
  std::optional<Patient> patient;
  together(ranks(), [&] { patient.emplace(patient_of(o)); });
  const Choice choice(o, *patient);
  expect_alike(o, *patient, choice);
  together(ranks(), [&] { expect_selectable(o, *patient, choice); });
  const exam::Subject& subject = patient->subject;
  const std::int64_t samples = o.subject.sample_count(subject), heads = subject.model->config().head_count();
  say(fmt::format("{}: {}, {} heads, {} sequences\n", o.subject.model, subject.about, heads, samples));
  Stages stages;
  const exam::Examination found = examination_of(o, *patient, choice, stages);
  if (ranks().rank() > 0) return;
  admitted(o.selection, found.roles);  // refuses a role that was not tried
  const Examined examined{o.subject.model, samples,      subject,         found,
                          choice.damage,   choice.means, choice.gradient, o.selection};
  if (!o.html.empty()) {
    stages.begin("the page");
    write_page(o, patient->context, patient->material, examined);
  }
  stages.end();
  print(heads_report(examined, o.all_roles), o.format);
  if (choice.damage) Signals::end_if_noted("stopped; of the other heads the damage is not known");
}

}  // namespace

Command heads_command() {
  auto o = std::make_shared<HeadsOptions>();
  const std::vector<Option> text_options = o->subject.text_options();
  return {
      .name = "heads",
      .summary = "what every head of a model does, and how much depends on it",
      .description =
          "A row for every head: how sharp it is and where it looks; its role, if it reaches the threshold and beats "
          "its control (of a model that comes with a tokenizer by texts that come with polyhead, whatever --text is; "
          "the "
          "roles are kept in the cache); how much the model depends on it, by the gradient of its gate and by the loss "
          "that its absence "
          "costs, with 95 % intervals; and the head that is most like it. An untrained model of the same shape is the "
          "control of all detectors. Models that polyhead trained are measured on sequences that training never showed "
          "them; models of others come with a tokenizer and are measured on windows of a text: name one with --text. "
          "Columns: entropy of the weights in nats, and relative to that of equal weights (of largest); mean weight on "
          "the first key, the row's own and the one before; mean distance; mean of the largest weight; gradient of the "
          "gate, relative to its layer; damage: how much the loss rises with the head's output set to 0, or to its "
          "mean, and half of the interval; how much the accuracy changes; what the head adds to the logit of the right "
          "answer; the head whose "
          "largest weights lie on the same keys, and how often.",
      .examples = {{"polyhead heads run", "the table of a model that polyhead train made"},
                   {"polyhead heads run --all-roles", "also the score of every head in every role, and its control"},
                   {"polyhead heads run --format json", "all of it, for a program"},
                   {"polyhead heads run --html heads.html", "and the page, to look at every head in a browser"},
                   {"polyhead heads run --links links.jsonl", "which heads follow relations that you know"},
                   {"polyhead heads smollm2 --text book.txt", "a downloaded model, in seconds"},
                   {"polyhead heads smollm2 --text book.txt --role induction --sort score --top 9",
                    "the nine heads that do it most"},
                   {"polyhead heads smollm2 --text book.txt --damage 30s --sort damage",
                    "take out the heads with the largest gradients, for half a minute"},
                   {"mpirun -n 4 polyhead heads run", "four ranks take heads out in turn: the same table"}},
      .options =
          {o->subject.model_option(),
           {"links", "FILE",
            "relations between words, a JSON object on each line: {\"tokens\": \"BOS today the king is old\", "
            "\"query\": 4, \"key\": 3, \"relation\": \"subject-verb\"}; for a model that comes with a tokenizer "
            "{\"text\": \"Today the king is old\", \"query\": [15, 17], \"key\": [10, 14], \"relation\": ...}, with "
            "a word's first character and the one after its last",
            &o->links},
           {"all-roles", "", "every role's score, threshold and control; with --format csv only those", &o->all_roles},
           {"sort", "COLUMN",
            "head, or a column of the table, the largest first; JSON and CSV have all heads, in the model's order",
            &o->selection.sort, sort_names()},
           {"top", "N", "show so many heads", &o->selection.top},
           {"role", "ROLE", "show only heads with this role, such as induction or first-token, or with none",
            &o->selection.role},
           {"damage", "",
            "remove heads in turn (with --role those that have it) and measure the loss, those with the largest "
            "gradients first, "
            "for up to TIME (30s, 2m); default: only of models that polyhead trained, which are small",
            &o->damage},
           {"gradient", "",
            fmt::format(
                "the gradient of every gate, which takes memory for a backward pass; default: for windows of up to "
                "{} tokens",
                kLongWindow),
            &o->gradient},
           {"means", "",
            "also damage with every head's mean in its place, which doubles the time; default: of models that "
            "polyhead trained",
            &o->means},
           {"html", "FILE", "write the page, too: every head with its numbers and its attention over two texts",
            &o->html},
           o->subject.samples_option(),
           {"seed", "N", "seed of the sequences and of the untrained model", &o->subject.seed, {}, 0, INT32_MAX},
           text_options[0],
           text_options[1],
           text_options[2],
           o->on.device_option(),
           o->on.precision_option("f32, but bf16 products for the damage of models that others trained"),
           o->on.threads_option(),
           format_option(o->format)},
      .run = [o] { examine_heads(*o); },
      .on_ranks = true};
}

}  // namespace polyhead::cli
