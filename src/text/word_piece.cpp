#include <algorithm>

#include "text/model.h"

namespace polyhead::text {
namespace {

// The last character, which may have several bytes.
void drop_last(std::string& text) {
  while ((static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  text.pop_back();
}

class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options, const std::string& where)
      : Model(std::move(vocabulary)),
        options_(std::move(options)),
        unknown_(this->vocabulary().at(options_.unknown, where + ": unk_token")) {
    for (const auto& [token, id] : this->vocabulary().sorted()) longest_token_ = std::max(longest_token_, token.size());
  }

  std::vector<Span> tokenize(const Chars& piece) const override {
    const std::vector<Span> unknown = {{unknown_, 0, piece.size()}};
    if (piece.size() > options_.longest) return unknown;
    std::vector<Span> spans;
    for (std::size_t first = 0; first < piece.size(); first = spans.back().last) {
      std::size_t last = std::min(piece.size(), first + longest_token_);
      std::string text = (first > 0 ? options_.prefix : "") + utf8_of(std::span(piece).subspan(first, last - first));
      std::optional<Id> found = vocabulary().find(text);
      while (!found && --last > first) {
        drop_last(text);
        found = vocabulary().find(text);
      }
      if (!found) return unknown;
      spans.push_back({*found, first, last});
    }
    return spans;
  }

 private:
  WordPieceOptions options_;
  Id unknown_;
  std::size_t longest_token_ = 0;  // in bytes, so at least its length in characters
};

}  // namespace

std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, const WordPieceOptions& options,
                                       const std::string& where) {
  return std::make_unique<WordPiece>(std::move(vocabulary), options, where);
}

}  // namespace polyhead::text
