#include "text/speech.h"

#include "io/file.h"
#include "io/gguf.h"
#include "io/weights.h"
#include "polyhead/error.h"

namespace polyhead::text {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostBytes = 256 << 20;

}  // namespace

Speech load_speech(const fs::path& model) {
  const std::set<Id> ends = end_tokens(model);
  return {load_tokenizer(model), {ends.begin(), ends.end()}};
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
