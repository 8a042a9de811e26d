// The man page and the completion say what help says, and the real programs read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

const std::vector<std::string> kCommands{"study", "train", "generate",   "score",   "embed",    "heads", "serve",
                                         "view",  "prune", "patch",      "compare", "inspect",  "count", "trace",
                                         "bench", "info",  "completion", "man",     "replicate"};

// The options that a help text lists.
std::vector<std::string> options_of(const std::string& name) {
  std::vector<std::string> options;
  bool listing = false;
  for (const std::string& line : lines_of(output_of(name + " --help").text)) {
    listing |= line == "Options:";
    if (listing && line.starts_with("  --")) options.push_back(line.substr(2, line.find_first_of(" ,", 2) - 2));
  }
  return options;
}

// What real bash offers for the words, the last of which is being typed.
std::vector<std::string> completed(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += "'" + word + "' ";
  const std::string script = "source <(" + command("completion bash") + "); COMP_WORDS=(" + list +
                             "); COMP_CWORD=" + std::to_string(words.size() - 1) +
                             "; _polyhead; printf \"%s\\n\" \"${COMPREPLY[@]}\"";
  std::string quoted;
  for (const char letter : script) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return lines_of(shell("bash --norc -c '" + quoted + "'").text);
}

bool offers(const std::vector<std::string>& words, const std::string& word) {
  const auto offered = completed(words);
  return std::find(offered.begin(), offered.end(), word) != offered.end();
}

TEST(Completion, IsBash) { EXPECT_EQ(shell(command("completion bash") + " | bash -n").code, 0); }

TEST(Completion, CompletesCommandsOptionsAndValues) {
  for (const std::string& name : kCommands) EXPECT_TRUE(offers({"polyhead", ""}, name)) << name;
  EXPECT_EQ(completed({"polyhead", "trac"}), std::vector<std::string>{"trace"});
  EXPECT_EQ(completed({"polyhead", "count", "gpt2-m"}), std::vector<std::string>{"gpt2-medium"});
  EXPECT_EQ(completed({"polyhead", "count", "--format", "j"}), std::vector<std::string>{"json"});
  EXPECT_EQ(completed({"polyhead", "bench", "--statistics", "l"}), std::vector<std::string>{"light"});
  EXPECT_EQ(completed({"polyhead", "count", "--heads", ""}), std::vector<std::string>{""}) << "any number will do";
  EXPECT_TRUE(offers({"polyhead", "count", "gpt2", "--no"}, "--no-bias"));
  for (const std::string& name : kCommands) {
    for (const std::string& option : options_of(name)) EXPECT_TRUE(offers({"polyhead", name, "-"}, option)) << option;
  }
}

TEST(Completion, CompletesPaths) {
  const io::Scratch scratch;
  std::filesystem::create_directory(scratch / "my run");
  io::spill(scratch / "my book.txt", "");
  const std::string folder = (scratch / "my run").string(), file = (scratch / "my book.txt").string();
  const std::string begin = (scratch / "my").string();
  using Words = std::vector<std::string>;
  const auto expect_both = [&](Words words) {
    words.push_back(begin);
    const Words found = completed(words);
    EXPECT_EQ((std::set<std::string>(found.begin(), found.end())), (std::set<std::string>{folder, file})) << words[1];
  };
  // A model is a folder or a file.
  for (const std::string name : {"heads", "generate", "score", "embed", "prune", "patch", "compare"}) {
    expect_both({"polyhead", name});
    EXPECT_TRUE(offers({"polyhead", name, "--thr"}, "--threads")) << name;
  }
  expect_both({"polyhead", "inspect"});
  expect_both({"polyhead", "compare", folder});
  expect_both({"polyhead", "train", "--file"});
  EXPECT_EQ(completed({"polyhead", "train", "--out", begin}), Words{folder});
}

TEST(Man, HasEveryCommandAndOption) {
  const std::string page = output_of("man").text;
  EXPECT_TRUE(page.starts_with(".TH POLYHEAD 1"));
  for (const std::string& name : kCommands) {
    EXPECT_TRUE(contains(page, ".SS polyhead " + name + "\n")) << name;
    for (const std::string& option : options_of(name)) {
      if (option == "--help") continue;
      std::string dashed;
      for (const char letter : option) dashed += letter == '-' ? "\\-" : std::string(1, letter);
      EXPECT_TRUE(contains(page, ".B " + dashed)) << name << ' ' << option;
    }
  }
}

TEST(Man, IsCleanRoff) {
  const Ran ran = shell(command("man") + " | groff -man -ww -Tutf8 2>&1 >/dev/null");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.text, "");
}

TEST(Help, ListsTheCommandsAndNamesTheQuietOnes) {
  const std::string help = output_of("").text;
  for (const std::string& name : kCommands) EXPECT_TRUE(contains(help, name)) << name;
}

}  // namespace
}  // namespace polyhead::cli
