// What commands print fits the terminal, and says what did not; into a pipe it is complete.
#include <gtest/gtest.h>

#include <regex>

#include "cli/foreign.h"
#include "cli/terminal.h"

namespace polyhead::cli {
namespace {

const std::string kModels = std::string(POLYHEAD_ROOT) + "/tests/fixtures/models/";

// Columns that a line takes: bytes that continue a character take none.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(
      line.begin(), line.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : lines_of(text)) most = std::max(most, width_of(line));
  return most;
}

void expect_fits(const std::string& line, const std::string& here = "") {
  for (const int columns : {80, 60}) {
    const Ran ran = on_terminal(here + command(line), static_cast<unsigned short>(columns));
    EXPECT_EQ(ran.code, 0) << line;
    EXPECT_LE(widest(ran.text), static_cast<std::size_t>(columns)) << line << '\n' << ran.text;
    EXPECT_FALSE(ran.text.empty()) << line;
  }
}

std::vector<std::string> names_of_commands() {
  std::vector<std::string> names;
  const std::string page = output_of("man").text;
  const std::regex section("\\.SS polyhead ([a-z]+)\n");
  for (std::sregex_iterator at(page.begin(), page.end(), section), end; at != end; ++at) names.push_back(at->str(1));
  return names;
}

TEST(Width, HelpFitsTheTerminal) {
  expect_fits("--help");
  ASSERT_GT(names_of_commands().size(), 18u);
  for (const std::string& name : names_of_commands()) expect_fits(name + " --help");
}

TEST(Width, TablesFitTheTerminal) {
  for (const std::string line : {"count", "count gpt3", "count gpt2 llama-7b", "count transformer-base", "trace",
                                 "trace --example crews", "trace --batch 1 --tokens 12 --width 16 --heads 2", "info",
                                 "bench --shape 1,2,16,16", "get", "plan gpt2 --ranks 4 --gflops 1 --gigabytes 1"}) {
    expect_fits(line, "POLYHEAD_CACHE=/nowhere ");  // with no models there, whose paths are as long as they are
  }
  for (const std::string name : {"llama", "bert", "llama/llama.gguf"}) {
    expect_fits("inspect " + name, "cd " + kModels + " && ");  // a path is as long as it is
  }
}

class WidthForeign : public Foreign {
 protected:
  WidthForeign() {
    std::string text;
    for (unsigned n = 0; n < 400; ++n) text += static_cast<char>('a' + n * n / 7 % 16);
    io::spill(scratch_ / "text", text);
  }
  std::string here() const { return "cd " + scratch_.folder() + " && "; }
};

TEST_F(WidthForeign, TablesAboutHeadsFitTheTerminal) {
  const std::string text = " --text text --length 8";
  for (const std::string& line : std::vector<std::string>{
           "heads ." + text, "heads . --damage --means --all-roles" + text, "prune . --dry-run --compare" + text,
           "patch . --clean abcd --corrupted abce", "compare . ." + text, "score . --text text", "inspect ."}) {
    expect_fits(line, here());
  }
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(kModels + "bert/" + name, scratch_ / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  expect_fits("embed . --text text --out text.npy",
              "printf 'abc\\nfgh\\n' > " + (scratch_ / "text").string() + "; " + here());
}

// A name of two bytes a character is broken between characters, at any width.
TEST_F(WidthForeign, CharactersStayWhole) {
  io::spill(scratch_ / "links.jsonl",
            R"({"text": "abcd", "query": [3, 4], "key": [0, 3], "relation": "подлежащееисказуемоевместе"})");
  const std::string line = here() + command("heads . --all-roles --links links.jsonl --text text --length 8");
  for (int columns = 50; columns < 70; ++columns) {
    const std::string text = on_terminal(line, static_cast<unsigned short>(columns)).text;
    EXPECT_TRUE(contains(text, "под")) << text;
    EXPECT_NO_THROW(nlohmann::json(text).dump()) << columns << "\n" << text;
  }
}

// Each column that is left out is named, and --wide brings it back.
TEST(Width, WhatIsLeftOutIsNamed) {
  const std::string narrow = on_terminal(command("count"), 80).text,
                    wide = on_terminal(command("count --wide"), 80).text;
  EXPECT_TRUE(contains(narrow, "No room for: with biases, d_k, FLOPs (--wide shows all).")) << narrow;
  EXPECT_FALSE(contains(lines_of(narrow)[0], "with biases")) << narrow;
  for (const char* heading : {"d_k", "with biases", "FLOPs"}) EXPECT_TRUE(contains(lines_of(wide)[0], heading)) << wide;
  EXPECT_FALSE(contains(wide, "No room")) << wide;
  EXPECT_EQ(lines_of(wide)[0], lines_of(on_terminal(command("count"), 200).text)[0]);
}

TEST(Width, PipesGetItAllUnlessColumnsIsSet) {
  EXPECT_EQ(output_of("count").text, on_terminal(command("count --wide"), 80).text);
  EXPECT_LE(widest(output_of("heads --help").text), 80u);
  const std::string sixty = shell("COLUMNS=60 " + command("count")).text;
  EXPECT_LE(widest(sixty), 60u) << sixty;
  EXPECT_EQ(sixty, on_terminal(command("count"), 60).text);
  EXPECT_EQ(sixty, shell("COLUMNS=60 " + command("count --format table")).text);
  for (const char* format : {"json", "csv"}) {
    const std::string line = std::string("count --format ") + format;
    EXPECT_EQ(on_terminal(command(line), 60).text, output_of(line).text);
  }
  EXPECT_EQ(shell("COLUMNS=wide " + command("count")).text, output_of("count").text) << "no number";
}

// A terminal that does not know its width, as over some serial lines.
TEST(Width, ATerminalWithoutAWidthHas80Columns) {
  EXPECT_EQ(on_terminal(command("count"), 0).text, on_terminal(command("count"), 80).text);
  EXPECT_EQ(on_terminal("COLUMNS=60 " + command("count"), 0).text, on_terminal(command("count"), 60).text);
  EXPECT_EQ(on_terminal("COLUMNS=60 " + command("count"), 80).text, on_terminal(command("count"), 80).text);
}

// What is broken off at a backslash can be copied: the shell reads the same words.
TEST(Width, BrokenExamplesCanBeTyped) {
  const std::string help = on_terminal(command("train --help"), 60).text;
  EXPECT_TRUE(contains(help, "polyhead train copy --heads 8 --no-feed-forward \\\n      --out copy8\n")) << help;
}

}  // namespace
}  // namespace polyhead::cli
