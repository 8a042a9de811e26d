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

std::vector<std::int32_t> Reading::special() const {
  std::vector<std::int32_t> all = beginning;
  all.insert(all.end(), ending.begin(), ending.end());
  all.insert(all.end(), marks.begin(), marks.end());
  return all;
}

bool reads_text(const std::filesystem::path& model) {
  if (!model::is_own(model)) return true;
  const auto has = [&](const char* name) { return io::is_there(model / name); };
  return io::is_folder(model) && (has(text::kTokenizerFile) || has(text::kTokenizerGguf)) && !has(train::kPlanFile);
}

Reading read_text(const std::filesystem::path& model, const std::filesystem::path& text, const model::Config& config) {
  const text::Tokenizer tokenizer = text::load_tokenizer(model);
  text::expect_fits(tokenizer, config.vocabulary, model);
  const std::string content = io::read_file(text, kMostBytes);
  Reading reading{.tokens = {},
                  .beginning = {},
                  .ending = {},
                  .marks = {},
                  .vocabulary = config.vocabulary,
                  .bytes = std::ssize(content)};
  for (const text::Token& token : tokenizer.encode(content, false)) {
    reading.tokens.push_back(token.id);
  }
  reading.beginning = tokenizer.beginning();
  if (config.kind == model::Kind::encoder) reading.ending = tokenizer.ending();
  reading.marks = text::marks_of(tokenizer);
  return reading;
}

}  // namespace polyhead::exam
