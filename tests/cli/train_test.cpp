// polyhead train and generate, through the real command: what is promised about signals, kills, full disks and bad
// input.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "cli/process.h"
#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

using io::slurp;
using io::spill;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const Words kTiny{"train", "copy",    "--context", "9",       "--layers", "1",         "--width",
                  "8",     "--heads", "2",         "--batch", "4",        "--dropout", "0.1"};

std::string joined(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += "'" + word + "' ";
  return line;
}

class Train : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  std::string file(const std::string& run, const std::string& name) const { return slurp(scratch_ / run / name); }
  // A tiny run into a folder, with more words.
  Words tiny(const std::string& run, const Words& more = {}) const {
    Words words = kTiny;
    words.insert(words.end(), {"--out", at(run)});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words resuming(const std::string& run, const Words& more = {}) const {
    Words words{"train", "--resume", "--out", at(run)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Ran train(const Words& words) const { return errors_of(joined(words)); }
  void expect_same_bits(const std::string& a, const std::string& b) const {
    for (const std::string name : {"training.safetensors", "model.safetensors", "config.json"}) {
      EXPECT_TRUE(file(a, name) == file(b, name)) << name;
    }
  }
  // Nothing but the files of a run.
  void expect_tidy(const std::string& run) const {
    const std::filesystem::directory_iterator entries(scratch_ / run);
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 6) << "something is left behind";
  }
  void expect_refused(int code, const Words& words, const std::vector<std::string>& says) const {
    const Ran ran = train(words);
    EXPECT_EQ(ran.code, code) << joined(words) << ran.text;
    for (const std::string& part : says) EXPECT_TRUE(contains(ran.text, part)) << part << " in: " << ran.text;
  }

  io::Scratch scratch_;
};

TEST_F(Train, TrainsAndReports) {
  const auto report = json_of(joined(tiny("run", {"--steps", "30"})));
  EXPECT_EQ(report["command"], "train");
  EXPECT_EQ(report["task"], "copy");
  EXPECT_EQ(report["steps"], 30);
  EXPECT_EQ(report["best_accuracy"], 1);
  for (const char* key : {"parameters", "loss", "validation_loss", "seconds", "steps_per_second"}) {
    EXPECT_GT(report[key], 0) << key;
  }
  expect_tidy("run");
  EXPECT_EQ(lines_of(output_of(joined(resuming("run", {"--format", "csv"}))).text).size(), 2u)
      << "a finished run reports";
  EXPECT_TRUE(contains(output_of(joined(resuming("run"))).text, "validation accuracy"));
}

TEST_F(Train, EveryOptionArrives) {
  const auto json_in = [&](const std::string& run, const std::string& name) {
    return nlohmann::json::parse(file(run, name));
  };
  const Words all{
      "train",        "copy",  "--layers",   "2",      "--width",     "16",     "--heads",   "4",
      "--steps",      "3",     "--batch",    "2",      "--warmup",    "1",      "--seed",    "9",
      "--rate",       "0.004", "--decay",    "0.2",    "--dropout",   "0.25",   "--norm",    "rms",
      "--context",    "11",    "--kv-heads", "2",      "--positions", "rotary", "--no-bias", "--no-feed-forward",
      "--save-every", "7",     "--out",      at("all")};
  EXPECT_EQ(train(all).code, 0);
  const auto plan = json_in("all", "run.json"), config = json_in("all", "config.json");
  for (const auto& [place, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"/task/seed", 9},
                                                                                        {"/task/context", 11},
                                                                                        {"/training/steps", 3},
                                                                                        {"/training/batch", 2},
                                                                                        {"/training/rate", 0.004},
                                                                                        {"/training/warmup", 1},
                                                                                        {"/training/decay", 0.2},
                                                                                        {"/training/seed", 9},
                                                                                        {"/save_every", 7}}) {
    EXPECT_EQ(plan.at(nlohmann::json::json_pointer(place)), value) << place;
  }
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"context", 11},
                                                                                      {"width", 16},
                                                                                      {"heads", {4, 4}},
                                                                                      {"kv_heads", {2, 2}},
                                                                                      {"positions", "rotary"},
                                                                                      {"norm", "rms"},
                                                                                      {"feed_forward", "none"},
                                                                                      {"bias", false},
                                                                                      {"dropout", 0.25}}) {
    EXPECT_EQ(config.at(key), value) << key;
  }
  // Left out, the warm-up takes no more than a tenth of the steps.
  for (const auto& [steps, warmup] : {std::pair{30, 3}, {499, 49}, {600, 50}}) {
    const std::string run = "of " + std::to_string(steps);
    EXPECT_EQ(train(tiny(run, {"--steps", std::to_string(steps)})).code, 0);
    EXPECT_EQ(json_in(run, "run.json")["training"]["warmup"], warmup);
  }
}

TEST_F(Train, TheDefaultsLearnToCopy) {
  const auto report = json_of("train copy --steps 300 --out " + at("run"));
  EXPECT_GT(report["validation_accuracy"], 0.99);
  const Ran ran =
      output_of("generate " + at("run") + " --prompt 'BOS a b c d e f g h i j k l m n o p SEP' --tokens 16");
  EXPECT_EQ(ran.text, "BOS a b c d e f g h i j k l m n o p SEP a b c d e f g h i j k l m n o p \n");
}

TEST_F(Train, ASignalSavesAndEndsAndTheRunGoesOn) {
  const Words plan{"--steps", "1500", "--save-every", "500"};
  EXPECT_EQ(train(tiny("straight", plan)).code, 0);
  for (const int number : {SIGINT, SIGTERM}) {
    const std::string run = "signalled" + std::to_string(number);
    Process process(tiny(run, plan), at("log"));
    while (lines_of(file(run, "metrics.jsonl")).size() < 5 && !process.ended()) std::this_thread::sleep_for(1ms);
    process.signal(number);
    EXPECT_EQ(process.wait(), 128 + number);
    EXPECT_TRUE(contains(slurp(at("log")), "and saved; to continue: polyhead train --resume --out " + at(run)));
    expect_tidy(run);
    EXPECT_TRUE(contains(train(resuming(run)).text, "1500 steps from step "));
    expect_same_bits("straight", run);
  }
}

TEST_F(Train, KilledAtAnyMomentItLosesNothingButSteps) {
  const Words plan{"--steps", "600", "--save-every", "20"};
  EXPECT_EQ(train(tiny("straight", plan)).code, 0);
  std::mt19937 random(1);
  bool begun = false;
  int latest = 80'000;  // microseconds; more while a busy machine does not even begin in that time
  for (int kills = 0; kills < 30 || !begun; ++kills) {
    begun = std::filesystem::exists(scratch_ / "killed" / "run.json");
    if (!begun && kills > 0) latest += 20'000;
    Words begin = tiny("killed", plan);
    begin.emplace_back("--force");
    Process process(begun ? resuming("killed") : begin, at("log"));
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(1'000, latest)(random)));
    process.signal(SIGKILL);
    if (process.wait() == 0) break;
  }
  EXPECT_EQ(train(resuming("killed")).code, 0);
  expect_same_bits("straight", "killed");
  expect_tidy("killed");
}

TEST_F(Train, AFullDiskEndsWith4AndTheRunGoesOn) {
  EXPECT_EQ(train(tiny("straight", {"--steps", "20"})).code, 0);
  EXPECT_EQ(train(resuming("straight", {"--steps", "40"})).code, 0);
  EXPECT_EQ(train(tiny("full", {"--steps", "20"})).code, 0);
  const std::string before = file("full", "training.safetensors");
  Process process(resuming("full", {"--steps", "40"}), at("log"), before.size() - 100);
  EXPECT_EQ(process.wait(), 4);
  EXPECT_TRUE(contains(slurp(at("log")), "training.safetensors: cannot write it: File too large")) << slurp(at("log"));
  EXPECT_EQ(file("full", "training.safetensors"), before);
  expect_tidy("full");
  EXPECT_EQ(train(resuming("full")).code, 0);
  expect_same_bits("straight", "full");
}

TEST_F(Train, DivergenceEndsWith6) {
  expect_refused(6, tiny("run", {"--steps", "500", "--rate", "900", "--warmup", "0"}),
                 {" at step ", "rate", "--warmup"});
}

TEST_F(Train, MistakesOfTheCommandLineEndWith2) {
  expect_refused(2, {"train", "cpoy", "--out", at("run")}, {"did you mean 'copy'?"});
  expect_refused(2, {"train", "--out", at("run")}, {"which task?"});
  expect_refused(2, {"train", "copy"}, {"--out"});
  expect_refused(2, {"train", "text", "--out", at("run")}, {"--file"});
  expect_refused(2, tiny("run", {"--file", "x"}), {"--file"});
  expect_refused(2, tiny("run", {"--rate", "fast"}), {"--rate: expected a number above 0, at most 1000, found 'fast'"});
  expect_refused(2, tiny("run", {"--rate", "nan"}), {"--rate"});
  expect_refused(2, tiny("run", {"--norm", "lyer"}), {"did you mean 'layer'?"});
  expect_refused(2, resuming("run", {"--force"}), {"choose one"});
  expect_refused(2, resuming("run", {"--width", "16"}), {"--width", "keeps its plan"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
}

TEST_F(Train, BadInputEndsWith3) {
  expect_refused(3, {"train", "copy", "--heads", "3", "--out", at("run")}, {"divides the width 64", "found 3"});
  expect_refused(3, {"train", "copy", "--kv-heads", "3", "--out", at("run")}, {"divides the heads 4", "found 3"});
  expect_refused(3, {"train", "copy", "--context", "2", "--out", at("run")}, {"context", "found 2"});
  spill(at("empty.txt"), "");
  spill(at("short.txt"), "short");
  expect_refused(3, {"train", "text", "--file", at("empty.txt"), "--out", at("run")}, {"empty.txt", "is empty"});
  expect_refused(3, {"train", "text", "--file", at("short.txt"), "--out", at("run")}, {"longer text", "found 5"});
  expect_refused(3, resuming("run"), {"run.json"});
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run"));
  expect_refused(3, tiny("empty.txt"), {"found a file"});
}

TEST_F(Train, NothingIsOverwrittenWithoutForce) {
  EXPECT_EQ(train(tiny("run", {"--steps", "10"})).code, 0);
  const std::string before = file("run", "training.safetensors");
  expect_refused(3, tiny("run", {"--steps", "11"}), {"--resume", "--force"});
  std::filesystem::create_directory(scratch_ / "other");
  spill(at("other/notes.txt"), "mine");
  expect_refused(3, tiny("other"), {"not empty"});
  EXPECT_EQ(file("run", "training.safetensors"), before);
  EXPECT_EQ(train(tiny("run", {"--steps", "11", "--force"})).code, 0);
  EXPECT_NE(file("run", "training.safetensors"), before);
}

TEST_F(Train, DamagedAndForeignFilesEndWith3) {
  EXPECT_EQ(train(tiny("run", {"--steps", "10"})).code, 0);
  Words wide = tiny("wide", {"--steps", "10"});
  *(std::find(wide.begin(), wide.end(), "--width") + 1) = "16";
  EXPECT_EQ(train(wide).code, 0);
  const std::string state = file("run", "training.safetensors"), weights = file("run", "model.safetensors");
  spill(at("run/training.safetensors"), state.substr(0, state.size() / 2));
  expect_refused(3, resuming("run"), {"training.safetensors"});
  spill(at("run/training.safetensors"), file("wide", "training.safetensors"));
  expect_refused(3, resuming("run"), {"training.safetensors", "another configuration"});
  spill(at("run/model.safetensors"), weights.substr(0, weights.size() / 2));
  expect_refused(3, {"generate", at("run")}, {"model.safetensors"});
  spill(at("run/model.safetensors"), file("wide", "model.safetensors"));
  expect_refused(3, {"generate", at("run")}, {"expected config.json", "found another"});
}

TEST_F(Train, WhereNothingCanBeWrittenItEndsWith4) {
  Words words = kTiny;
  words.insert(words.end(), {"--out", "/proc/nowhere/run"});
  expect_refused(4, words, {"/proc/nowhere/run", "cannot make the folder"});
  expect_refused(4, {"train", "text", "--file", at("none.txt"), "--out", at("run")}, {"none.txt", "No such file"});
}

TEST_F(Train, ProgressIsABarOnATerminalAndLinesElsewhere) {
  const Words words = tiny("run", {"--steps", "200", "--force"});
  const auto shown = [&](const std::string& environment) {
    return shell(environment + " script -qec \"" + command(joined(words)) + " >/dev/null\" /dev/null").text;
  };
  const std::string bar = shown("env -u NO_COLOR TERM=xterm");
  EXPECT_TRUE(contains(bar, "\r\x1b[K[")) << bar;
  EXPECT_TRUE(contains(bar, "\x1b[32m=")) << bar;
  EXPECT_TRUE(contains(bar, "copy 200/200, loss ")) << bar;
  EXPECT_FALSE(contains(shown("NO_COLOR=1 TERM=xterm"), "\x1b[32m"));
  EXPECT_FALSE(contains(shown("TERM=dumb"), "\x1b"));
  const std::string lines = train(words).text;
  EXPECT_FALSE(contains(lines, "\x1b"));
  EXPECT_TRUE(contains(lines, "\ncopy 200/200, loss ")) << lines;
}

TEST_F(Train, GeneratesTheSameTextForTheSameSeed) {
  std::string text;
  for (int n = 0; n < 200; ++n) text += "the cat sat on the mat. ";
  spill(at("cat.txt"), text);
  const Ran ran = train({"train", "text", "--file", at("cat.txt"), "--layers", "1", "--width", "32", "--context", "16",
                         "--steps", "150", "--rate", "0.01", "--batch", "8", "--out", at("cat")});
  ASSERT_EQ(ran.code, 0) << ran.text;
  const std::string cat = "generate " + at("cat");
  EXPECT_EQ(output_of(cat + " --prompt 'the c' --tokens 25 --temperature 0").text, "the cat sat on the mat. the ca\n");
  const std::string bold = cat + " --tokens 60 --temperature 3 --seed ";
  EXPECT_EQ(output_of(bold + "5").text, output_of(bold + "5").text);
  EXPECT_NE(output_of(bold + "5").text, output_of(bold + "6").text);
  const std::string told = " --prompt '\n' --tokens 500 --temperature 0.8";
  EXPECT_EQ(output_of(cat + " --seed 7").text, output_of(cat + told + " --seed 7").text);
  EXPECT_NE(output_of(cat + " --seed 7").text, output_of(cat + " --tokens 499 --seed 7").text);
}

TEST_F(Train, GenerateSaysWhatItCannotDo) {
  Words classify = tiny("class", {"--steps", "2"});
  classify[1] = "classify";
  classify.erase(classify.begin() + 2, classify.begin() + 4);
  EXPECT_EQ(train(classify).code, 0);
  expect_refused(3, {"generate", at("class")}, {"classifier"});
  expect_refused(3, {"generate", at("nowhere")}, {"expected a folder"});
  expect_refused(2, {"generate"}, {"no model given"});
  EXPECT_EQ(train(tiny("copy", {"--steps", "2"})).code, 0);
  expect_refused(2, {"generate", at("copy"), "--prompt", "BSO"}, {"no word \"BSO\"", "did you mean 'BOS'?"});
}

}  // namespace
}  // namespace polyhead::cli
