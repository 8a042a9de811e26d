#include "model/tokenizer_of.h"

#include "io/file.h"
#include "io/weights.h"
#include "text/speech.h"

namespace polyhead::model {

const Tokenizer& TokenizerOf::get() {
  const std::lock_guard lock(reading_);
  if (!tokenizer_) {
    Tokenizer loaded = Tokenizer::load(model_);
    text::expect_fits(loaded.speech().tokenizer, vocabulary_, model_);
    tokenizer_ = std::move(loaded);
  }
  return *tokenizer_;
}

void TokenizerOf::save(const std::filesystem::path& folder) const {
  if (text::has_tokenizer(model_)) text::save_speech(text::speech_files(model_), folder);
}

}  // namespace polyhead::model
