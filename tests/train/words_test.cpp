// What a run says of plans, folders and states that are wrong, each in every way, beside the file that holds it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "support/kept.h"
#include "support/said.h"
#include "train/run.h"

namespace polyhead::train {
namespace {

namespace fs = std::filesystem;

Plan small_plan() {
  Plan plan = plan_for("copy");
  plan.task.context = 9;
  plan.model = model::make_config(model::Kind::gpt, 1, 8, 2);
  plan.training = {.steps = 3, .batch = 2, .rate = 3e-3, .warmup = 1, .seed = 7};
  plan.save_every = 2;
  return plan;
}

class RunWords : public ::testing::Test {
 protected:
  void expect_kept_as(const std::string& name) {
    expect_kept(fs::path(POLYHEAD_ROOT) / "tests/fixtures/train" / name, said_.text());
  }
  void resume(const Changes& changes = {}) { Run::resume(context_, run_, changes); }
  void finish(const Plan& plan) {
    Run::start(context_, plan, run_, true)->go([](const StepReport&) { return true; });
  }

  io::Scratch scratch_;
  fs::path run_ = scratch_ / "run";
  Context context_{1};
  Said said_{scratch_.folder()};
};

TEST_F(RunWords, OfPlans) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto start = [&](const std::string& what, const std::function<void(Plan&)>& change) {
    Plan plan = small_plan();
    change(plan);
    said_(what, [&] { Run::start(context_, plan, run_, true); });
  };
  for (const std::int64_t n : {-1, 0, 1}) {
    const std::string name = " " + std::to_string(n);
    start("steps" + name, [&](Plan& plan) { plan.training.steps = n; });
    start("batch" + name, [&](Plan& plan) { plan.training.batch = n; });
    start("save_every" + name, [&](Plan& plan) { plan.save_every = n; });
  }
  for (const double x : {-1.0, 0.0, 1.0, nan, inf}) {
    start("rate " + std::to_string(x), [&](Plan& plan) { plan.training.rate = x; });
    start("decay " + std::to_string(x), [&](Plan& plan) { plan.training.decay = x; });
  }
  finish(small_plan());
  said_("a folder that is not empty", [&] { Run::start(context_, small_plan(), run_, false); });
  for (const std::int64_t n : {0, 2, 3, 4}) {
    said_("resumed to steps " + std::to_string(n), [&] { resume({.steps = n}); });
    said_("resumed to save_every " + std::to_string(n), [&] { resume({.save_every = n}); });
  }
  said_("nowhere", [&] { Run::resume(context_, scratch_ / "nowhere", {}); });

  // Every key of run.json: left out, of another kind, and at the ends of its range.
  const std::string good = io::slurp(run_ / kPlanFile);
  const auto with = [&](const std::string& what, const std::function<void(io::Json&)>& change) {
    io::Json json = io::parse_json(good, "good");
    change(json);
    io::spill(run_ / kPlanFile, json.dump());
    said_(what, [&] { load_plan(run_); });
  };
  const io::Json whole = io::parse_json(good, "good");
  const auto spoil = [&](const std::string& part) {
    const auto in = [&](io::Json& json) -> io::Json& { return part.empty() ? json : json[part]; };
    io::Json all = whole;
    for (const auto& [key, value] : in(all).items()) {
      if (key == "version") continue;  // of the program, for whoever reads it
      const std::string name = part + (part.empty() ? "" : ".") + key;
      with(name + " left out", [&](io::Json& json) { in(json).erase(key); });
      with(name + " true", [&](io::Json& json) { in(json)[key] = true; });
      if (!value.is_number()) continue;
      for (const io::Json& number : {io::Json(-1), io::Json(0), io::Json(1.5), io::Json(1000000), io::Json(1000001),
                                     io::Json(std::int64_t{1} << 53), io::Json((std::int64_t{1} << 53) + 1)}) {
        with(name + " " + number.dump(), [&](io::Json& json) { in(json)[key] = number; });
      }
    }
    with(part + " with a key of no meaning", [&](io::Json& json) { in(json)["steeps"] = 1; });
  };
  for (const char* part : {"", "task", "training"}) spoil(part);
  with("another format", [](io::Json& json) { json["format"] = "polyhead model"; });
  with("pruned, but not said how", [](io::Json& json) { json["pruned"] = 1; });
  with("a file without its mark", [](io::Json& json) { json["task"]["file"] = "a.txt"; });
  io::Json pruned = whole;
  pruned["pruned"] = true;
  io::spill(run_ / kPlanFile, pruned.dump());
  said_("pruned", [&] { resume(); });
  io::spill(run_ / kPlanFile, good);
  fs::remove(run_ / kStateFile);
  said_("without its state", [&] { resume(); });
  expect_kept_as("plans.txt");
}

// A state with one tensor or mark changed; the checksum is right.
TEST_F(RunWords, OfStates) {
  finish(small_plan());
  const fs::path state = run_ / kStateFile;
  const std::string good = io::slurp(state);
  using Change = std::function<void(std::vector<io::NamedTensor>&, io::Metadata&)>;
  const auto with = [&](const std::string& what, const Change& change) {
    io::spill(state, good);
    const io::Safetensors file = io::read_safetensors(state);
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, tensor] : file.tensors) tensors.push_back({name, tensor});
    io::Metadata metadata;
    for (const char* key : {"format", "step", "first_loss", "options", "config"}) metadata[key] = file.metadata.at(key);
    change(tensors, metadata);
    io::write_safetensors(state, tensors, metadata);
    said_(what, [&] { resume(); });
  };
  with("as it was", [](auto&, auto&) {});
  for (const std::string key : {"format", "step", "options", "config"}) {
    with(key + " left out", [&](auto&, io::Metadata& metadata) { metadata.erase(key); });
    with(key + " of another", [&](auto&, io::Metadata& metadata) { metadata[key] = "other"; });
  }
  for (const char* step : {"-1", "0", "3", "4", "3x", "3.0", ""}) {
    with("step " + std::string(step), [&](auto&, io::Metadata& metadata) { metadata["step"] = step; });
  }
  const Tensor small = Tensor::zeros({1}, DType::f32);
  with("a tensor more", [&](auto& tensors, auto&) { tensors.push_back({"first.other", small}); });
  for (const std::string part : {"", "first.", "second."}) {
    const std::string name = part + "final_norm.weight";
    const auto spoil = [&](const std::string& what,
                           const std::function<void(std::vector<io::NamedTensor>&, std::size_t)>& change) {
      with(name + " " + what, [&](std::vector<io::NamedTensor>& tensors, auto&) {
        for (std::size_t n = 0; n < tensors.size(); ++n) {
          if (tensors[n].name == name) return change(tensors, n);
        }
        ADD_FAILURE() << name << " is not in the state";
      });
    };
    Tensor wide = Tensor::zeros({8}, DType::f64), odd = Tensor::zeros({8}, DType::f32);
    odd.as<float>()[7] = std::nanf("");
    spoil("left out",
          [](auto& tensors, std::size_t n) { tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(n)); });
    spoil("of another shape", [&](auto& tensors, std::size_t n) { tensors[n].tensor = small; });
    spoil("of another type", [&](auto& tensors, std::size_t n) { tensors[n].tensor = wide; });
    spoil("with a NaN", [&](auto& tensors, std::size_t n) { tensors[n].tensor = odd; });
  }
  expect_kept_as("states.txt");
}

}  // namespace
}  // namespace polyhead::train
