#include "replicate/replicate.h"

#include <algorithm>
#include <map>

#include "exam/page.h"
#include "io/checksum.h"
#include "io/file.h"
#include "model/checkpoint.h"

namespace polyhead::replicate {
namespace {

using io::Json;

constexpr int kVersion = 1;  // of the definitions: a result of another one is looked for again
constexpr std::size_t kMostBytes = 1 << 20;
constexpr const char* kNoModel = "trained here";

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "replicate", what); }

std::filesystem::path file_of(const ReplicateOptions& o, const std::string& model, const std::string& name) {
  return o.folder / "results" / (model + "-" + name + ".json");
}

std::optional<Result> kept(const std::filesystem::path& file, const std::string& of) {
  try {
    if (!io::is_there(file)) return {};
    const Json json = io::parse_json(io::read_file(file, kMostBytes), file.string());
    if (json.at("of") != of) return {};
    return result_from(json.at("result"));
  } catch (const std::exception&) {  // it is looked for again
    return {};
  }
}

void keep(const std::filesystem::path& file, const std::string& of, const Result& result) {
  const Json json{{"of", of}, {"result", to_json(result)}};
  io::write_atomically(file, [&](io::Writer& writer) { writer.write(json.dump(2) + "\n"); });
}

// What most results were measured on, beside them.
void keep_sequences(const ReplicateOptions& o, Specimen& specimen) {
  const Json json{{"texts", specimen.text_tokens()}, {"repeats", specimen.repeat_tokens()}};
  const std::filesystem::path file = o.folder / "sequences" / (specimen.name() + ".json");
  io::make_folder(file.parent_path());
  io::write_atomically(file, [&](io::Writer& writer) { writer.write(json.dump() + "\n"); });
}

// What a result depends on.
std::string mark_of(const model::Transformer* model, bool quick) {
  io::Checksum sum;
  sum.add("replicate " + std::to_string(kVersion) + (quick ? " quick" : ""));
  if (model != nullptr) {
    sum.add(model::to_json(model->config()));
    for (const autograd::Parameter* parameter : model->parameters()) sum.add(parameter->value);
  }
  return sum.digits();
}

// The last part of its path, without ".gguf".
std::string name_of(const std::filesystem::path& model) {
  const std::string name = exam::name_of(model), ending = ".gguf";
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

bool wanted(const ReplicateOptions& o, const Experiment& experiment) {
  return o.only.empty() || std::find(o.only.begin(), o.only.end(), experiment.published.name) != o.only.end();
}

// One model's, or those that take none.
class Looking {
 public:
  Looking(Context& context, const ReplicateOptions& options, std::int64_t total)
      : context_(context), options_(options), total_(total) {}

  bool go_on() const { return !options_.go_on || options_.go_on(); }

  void add(const std::string& model, const std::string& of, const Experiment& experiment,
           const std::function<Result()>& look, std::map<std::string, std::vector<Result>>& to) {
    const std::string& name = experiment.published.name;
    if (options_.on_result) options_.on_result(model + ", " + name, done_, total_);
    const std::filesystem::path file = file_of(options_, model, name);
    std::optional<Result> result = kept(file, of);
    if (!result) {
      result = look();
      result->name = name;
      result->model = model;
      keep(file, of, *result);
    }
    to[name].push_back(std::move(*result));
    ++done_;
  }

 private:
  Context& context_;
  const ReplicateOptions& options_;
  std::int64_t done_ = 0, total_;
};

std::int64_t count_of(const ReplicateOptions& o, const std::vector<model::Config>& configs) {
  std::int64_t count = 0;
  for (const Experiment& experiment : experiments()) {
    if (!wanted(o, experiment)) continue;
    if (experiment.takes == Takes::nothing) ++count;
    for (const model::Config& config : configs) count += fits(experiment, config);
  }
  return count;
}

void expect_known(const ReplicateOptions& o) {
  for (const std::string& name : o.only) published(name);
  for (const std::filesystem::path& model : o.models) {
    if (!text::has_tokenizer(model)) refuse(model.string() + ": expected a model with a tokenizer");
  }
}

}  // namespace

const Published& published(const std::string& name) {
  std::string known;
  for (const Experiment& experiment : experiments()) {
    if (experiment.published.name == name) return experiment.published;
    known += (known.empty() ? "" : ", ") + experiment.published.name;
  }
  refuse("no result is called " + name + "; there are " + known);
}

std::vector<Result> replicate(Context& context, const ReplicateOptions& options) {
  expect_known(options);
  io::make_folder(options.folder / "results");
  const io::FolderLock lock(options.folder);
  const Effort effort = effort_of(options.quick);
  std::vector<model::Config> configs;
  for (const std::filesystem::path& path : options.models) configs.push_back(model::load(path, context)->config());
  Looking looking(context, options, count_of(options, configs));
  std::map<std::string, std::vector<Result>> found;
  for (const std::filesystem::path& path : options.models) {
    if (!looking.go_on()) break;
    Specimen specimen(context, name_of(path), model::load(path, context), text::load_tokenizer(path), effort);
    const std::string of = mark_of(&specimen.model(), options.quick);
    keep_sequences(options, specimen);
    for (const Experiment& experiment : experiments()) {
      if (!wanted(options, experiment) || !fits(experiment, specimen.config()) || !looking.go_on()) continue;
      looking.add(
          specimen.name(), of, experiment, [&] { return experiment.look(specimen); }, found);
    }
  }
  const std::string of = mark_of(nullptr, options.quick);
  for (const Experiment& experiment : experiments()) {
    if (!wanted(options, experiment) || experiment.takes != Takes::nothing || !looking.go_on()) continue;
    looking.add(
        kNoModel, of, experiment, [&] { return experiment.train(context, effort); }, found);
  }
  std::vector<Result> all;
  for (const Experiment& experiment : experiments()) {
    std::vector<Result>& some = found[experiment.published.name];
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

report::Page page_of(const std::vector<Result>& results, bool quick) {
  report::Page page;
  page.title = "Published results about heads, looked for again";
  page.lead =
      quick ? "A first look: fewer sequences, heads and seeds." : "In models at hand and in models trained here.";
  report::Table table{.id = "results",
                      .title = "What is said, and what came of it",
                      .caption = "Intervals are those of 95 % over sequences, or over what the definition names.",
                      .columns = {"result", "model", "verdict", "theirs", "ours", "control"},
                      .rows = {}};
  report::Table told{.id = "definitions",
                     .title = "How each is measured here",
                     .caption = "",
                     .columns = {"result", "what they say", "by whom", "how it is measured here"},
                     .rows = {}};
  report::Table further{.id = "further",
                        .title = "What was measured beside it, knock-outs among them",
                        .caption = "",
                        .columns = {"result", "model", "what", "number"},
                        .rows = {}};
  std::string last;
  for (const Result& result : results) {
    const Published& about = published(result.name);
    page.findings.push_back(
        {result.model + ", " + result.name + ": " + words_of(result.verdict) + ". " + result.sentence, "results"});
    table.rows.push_back({result.name, result.model, words_of(result.verdict), about.number,
                          result.ours.what + ": " + text_of(result.ours),
                          result.control.what + ": " + text_of(result.control)});
    for (const Measure& measure : result.further) {
      further.rows.push_back({result.name, result.model, measure.what, text_of(measure)});
    }
    if (last != result.name) told.rows.push_back({result.name, about.claim, about.source, about.definition});
    last = result.name;
  }
  page.tables = {table, told, further};
  return page;
}

}  // namespace polyhead::replicate
