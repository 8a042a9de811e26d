#include "exam/reading.h"

#include "io/file.h"
#include "model/family.h"
#include "polyhead/error.h"
#include "text/marks.h"
#include "train/plan.h"

namespace polyhead::exam {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

}  // namespace

bool reads_text(const std::filesystem::path& model) {
  if (!model::is_own(model)) return true;
  const auto has = [&](const char* name) { return io::is_there(model / name); };
  return io::is_folder(model) && (has(text::kTokenizerFile) || has(text::kTokenizerGguf)) && !has(train::kPlanFile);
}

Encoded encode_text(const std::filesystem::path& model, const std::filesystem::path& text) {
  Encoded encoded{text::load_tokenizer(model), {}, 0};
  const std::string content = io::read_file(text, kMostBytes);
  encoded.bytes = std::ssize(content);
  for (const text::Token& token : encoded.tokenizer.encode(content, false)) encoded.tokens.push_back(token.id);
  return encoded;
}

Reading reading_of(Encoded encoded, const std::filesystem::path& model, const model::Config& config) {
  const text::Tokenizer& tokenizer = encoded.tokenizer;
  text::expect_fits(tokenizer, config.vocabulary, model);
  Reading reading{.tokens = std::move(encoded.tokens),
                  .beginning = tokenizer.beginning(),
                  .ending = {},
                  .special = text::special_of(tokenizer),
                  .marks = {},
                  .vocabulary = config.vocabulary,
                  .bytes = encoded.bytes};
  if (config.kind == model::Kind::encoder) reading.ending = tokenizer.ending();
  reading.marks = text::marks_of(tokenizer);
  reading.tokenizer = std::make_shared<text::Tokenizer>(std::move(encoded.tokenizer));
  return reading;
}

Reading read_text(const std::filesystem::path& model, const std::filesystem::path& text, const model::Config& config) {
  return reading_of(encode_text(model, text), model, config);
}

}  // namespace polyhead::exam
