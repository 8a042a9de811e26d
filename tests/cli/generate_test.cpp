// polyhead generate on models of others: a tiny Llama with a tokenizer of sixteen letters.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::cli {
namespace {

using io::Scratch, io::slurp, io::spill;

constexpr const char* kTokenizer =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,"l":11,"m":12,)"
    R"("n":13,"o":14,"p":15},"merges":[]},"decoder":{"type":"Fuse"}})";

class GenerateForeign : public ::testing::Test {
 protected:
  GenerateForeign() {
    const std::filesystem::path from = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models/llama";
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(from / name, scratch_ / name);
    spill(scratch_ / "tokenizer.json", kTokenizer);
  }
  std::string said(const std::string& more) const { return output_of(line(more)).text; }
  std::string line(const std::string& more) const { return "generate " + scratch_.folder() + " " + more; }
  void set_config(const std::string& key, int value) const {
    auto config = nlohmann::json::parse(slurp(scratch_ / "config.json"));
    config[key] = value;
    spill(scratch_ / "config.json", config.dump());
  }

  Scratch scratch_;
};

TEST_F(GenerateForeign, GoesOnAndStopsAtTheEnd) {
  set_config("eos_token_id", 16);
  const std::string four = said("--prompt cab --tokens 4 --temperature 0");
  EXPECT_EQ(four.substr(0, 3), "cab");
  ASSERT_EQ(four.size(), 8u) << four;  // four letters and a newline; the end token has none
  EXPECT_EQ(said("--prompt cab --tokens 4 --temperature 0"), four);
  EXPECT_EQ(said("--prompt " + four.substr(0, 4) + " --tokens 3 --temperature 0"), four);
  EXPECT_EQ(said("--prompt cab --tokens 4 --seed 3"), said("--prompt cab --tokens 4 --seed 3"));
  set_config("eos_token_id", four[3] - 'a');
  EXPECT_EQ(said("--prompt cab --tokens 4 --temperature 0"), "cab\n");
}

TEST_F(GenerateForeign, WhatDoesNotGoTogether) {
  EXPECT_EQ(output_of(line("")).code, 2);  // no prompt
  std::string larger = kTokenizer;
  larger.replace(larger.find("\"p\":15"), 6, "\"p\":15,\"q\":16,\"r\":17");
  spill(scratch_ / "tokenizer.json", larger);
  const Ran ran = errors_of(line("--prompt a"));
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(contains(ran.text, "at most the model's 17 tokens, found 18")) << ran.text;
  std::filesystem::remove(scratch_ / "tokenizer.json");
  EXPECT_EQ(output_of(line("--prompt a")).code, 4);
}

}  // namespace
}  // namespace polyhead::cli
