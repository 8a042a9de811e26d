// All that a model's files say about its text: the tokenizer, the tokens that end a text, and the form of
// conversations.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace polyhead::text {

// What a public Tokenizer shares with its copies.
struct Speech {
  Tokenizer tokenizer;
  std::vector<Id> ends;  // with the one that ends a turn of a conversation, if the form of those is known
  ChatSource chat;
};
Speech load_speech(const std::filesystem::path& model);

// The same as files, to be written beside weights that are saved elsewhere. Refuses (input) a model without a
// tokenizer.
struct SpeechFile {
  std::string name, content;
};
std::vector<SpeechFile> speech_files(const std::filesystem::path& model);
// Into an existing folder, in place of those that it has.
void save_speech(const std::vector<SpeechFile>& files, const std::filesystem::path& folder);
void remove_speech(const std::filesystem::path& folder);

inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kChatTemplate = "chat_template.jinja";

}  // namespace polyhead::text
