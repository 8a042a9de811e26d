// Conversations in every form, and templates of other forms. tests/parity/chat_parity.py runs templates in Jinja beside
// them.
#include "text/chat.h"

#include <gtest/gtest.h>

#include "polyhead/error.h"
#include "text/fixtures.h"
#include "text/speech.h"

namespace polyhead::text {
namespace {

const std::vector<Message> kTalk = {{"user", " Hi\n"}, {"assistant", "Yes?"}, {"user", "Why?"}};

std::vector<Message> with_system(std::vector<Message> messages) {
  messages.insert(messages.begin(), {"system", "Be brief."});
  return messages;
}

std::string said(const std::string& program, const std::vector<Message>& messages = kTalk, bool answer = true) {
  return recognise({.program = program, .bos = "<s>", .eos = "</s>"})->apply(messages, answer);
}

template <class Call>
void expect_error(ErrorCode code, const std::string& words, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one that says " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

const std::string kChatMl = R"({% for m in messages %}{{'<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n'}})";

TEST(Chat, ChatMl) {
  const std::string talk =
      "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
      "<|im_start|>user\nWhy?<|im_end|>\n";
  EXPECT_EQ(said(kChatMl), talk + "<|im_start|>assistant\n");
  EXPECT_EQ(said(kChatMl, kTalk, false), talk);
  const std::string system = "<|im_start|>system\nBe brief.<|im_end|>\n";
  EXPECT_EQ(said(kChatMl, with_system(kTalk), false), system + talk);
  // A system message of its own, unless there is one; what comes after add_generation_prompt begins an answer.
  const std::string own = R"({{ '<|im_start|>system\nBe\tbrief.<|im_end|>\n' }})" + kChatMl +
                          R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %})";
  EXPECT_EQ(said(own), "<|im_start|>system\nBe\tbrief.<|im_end|>\n" + talk + "<|im_start|>assistant\n<think>\n");
  EXPECT_EQ(said(own, with_system(kTalk), false), system + talk);
}

// Only what was said stays of earlier answers.
TEST(Chat, ThoughtsAreForgotten) {
  const std::string program = kChatMl + "{% set content = content.split('</think>')[-1] %} last_query_index";
  const Message thought = {"assistant", "<think>\nHm.\n</think>\n\nYes?"};
  EXPECT_EQ(
      said(program, {{"user", "Hi"}, thought, {"user", "Why?"}}, false),
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n");
  EXPECT_EQ(said(program, {{"user", "Hi"}, thought}, false),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\nYes?<|im_end|>\n");
}

TEST(Chat, Llama3) {
  const std::string program =
      R"({{ bos_token }}{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' + content | trim + '<|eot_id|>' }})";
  const std::string user = "<|start_header_id|>user<|end_header_id|>\n\n",
                    assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  const std::string talk = user + "Hi<|eot_id|>" + assistant + "Yes?<|eot_id|>" + user + "Why?<|eot_id|>" + assistant;
  EXPECT_EQ(said(program), "<s>" + talk);
  const std::string dated =
      program + R"({%- set date_string = "26 Jul 2024" %}{{- "Cutting Knowledge Date: May 2023\n" }})";
  const std::string system =
      "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: May 2023\nToday "
      "Date: 26 Jul 2024\n\n";
  EXPECT_EQ(said(dated), "<s>" + system + "<|eot_id|>" + talk);
  EXPECT_EQ(said(dated, with_system(kTalk)), "<s>" + system + "Be brief.<|eot_id|>" + talk);
}

TEST(Chat, Gemma) {
  const std::string talk =
      "Hi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n<start_of_turn>user\n"
      "Why?<end_of_turn>\n<start_of_turn>model\n";
  const std::string second = "{{ bos_token }}<start_of_turn>", third = second + "first_user_prefix";
  EXPECT_EQ(said(second), "<s><start_of_turn>user\n" + talk);
  EXPECT_EQ(said(third, with_system(kTalk)), "<s><start_of_turn>user\nBe brief.\n\n" + talk);
  expect_error(ErrorCode::value, "takes no system message", [&] { said(second, with_system(kTalk)); });
  expect_error(ErrorCode::value, "message 1: expected the role assistant", [&] {
    said(second, {{"user", "a"}, {"user", "b"}});
  });
}

TEST(Chat, Instructions) {
  EXPECT_EQ(said("bos_token '[INST] ' ' [/INST]' '<<SYS>>'", with_system(kTalk)),
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yes? </s><s>[INST] Why? [/INST]");
  EXPECT_EQ(said("bos_token '[INST] ' ' [/INST]'"), "<s>[INST]  Hi\n [/INST]Yes?</s>[INST] Why? [/INST]");
  EXPECT_EQ(said("bos_token '[INST]' '[/INST]' ' ' + message"), "<s>[INST] Hi\n[/INST] Yes?</s>[INST]Why?[/INST]");
  EXPECT_EQ(said("bos_token '[INST]' '[/INST]' loop.last and system_message", with_system(kTalk)),
            "<s>[INST] Hi\n[/INST]Yes?</s>[INST]Be brief.\n\nWhy?[/INST]");
  expect_error(ErrorCode::value, "system message", [&] { said("'[INST]' '[/INST]'", with_system(kTalk)); });
}

TEST(Chat, Zephyr) {
  EXPECT_EQ(said("{{ '<|user|>' + eos_token }}\n{{ '<|assistant|>' }}\n"),
            "<|user|>\n Hi\n</s>\n<|assistant|>\nYes?</s>\n<|user|>\nWhy?</s>\n<|assistant|>\n");
}

TEST(Chat, DeepSeek) {
  EXPECT_EQ(said("{{bos_token}}{{'<｜User｜>'}}{{'<｜Assistant｜>'}}", with_system(kTalk)),
            "<s>Be brief.<｜User｜> Hi\n<｜Assistant｜>Yes?<｜end▁of▁sentence｜><｜User｜>Why?<｜Assistant｜>");
}

TEST(Chat, OtherFormsAreRefusedByTheirMarks) {
  for (const char* program : {"<|im_start|> <|im_sep|> <|im_end|>\n", "<|im_start|>'<|im_end|>'", "<|start|>",
                              "<|user|> <|assistant|> <|end|>\n", "'<|user|>' '<|assistant|>'",
                              "USER: ASSISTANT:", "[SYSTEM_PROMPT] [INST]"}) {
    SCOPED_TRACE(program);
    expect_error(ErrorCode::input, "does not know (the markers in it: ", [&] { said(program); });
  }
  expect_error(ErrorCode::input, "<|im_end|> <|im_sep|> <|im_start|>",
               [&] { said("<|im_start|> <|im_sep|> <|im_end|>\n"); });
  expect_error(ErrorCode::input, "no chat template", [&] { said(""); });
  expect_error(ErrorCode::value, "\"tool\"; polyhead has no messages from tools", [&] {
    said(kChatMl, {{"tool", "4"}});
  });
  expect_error(ErrorCode::value, "at least one message", [&] { said(kChatMl, {}); });
}

// In tokenizer_config.json, with others or not, or in a file of its own, which goes first.
TEST(Chat, WhereATemplateIs) {
  io::Scratch scratch;
  io::spill(scratch / "tokenizer.json", R"({"added_tokens":[{"id":1,"content":"<|im_end|>","special":true}],
    "model":{"type":"WordLevel","vocab":{"a":0}}})");
  EXPECT_TRUE(load_speech(scratch.folder()).chat.program.empty());
  io::Json config = {{"bos_token", "<b>"}, {"eos_token", {{"content", "<e>"}}}, {"chat_template", kChatMl}};
  io::spill(scratch / "tokenizer_config.json", config.dump());
  const Speech plain = load_speech(scratch.folder());
  EXPECT_EQ(plain.chat.program, kChatMl);
  EXPECT_EQ(plain.chat.bos, "<b>");
  EXPECT_EQ(plain.chat.eos, "<e>");
  EXPECT_EQ(plain.ends, std::vector<Id>{1}) << "what ends a turn ends an answer";
  config["chat_template"] = {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", "y"}}};
  io::spill(scratch / "tokenizer_config.json", config.dump());
  EXPECT_EQ(load_speech(scratch.folder()).chat.program, "y");
  io::spill(scratch / "chat_template.jinja", "z");
  EXPECT_EQ(load_speech(scratch.folder()).chat.program, "z");
  io::Scratch other;
  save_speech(speech_files(scratch.folder()), other.folder());
  EXPECT_EQ(load_speech(other.folder()).chat.program, "z");
  EXPECT_EQ(load_speech(other.folder()).chat.eos, "<e>");
}

}  // namespace
}  // namespace polyhead::text
