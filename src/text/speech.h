// All that a model's files say about its text: the tokenizer, and the tokens that end a text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace polyhead::text {

// What a public Tokenizer shares with its copies.
struct Speech {
  Tokenizer tokenizer;
  std::vector<Id> ends;
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
