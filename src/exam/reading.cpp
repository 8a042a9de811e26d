#include "exam/reading.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "io/file.h"
#include "model/family.h"
#include "polyhead/error.h"
#include "train/plan.h"

namespace polyhead::exam {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

// Marks, with or without blanks around them.
bool is_mark(std::string_view text) {
  constexpr std::array<std::string_view, 9> kMarks = {".", ",", ";", ":", "!", "?", "\n", "\n\n", "..."};
  const std::size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return false;
  const std::string_view mark = text.substr(first, text.find_last_not_of(' ') - first + 1);
  return std::find(kMarks.begin(), kMarks.end(), mark) != kMarks.end();
}

}  // namespace

std::vector<std::int32_t> Reading::special() const {
  std::vector<std::int32_t> all = beginning;
  all.insert(all.end(), ending.begin(), ending.end());
  all.insert(all.end(), marks.begin(), marks.end());
  return all;
}

std::vector<std::int32_t> marks_of(const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> marks;
  for (text::Id id = 0; id < tokenizer.size(); ++id) {
    if (is_mark(tokenizer.decode(std::array{id}))) marks.push_back(id);
  }
  return marks;
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
  reading.marks = marks_of(tokenizer);
  return reading;
}

}  // namespace polyhead::exam
