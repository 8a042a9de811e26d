#include "train/plan.h"

#include "io/file.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "polyhead/error.h"
#include "polyhead/version.h"

namespace polyhead::train {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::int64_t kMost = std::int64_t{1} << 53;
constexpr const char* kFormat = "polyhead run";

io::Json to_json(const Plan& plan) {
  io::Json task;
  task["name"] = plan.task.name;
  task["seed"] = plan.task.seed;
  task["context"] = plan.task.context;
  task["vocabulary"] = plan.task.vocabulary;
  if (!plan.file.empty()) {
    task["file"] = plan.file.string();
    task["text"] = plan.text_mark;
  }
  const TrainOptions& options = plan.training;
  io::Json training;
  training["steps"] = options.steps;
  training["batch"] = options.batch;
  training["rate"] = options.rate;
  training["warmup"] = options.warmup;
  training["decay"] = options.decay;
  training["clip"] = options.clip;
  training["seed"] = options.seed;
  if (options.parts > 1) training["parts"] = options.parts;
  io::Json json;
  json["format"] = kFormat;
  json["version"] = version();
  json["target"] = plan.target;
  json["task"] = std::move(task);
  json["training"] = std::move(training);
  json["save_every"] = plan.save_every;
  if (plan.pruned) json["pruned"] = true;
  return json;
}

TaskOptions read_task(const io::Json& json, const std::string& where) {
  io::expect_known_keys(json, {"name", "seed", "context", "vocabulary", "file", "text"}, where);
  return {.name = io::read_text(json, "name", where),
          .seed = static_cast<std::uint64_t>(io::read_integer(json, "seed", where, 0, kMost)),
          .context = io::read_integer(json, "context", where, 0, kMost),
          .vocabulary = io::read_integer(json, "vocabulary", where, 0, kMost)};
}

TrainOptions read_training(const io::Json& json, const std::string& where) {
  io::expect_known_keys(json, {"steps", "batch", "rate", "warmup", "decay", "clip", "seed", "parts"}, where);
  return {.steps = io::read_integer(json, "steps", where, 1, kMost),
          .batch = io::read_integer(json, "batch", where, 1, kMost),
          .rate = io::read_number(json, "rate", where, 0, 1e6),
          .warmup = io::read_integer(json, "warmup", where, 0, kMost),
          .decay = io::read_number(json, "decay", where, 0, 1e6),
          .clip = io::read_number(json, "clip", where, 0, 1e6),
          .seed = static_cast<std::uint64_t>(io::read_integer(json, "seed", where, 0, kMost)),
          .parts = json.contains("parts") ? io::read_integer(json, "parts", where, 2, kMost) : 1};
}

// A member for read_task or read_training, which refuse it if it is not an object.
const io::Json& member(const io::Json& json, const std::string& key, const std::string& where) {
  if (!json.contains(key))
    throw Error(ErrorCode::input, "run", where + ": expected \"" + key + "\", found no such key");
  return json[key];
}

}  // namespace

void save_plan(const Plan& plan, const std::filesystem::path& folder) {
  io::write_atomically(folder / kPlanFile, [&](io::Writer& writer) { writer.write(to_json(plan).dump(2) + "\n"); });
}

Plan load_plan(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kPlanFile;
  const std::string where = path.string();
  if (!io::is_folder(folder) || !io::is_there(path)) {
    throw Error(ErrorCode::input, "run",
                where + ": no such file; expected the folder of a run, as polyhead train makes");
  }
  const io::Json json = io::parse_json(io::read_file(path, kMostBytes), where);
  io::expect_known_keys(json, {"format", "version", "target", "task", "training", "save_every", "pruned"}, where);
  if (io::read_text(json, "format", where) != kFormat) {
    throw Error(ErrorCode::input, "run",
                where + ": expected the format \"" + kFormat + "\", found " +
                    io::in_quotes(io::read_text(json, "format", where)));
  }
  const io::Json& task = member(json, "task", where);
  Plan plan{.task = read_task(task, where),
            .model = model::load_config(folder),
            .training = read_training(member(json, "training", where), where),
            .save_every = io::read_integer(json, "save_every", where, 1, kMost),
            .target = io::read_text(json, "target", where),
            .pruned = json.contains("pruned") && io::read_flag(json, "pruned", where)};
  if (task.contains("file")) {
    plan.file = io::read_text(task, "file", where);
    plan.text_mark = io::read_text(task, "text", where);
  }
  return plan;
}

}  // namespace polyhead::train
