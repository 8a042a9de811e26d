#include "text/speech.h"

#include "io/file.h"
#include "io/gguf.h"
#include "io/weights.h"
#include "polyhead/error.h"
#include "text/fields.h"

namespace polyhead::text {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostBytes = 256 << 20;

std::string text_or_empty(const Tokenizer& tokenizer, Id id) {
  const std::string* text = tokenizer.text_of(id);
  return text == nullptr ? "" : *text;
}

ChatSource chat_in_gguf(const io::Json& metadata, const Tokenizer& tokenizer) {
  const auto text_at = [&](const char* key) {
    const io::Json& id = field(metadata, key);
    return id.is_number_integer() && id >= 0 && id < tokenizer.size() ? text_or_empty(tokenizer, id.get<Id>()) : "";
  };
  const io::Json& program = field(metadata, "tokenizer.chat_template");
  return {.program = program.is_string() ? program.get<std::string>() : "",
          .bos = text_at("tokenizer.ggml.bos_token_id"),
          .eos = text_at("tokenizer.ggml.eos_token_id")};
}

// Several templates are listed with their names.
std::string program_in(const io::Json& found) {
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  for (const io::Json& each : found) {
    if (field(each, "name") == "default" && field(each, "template").is_string()) return each["template"];
  }
  return "";
}

ChatSource chat_in_folder(const fs::path& folder) {
  ChatSource chat;
  if (io::is_there(folder / kTokenizerConfig)) {
    const std::string where = (folder / kTokenizerConfig).string();
    const io::Json config = io::parse_json(io::read_file(where, kMostBytes), where);
    const auto token = [&](const char* key) {  // a text, or an object with more about it
      const io::Json &found = field(config, key), &text = found.is_object() ? field(found, "content") : found;
      return text.is_string() ? text.get<std::string>() : "";
    };
    chat = {
        .program = program_in(field(config, "chat_template")), .bos = token("bos_token"), .eos = token("eos_token")};
  }
  if (io::is_there(folder / kChatTemplate)) chat.program = io::read_file(folder / kChatTemplate, kMostBytes);
  return chat;
}

}  // namespace

Speech load_speech(const fs::path& model) {
  Tokenizer tokenizer = load_tokenizer(model);
  std::set<Id> ends = end_tokens(model);
  const fs::path file = tokenizer_file(model);
  ChatSource chat = file.extension() == ".gguf" ? chat_in_gguf(io::read_gguf_header(file).metadata, tokenizer)
                                                : chat_in_folder(file.parent_path());
  chat.where = model.string();
  if (chat.bos.empty() && !tokenizer.beginning().empty()) chat.bos = *tokenizer.text_of(tokenizer.beginning()[0]);
  if (chat.eos.empty() && !ends.empty()) chat.eos = text_or_empty(tokenizer, *ends.begin());
  if (const std::unique_ptr<ChatForm> form = find_form(chat)) {
    for (const AddedToken& token : tokenizer.added()) {
      if (token.text == form->end_of_turn()) ends.insert(token.id);
    }
  }
  return {std::move(tokenizer), {ends.begin(), ends.end()}, std::move(chat)};
}

std::vector<SpeechFile> speech_files(const fs::path& model) {
  const fs::path from = io::model_of(model);
  io::Json ends;
  ends["eos_token_id"] = end_tokens(from);
  std::vector<SpeechFile> files = {{kGenerationFile, ends.dump(2) + "\n"}};
  if (from.extension() == ".gguf") {
    files.push_back({kTokenizerGguf, io::gguf_metadata_alone(from)});
    return files;
  }
  const fs::path tokenizer = tokenizer_file(from);
  files.push_back({tokenizer.filename(), io::read_file(tokenizer, kMostBytes)});
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (io::is_there(from / name)) files.push_back({name, io::read_file(from / name, kMostBytes)});
  }
  return files;
}

void save_speech(const std::vector<SpeechFile>& files, const fs::path& folder) {
  remove_speech(folder);
  for (const SpeechFile& file : files) {
    io::write_atomically(folder / file.name, [&](io::Writer& writer) { writer.write(file.content); });
  }
}

void remove_speech(const fs::path& folder) {
  for (const char* name : {kTokenizerFile, kTokenizerGguf, kTokenizerConfig, kChatTemplate, kGenerationFile}) {
    std::error_code error;
    fs::remove(folder / name, error);
    if (error) throw Error(ErrorCode::io, "save", (folder / name).string() + ": cannot remove it: " + error.message());
  }
}

}  // namespace polyhead::text
