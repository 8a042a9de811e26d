// All that commands print, line for line, beside the files that hold it: help, what is counted and inspected, and
// complaints. Where it depends on how a processor rounds, numbers are left out: other tests have them.
#include "support/kept.h"

#include <gtest/gtest.h>

#include <regex>

#include "cli/foreign.h"

namespace polyhead::cli {
namespace kept {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/cli" / name;
}

// The lines as one types them in a folder, with what they print; `errors`: what they complain of as well.
std::string printed(const std::filesystem::path& folder, const std::vector<std::string>& lines, bool errors = false) {
  std::string text;
  for (const std::string& line : lines) {
    const Ran ran = shell("cd '" + folder.string() + "' && " + command(line) + (errors ? " 2>&1" : " 2>/dev/null"));
    text += "$ polyhead " + line + "\n" + ran.text;
    text += (ran.code == 0 ? "" : "(" + std::to_string(ran.code) + ")\n") + "\n";
  }
  return text;
}

// Nor units and blanks, which depend on them.
std::string without_numbers(std::string text) {
  text = std::regex_replace(text, std::regex(R"([-+]?[0-9]+(,[0-9]{3})*(\.[0-9]+)?(e[-+]?[0-9]+)?)"), "#");
  text = std::regex_replace(text, std::regex("# [munkMG]?s\\b"), "# s");
  return std::regex_replace(text, std::regex(" {2,}"), "  ");
}

const std::filesystem::path kModels = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models";

const std::vector<std::string> kCommands{"study", "train", "generate", "score",   "embed",    "heads",   "serve",
                                         "view",  "prune", "patch",    "compare", "get",      "inspect", "count",
                                         "plan",  "trace", "bench",    "info",    "replicate"};

TEST(KeptOutput, Help) {
  std::vector<std::string> lines{"--help"};
  for (const std::string& name : kCommands) {
    lines.push_back(name + " --help");
  }
  expect_kept(fixture("help.txt"), printed(".", lines));
}

TEST(KeptOutput, Counts) {
  std::vector<std::string> lines{"count", "count --format json", "count --format csv"};
  for (const char* name : {"layer-512x4", "transformer-base", "gpt2", "gpt3", "llama-7b"}) {
    lines.push_back(std::string("count ") + name);
  }
  lines.insert(lines.end(),
               {"count gpt2 --format json", "count gpt2 --format csv", "count gpt2 --heads 6 --tokens 10"});
  expect_kept(fixture("count.txt"), printed(".", lines));
}

TEST(KeptOutput, WhatFilesHold) {
  expect_kept(fixture("inspect.txt"), printed(kModels, {"inspect llama", "inspect bert --format json",
                                                        "inspect gpt2/model.safetensors --format csv",
                                                        "inspect ../gguf/types.gguf", "inspect gpt2/tokens.npy"}));
}

TEST(KeptOutput, Complaints) {
  expect_kept(fixture("complaints.txt"), printed(kModels,
                                                 {"nonsense",
                                                  "trian",
                                                  "count gtp2",
                                                  "count --formt json",
                                                  "count --format xml",
                                                  "count a b",
                                                  "plan",
                                                  "plan gtp2",
                                                  "plan transformer-base",
                                                  "plan layer-512x8",
                                                  "plan bert --gflops 9",
                                                  "plan gpt2 --tokens 2000",
                                                  "plan gpt2 --batch 4 --parts 8",
                                                  "train",
                                                  "train copi",
                                                  "train copy --steps 0",
                                                  "train copy --rate nine",
                                                  "train copy --heads",
                                                  "train copy --width 10 --heads 3",
                                                  "heads nowhere",
                                                  "heads llama",
                                                  "prune",
                                                  "generate nowhere",
                                                  "generate llama --prompt a",
                                                  "score llama",
                                                  "score bert --text config.json",
                                                  "embed bert --text config.json",
                                                  "embed llama --text llama/config.json --out x.npy",
                                                  "inspect",
                                                  "inspect nowhere",
                                                  "patch llama",
                                                  "compare llama",
                                                  "trace --heads 3",
                                                  "trace --example nothing",
                                                  "bench --op nothing",
                                                  "view nowhere",
                                                  "serve nowhere",
                                                  "study --threads -1",
                                                  "study --force --resume"},
                                                 true));
}

// What is said of a word where a number belongs, by every option that takes one.
TEST(KeptOutput, RangesOfNumbers) {
  std::string text;
  for (const std::string& name : kCommands) {
    for (const std::string& line : lines_of(output_of(name + " --help").text)) {
      std::smatch found;
      if (!std::regex_search(line, found, std::regex("^  (--[a-z-]+) [NX] "))) continue;
      const Ran ran = errors_of(name + " " + found.str(1) + " word");
      EXPECT_EQ(ran.code, 2) << line;
      text += lines_of(ran.text).front() + "\n";
    }
  }
  expect_kept(fixture("ranges.txt"), text);
}

TEST(KeptOutput, Steps) {
  expect_kept(
      fixture("trace.txt"),
      without_numbers(printed(".", {"trace", "trace --batch 1 --tokens 3 --width 4 --heads 2 --causal",
                                    "trace --tokens 2 --width 4 --heads 1 --format csv",
                                    "trace --tokens 2 --width 4 --heads 1 --format json", "trace --example crews"})));
}

class KeptForeign : public Foreign {};

TEST_F(KeptForeign, Heads) {
  std::string text;
  for (unsigned n = 0; n < 400; ++n) text += static_cast<char>('a' + n * n / 7 % 16);
  io::spill(scratch_ / "text", text);
  std::filesystem::copy(scratch_.folder(), scratch_ / "other", std::filesystem::copy_options::none);
  const std::string on_text = " . --length 8 --text text", two = " . --clean abcd --corrupted abce";
  expect_kept(fixture("foreign.txt"),
              without_numbers(printed(
                  scratch_.folder(),
                  {"heads" + on_text, "heads" + on_text + " --damage --format json",
                   "heads" + on_text + " --damage --format csv", "heads" + on_text + " --damage --sort damage --top 3",
                   "prune" + on_text + " --out small --budget 100", "patch" + two,
                   "patch" + two + " --format csv --top 2", "patch" + two + " --format json", "inspect small",
                   "compare . other --text text --length 8", "generate . --prompt abc --tokens 4 --temperature 0",
                   "view . --prompt abc --out page.html", "bench --op attention --shape 1,1,8,8 --format csv"})));
}

}  // namespace kept
}  // namespace polyhead::cli
