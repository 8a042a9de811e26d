#include <algorithm>
#include <limits>

#include "text/fields.h"
#include "text/model.h"

namespace polyhead::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least score, as in SentencePiece

class Unigram final : public Model {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options)
      : Model(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
    const auto least = std::min_element(scores_.begin(), scores_.end());
    unknown_score_ = options_.least_score.value_or(least == scores_.end() ? 0 : *least) - kUnknownPenalty;
  }

  std::vector<Span> tokenize(const Chars& piece) const override {
    std::vector<Span> spans;
    for (const Span& part : best_parts(piece)) {
      const std::span<const Char> chars = std::span(piece).subspan(part.first, part.last - part.first);
      if (const auto id = vocabulary().find(utf8_of(chars))) {
        spans.push_back({*id, part.first, part.last});
        continue;
      }
      std::vector<Id> ids = options_.byte_fallback ? byte_tokens(chars) : std::vector<Id>();
      if (ids.empty()) {
        if (!options_.unknown) refuse_unknown(chars);
        ids = {*options_.unknown};
      }
      for (const Id id : ids) spans.push_back({id, part.first, part.last});
    }
    return spans;
  }

 private:
  // The best way to reach a place: its score, where the last token begins, and whether that is unknown.
  struct Step {
    double score = 0;
    std::size_t from = std::numeric_limits<std::size_t>::max();
    bool unknown = false;

    void offer(double candidate, std::size_t start, bool is_unknown) {
      if (from != std::numeric_limits<std::size_t>::max() && candidate <= score) return;
      *this = {candidate, start, is_unknown};
    }
  };

  double sum(double a, double b) const {
    return options_.single ? static_cast<double>(static_cast<float>(a) + static_cast<float>(b)) : a + b;
  }

  // Parts without their tokens; unknown characters in a row are one part.
  std::vector<Span> best_parts(const Chars& piece) const {
    std::vector<Step> steps(piece.size() + 1);
    for (std::size_t at = 0; at < piece.size(); ++at) {
      const double score = steps[at].score;
      bool known = false;
      for_each_token_at(piece, at, [&](std::size_t end, Id id) {
        steps[end].offer(sum(score, scores_[static_cast<std::size_t>(id)]), at, id == options_.unknown);
        known = known || end == at + 1;
      });
      if (!known) steps[at + 1].offer(sum(score, unknown_score_), at, true);
    }
    std::vector<Span> parts;
    bool after_unknown = false;
    for (std::size_t end = piece.size(); end > 0; end = steps[end].from) {
      const Step& step = steps[end];
      if (step.unknown && after_unknown) {
        parts.back().first = step.from;
      } else {
        parts.push_back({0, step.from, end});
      }
      after_unknown = step.unknown;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

  // Tokens that begin at a character, from the shortest on: the range of the sorted vocabulary narrows byte by byte.
  template <class Found>
  void for_each_token_at(const Chars& piece, std::size_t at, const Found& found) const {
    auto begin = vocabulary().sorted().begin(), end = vocabulary().sorted().end();
    std::string text;
    for (std::size_t n = at; n < piece.size(); ++n) {
      std::size_t depth = text.size();
      append_utf8(text, piece[n].code);
      for (; depth < text.size(); ++depth) {
        const auto wanted = static_cast<unsigned char>(text[depth]);
        // Shorter tokens come first, then by this byte.
        const auto byte = [&](const Vocabulary::Entry& entry) {
          return entry.first.size() > depth ? static_cast<int>(static_cast<unsigned char>(entry.first[depth])) : -1;
        };
        begin = std::partition_point(begin, end, [&](const auto& entry) { return byte(entry) < wanted; });
        end = std::partition_point(begin, end, [&](const auto& entry) { return byte(entry) == wanted; });
      }
      if (begin == end) return;
      if (begin->first.size() == text.size()) found(n + 1, begin->second);
    }
  }

  std::vector<double> scores_;
  UnigramOptions options_;
  double unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options,
                                    const std::string& where) {
  if (options.unknown && vocabulary.text_of(*options.unknown) == nullptr) {
    refuse(where, "unk_id " + std::to_string(*options.unknown) + ": expected a token of the vocabulary");
  }
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options);
}

}  // namespace polyhead::text
