#include "text/model.h"

namespace polyhead::text {
namespace {

// Every piece is a token.
class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unknown)
      : Model(std::move(vocabulary)), unknown_(this->vocabulary().find(unknown)) {}

  std::vector<Span> tokenize(const Chars& piece) const override {
    const std::optional<Id> found = vocabulary().find(utf8_of(piece));
    if (!found && !unknown_) refuse_unknown(piece);
    return {{found ? *found : *unknown_, 0, piece.size()}};
  }

 private:
  std::optional<Id> unknown_;
};

}  // namespace

std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, const std::string& unknown) {
  return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
}

}  // namespace polyhead::text
