// polyhead generate on models of others.
#include <gtest/gtest.h>

#include "cli/foreign.h"

namespace polyhead::cli {
namespace {

using io::spill;

class GenerateForeign : public Foreign {
 protected:
  std::string said(const std::string& more) const { return output_of(line(more)).text; }
  std::string line(const std::string& more) const { return "generate " + scratch_.folder() + " " + more; }
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
  spill(scratch_ / "generation_config.json", R"({"eos_token_id": [16]})");
  EXPECT_EQ(said("--prompt cab --tokens 4 --temperature 0"), four) << "this file comes first";
}

TEST_F(GenerateForeign, DrawsAHundredTokensAtATemperatureUnlessToldOtherwise) {
  set_config("eos_token_id", 99);  // which is never drawn
  const std::string usual = said("--prompt cab --seed 3");
  EXPECT_EQ(usual, said("--prompt cab --seed 3 --tokens 100 --temperature 0.8"));
  for (const char* other : {"--tokens 99", "--temperature 0.4", "--temperature 1.6"}) {
    EXPECT_NE(usual, said(std::string("--prompt cab --seed 3 ") + other)) << other;
  }
}

// Letters are tokens, so a text of two is found across them; what only begins like it is printed all the same.
TEST_F(GenerateForeign, StopsBeforeATextThatItIsGiven) {
  set_config("eos_token_id", 16);
  const std::string line = "--prompt cab --tokens 6 --temperature 0", six = said(line);
  ASSERT_EQ(six.size(), 10u) << six;
  const std::string third = six.substr(5, 1), pair = six.substr(4, 2);
  EXPECT_EQ(said(line + " --stop " + third), six.substr(0, six.find(third, 3)) + "\n");
  EXPECT_EQ(said(line + " --stop zz --stop " + pair), six.substr(0, six.find(pair, 3)) + "\n");
  EXPECT_EQ(said(line + " --stop " + six.substr(8, 1) + "z"), six) << "it began, and did not come";
  EXPECT_EQ(said(line + " --stop cab"), six) << "the prompt is not what the model says";
  EXPECT_EQ(output_of(GenerateForeign::line("--prompt a --stop ''")).code, 2);
}

TEST_F(GenerateForeign, SaysWhatOfAPromptIsNotRead) {
  const std::string last = "ponmlkjihgfed";  // the context
  const Ran ran = errors_of(line("--temperature 0 --tokens 2 --prompt abc" + last));
  EXPECT_TRUE(contains(ran.text, "16 tokens and the model has room for 13")) << ran.text;
  EXPECT_EQ(said("--temperature 0 --tokens 2 --prompt abc" + last),
            "abc" + said("--temperature 0 --tokens 2 --prompt " + last));
  EXPECT_EQ(errors_of(line("--temperature 0 --tokens 2 --prompt " + last)).text, "");
}

// A folder with nothing but a GGUF file is that file.
TEST_F(GenerateForeign, FromAFolderThatHoldsAGgufFile) {
  const io::Scratch scratch;
  std::filesystem::copy_file(llama_fixture() / "llama.gguf", scratch / "any.gguf");
  const std::string how = " --temperature 0 --tokens 4 --prompt cab";
  const Ran found = output_of("generate " + scratch.folder() + how);
  EXPECT_EQ(found.code, 0);
  EXPECT_EQ(found.text, output_of("generate " + (llama_fixture() / "llama.gguf").string() + how).text);
}

// The prompt in the template's form, and the answer alone. Letters are tokens here, and marks are added to them.
TEST_F(GenerateForeign, Answers) {
  set_config("eos_token_id", 99);
  EXPECT_EQ(errors_of(line("--chat --prompt cab")).code, 3) << "no template";
  spill(scratch_ / "tokenizer_config.json", R"({"bos_token":"","eos_token":"a","chat_template":"'[INST]' '[/INST]'"})");
  std::string marked = kTokenizer;
  marked.replace(marked.find("\"model\""), 0,
                 R"("added_tokens":[{"id":14,"content":"[INST]"},{"id":15,"content":"[/INST]"}],)");
  marked.replace(marked.find(",\"o\":14,\"p\":15"), 14, "");
  spill(scratch_ / "tokenizer.json", marked);
  const std::string how = " --tokens 4 --temperature 0", asked = said("--prompt '[INST]cab[/INST]'" + how);
  ASSERT_EQ(asked.substr(0, 16), "[INST]cab[/INST]");
  EXPECT_EQ(said("--chat --prompt cab" + how),
            asked.substr(16, asked.find('a', 16) - 16) + (asked.find('a', 16) == asked.npos ? "" : "\n"));
  EXPECT_EQ(output_of(line("--chat")).code, 2);
  spill(scratch_ / "tokenizer_config.json", R"({"chat_template":"<|other|>"})");
  const Ran ran = errors_of(line("--chat --prompt cab"));
  EXPECT_EQ(ran.code, 3);
  EXPECT_TRUE(contains(ran.text, "does not know (the markers in it: <|other|>)")) << ran.text;
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
  EXPECT_EQ(output_of(line("--prompt a")).code, 3);
}

}  // namespace
}  // namespace polyhead::cli
