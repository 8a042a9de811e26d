// What examining says to folders, texts and sizes that are wrong, beside the file that holds it; and what it leaves in
// the folder of a model that reads text.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <set>

#include "exam/cut.h"
#include "exam/examination.h"
#include "exam/language.h"
#include "io/gguf.h"
#include "model/memory.h"
#include "serve/models.h"
#include "support/kept.h"
#include "support/said.h"
#include "text/tokenizer.h"

namespace polyhead::exam {
namespace {

namespace fs = std::filesystem;

class ExamWords : public ::testing::Test {
 protected:
  // A folder of the task copy, whose model is changed before it is saved.
  fs::path folder(const std::function<void(model::Config&)>& change = [](model::Config&) {}) {
    train::Plan plan = train::plan_for("copy");
    plan.task.context = 9;
    plan.model = model::make_config(model::Kind::gpt, 1, 8, 2);
    train::fit_to_task(plan.model, *train::make_task(plan.task));
    train::save_plan(plan, scratch_.folder());
    change(plan.model);
    model::save(model::Transformer(plan.model, 3), scratch_.folder());
    return scratch_.folder();
  }

  io::Scratch scratch_;
  Context context_{1};
  Said say_{scratch_.folder()};
};

TEST_F(ExamWords, OfWhatCannotBe) {
  const auto load = [&](const std::string& what) { say_(what, [&] { load_subject(context_, scratch_.folder()); }); };
  say_("no folder", [&] { load_subject(context_, scratch_ / "nowhere"); });
  folder();
  load("as it should be");
  folder([](model::Config& config) { ++config.vocabulary; });
  load("another vocabulary");
  say_("words of another vocabulary",
       [&] { language_of(scratch_.folder(), model::load(scratch_.folder())->config()); });
  folder([](model::Config& config) { ++config.context; });
  load("another context");
  folder([](model::Config& config) { config.kind = model::Kind::classifier, config.classes = 2; });
  load("another kind");
  for (const char* name : {"config.json", "run.json", "model.safetensors"}) {
    folder();
    fs::remove(scratch_ / name);
    load("without " + std::string(name));
  }
  folder();
  const Observer observer(context_, scratch_.folder());
  for (const char* text : {"", " ", "BOS a b", "BOS a b c d e f g h", "BOS a b c d e f g", "BOS nobody"}) {
    say_("the text '" + std::string(text) + "'", [&] { observer.tokens_of(text, 8); });
  }
  Reading reading{.tokens = std::vector<std::int32_t>(31, 1),
                  .beginning = {2},
                  .ending = {3},
                  .special = {2, 3},
                  .marks = {},
                  .vocabulary = 5};
  for (const std::int64_t length : {2, 3, 4, 7, 8}) {
    say_("windows of " + std::to_string(length), [&] { make_material(reading, length, {.samples = 2}); });
  }
  for (const std::int64_t samples : {10, 11}) {
    say_(std::to_string(samples) + " windows", [&] { make_material(reading, 3, {.samples = samples}); });
  }
  const Subject subject = load_subject(context_, scratch_.folder());
  std::vector<Examples> examples;
  examples.push_back(subject.task->batch(train::Split::validation, 0, 2));
  for (autograd::Parameter* parameter : subject.model->parameters()) {
    std::fill_n(parameter->value.as<float>(), parameter->value.view().count(), std::numeric_limits<float>::infinity());
  }
  model::Transformer fine(subject.model->config(), 1);
  say_("the model overflows", [&] { compare(context_, *subject.model, fine, examples); });
  say_("what is left overflows", [&] { compare(context_, fine, *subject.model, examples); });
  expect_kept(fs::path(POLYHEAD_ROOT) / "tests/fixtures/exam/refusals.txt", say_.text());
}

// Before any of it is taken.
TEST_F(ExamWords, OfMemory) {
  const auto task = train::make_task({.name = "copy", .context = 9});
  io::expect_error(ErrorCode::value,
                   {"[material]", "1000000000000 sequences of each kind", "TB of memory", "take fewer"},
                   [&] { make_material(*task, {.samples = 1'000'000'000'000}); });
  model::Config config = model::make_config(model::Kind::gpt, 1, 2, 1);
  config.vocabulary = config.context = 1'000'000;
  model::Transformer model(config, 1);
  Material material;
  material.probes.plain.emplace_back().tokens = Tensor::zeros({1, 2}, DType::i32);
  material.probes.plain.emplace_back().tokens = Tensor::zeros({1, 1'000'000}, DType::i32);
  material.judging.emplace_back().tokens = Tensor::zeros({2, 1'000'000}, DType::i32);
  // A pass back keeps the logits, which a survey does not make.
  io::expect_error(ErrorCode::value, {"[examine]", "on 2 x 1000000 tokens", "or leave the gradient out"},
                   [&] { examine(context_, model, material); });
  config.context = 1 << 30;
  io::expect_error(ErrorCode::value, {"[prune]", "on 1 x 1000000 tokens", "TB of memory"}, [&] {
    std::swap(material.probes.plain[0], material.probes.plain[1]);
    expect_memory("prune", config, material, true, 2);
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take address space for themselves
// Beside the model, its packed weights and an untrained one: room for one of them is too little.
TEST_F(ExamWords, OfMemoryForModels) {
  model::Config config = model::make_config(model::Kind::gpt, 1, 2, 1);
  config.vocabulary = config.context = 1'000'000;
  model::Transformer model(config, 1);
  Material material;
  material.probes.plain.emplace_back().tokens = Tensor::zeros({1, 2}, DType::i32);
  double pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const double room = 1.5 * sizeof(float) * model::parameter_count(config);
  struct Restored {
    Restored() { getrlimit(RLIMIT_AS, &before); }
    ~Restored() { setrlimit(RLIMIT_AS, &before); }
    struct rlimit before {};
  } restored;
  struct rlimit limit = restored.before;
  limit.rlim_cur = static_cast<rlim_t>(pages * static_cast<double>(sysconf(_SC_PAGESIZE)) + room);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  io::expect_error(ErrorCode::value, {"[examine]", "on 1 x 2 tokens", "take shorter windows or fewer"},
                   [&] { examine(context_, model, material, {.gradient = false}); });
}
#endif

TEST_F(ExamWords, OfWhatBegins) {
  folder();
  const Subject subject = load_subject(context_, scratch_.folder());
  std::vector<std::string> stages;
  examine(context_, *subject.model, make_material(*subject.task, {.samples = 2}),
          {.on_stage = [&](const std::string& stage) { stages.push_back(stage); }});
  EXPECT_EQ(stages, (std::vector<std::string>{"importance", "where they look", "an untrained model", "damage"}));
}

// A seed stands for the same sequences and windows in every version.
TEST_F(ExamWords, OfSeeds) {
  std::string text;
  const auto add = [&](const char* name, const Tensor& tokens) {
    text += name;
    for (std::int64_t n = 0; n < tokens.view().count(); ++n) {
      text += " " + std::to_string(tokens.as<std::int32_t>()[n]);
    }
    text += "\n";
  };
  const auto add_all = [&](const Material& material) {
    for (const Examples& some : material.ranking) add("ranking", some.tokens);
    for (const Examples& some : material.judging) add("judging", some.tokens);
    for (const Examples& some : material.reporting) add("reporting", some.tokens);
    for (const heads::Probe& probe : material.probes.plain) add("plain", probe.targets);
    for (const heads::Probe& probe : material.probes.repeats) add("repeats", probe.tokens);
    for (const Tensor& some : material.sinks) add("sinks", some);
    for (const std::int64_t count : material.probes.counts) text += " " + std::to_string(count);
    text += "\n";
  };
  const auto task = train::make_task({.name = "copy", .context = 9});
  add_all(make_material(*task, {.samples = 3, .batch = 2, .seed = 5}));
  Reading reading{.tokens = {}, .beginning = {90}, .ending = {91}, .special = {90, 91}, .marks = {3}, .vocabulary = 92};
  for (std::int32_t n = 0; n < 200; ++n) reading.tokens.push_back(n * 7 % 90);
  add_all(make_material(reading, 8, {.samples = 3, .batch = 2, .seed = 5, .sinks = true}));
  expect_kept(fs::path(POLYHEAD_ROOT) / "tests/fixtures/exam/seeds.txt", text);
}

// The tokenizer goes along in its own form, the other form and what was there before go.
TEST_F(ExamWords, OfTextAreKeptWithTheModel) {
  const io::Scratch out;
  const auto litter = [&] {
    for (const char* name : {"tokenizer.json", "tokenizer.gguf", "metrics.jsonl", ".polyhead-0123456789abcdef.tmp"}) {
      io::spill(out / name, "old");
    }
  };
  const auto expect_left = [&](const char* kept, const std::string& tokenizer, const fs::path& from) {
    EXPECT_EQ(io::slurp(out / kept), tokenizer);
    for (const char* name : {"tokenizer.json", "tokenizer.gguf", "metrics.jsonl", ".polyhead-0123456789abcdef.tmp"}) {
      EXPECT_EQ(fs::exists(out / name), name == std::string(kept)) << name;
    }
    EXPECT_EQ(text::end_tokens(out.folder()), text::end_tokens(from));
  };
  serve::save_language_model(scratch_ / "reader");
  io::spill(scratch_ / "reader/generation_config.json", R"({"eos_token_id": [3, 5]})");
  const auto reader = model::load(scratch_ / "reader");
  litter();
  save_cut(*reader, scratch_ / "reader", out.folder());
  expect_left("tokenizer.json", io::slurp(scratch_ / "reader/tokenizer.json"), scratch_ / "reader");
  EXPECT_EQ(text::end_tokens(out.folder()), (std::set<text::Id>{3, 5}));
  EXPECT_EQ(model::load(out.folder())->config(), reader->config());

  const fs::path gguf = fs::path(POLYHEAD_ROOT) / "tests/fixtures/models/llama/llama.gguf";
  const auto other = model::load(gguf);
  litter();
  save_cut(*other, gguf, out.folder());
  expect_left("tokenizer.gguf", io::gguf_metadata_alone(gguf), gguf);
  const io::Scratch again;  // pruned a second time
  io::spill(again / "tokenizer.json", "old");
  save_cut(*other, out.folder(), again.folder());
  EXPECT_EQ(io::slurp(again / "tokenizer.gguf"), io::gguf_metadata_alone(gguf));
  EXPECT_FALSE(fs::exists(again / "tokenizer.json"));

  folder();
  train::Plan plan = train::load_plan(scratch_.folder());
  litter();
  save_cut(*model::load(scratch_.folder()), plan, out.folder());
  EXPECT_FALSE(fs::exists(out / ".polyhead-0123456789abcdef.tmp"));
}

// Wherever it lies now.
TEST_F(ExamWords, OfTextAreReadFromWhereTheyAre) {
  train::Plan plan = train::plan_for("text");
  plan.task.context = 9;
  plan.file = scratch_ / "text.txt";
  io::spill(scratch_ / "moved.txt", std::string(300, 'a') + std::string(300, 'b'));
  plan.model = model::make_config(model::Kind::gpt, 1, 8, 2);
  plan.model.vocabulary = 256;
  plan.model.context = 9;
  train::save_plan(plan, scratch_.folder());
  model::save(model::Transformer(plan.model, 3), scratch_.folder());
  io::expect_error(ErrorCode::io, {"text.txt"}, [&] { load_subject(context_, scratch_.folder()); });
  EXPECT_EQ(load_subject(context_, scratch_.folder(), scratch_ / "moved.txt").about, "text");
}

TEST_F(ExamWords, OfAReaderAreCalledAsTheirFile) {
  serve::save_language_model(scratch_ / "reader");
  io::spill(scratch_ / "a text.txt", "the road");
  const Subject subject = load_reader(context_, scratch_ / "reader", scratch_ / "a text.txt");
  EXPECT_EQ(subject.about, "a text.txt");
  EXPECT_EQ(subject.reading.vocabulary, subject.model->config().vocabulary);
  EXPECT_EQ(subject.task, nullptr);
}

}  // namespace
}  // namespace polyhead::exam
