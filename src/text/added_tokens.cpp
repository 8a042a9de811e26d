#include "text/added_tokens.h"

#include <algorithm>

#include "text/fields.h"

namespace polyhead::text {
namespace {

bool matches(const Chars& text, std::size_t at, const std::u32string& wanted) {
  return text.size() - at >= wanted.size() &&
         std::equal(wanted.begin(), wanted.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char32_t code, const Char& c) { return c.code == code; });
}

Chars part_of(const Chars& text, std::size_t begin, std::size_t end) {
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, const std::string& where)
    : tokens_(std::move(tokens)) {
  std::map<std::string, Id> by_text;
  for (const AddedToken& token : tokens_) {
    const std::string at = where + ": added token " + std::to_string(token.id);
    if (token.text.empty()) refuse(at, "expected a text, found none");  // it would be found everywhere
    if (!by_id_.emplace(token.id, &token).second) refuse(at, "found twice");
    if (const auto [other, fresh] = by_text.emplace(token.text, token.id); !fresh) {
      refuse(at, io::in_quotes(token.text) + " is also the text of added token " + std::to_string(other->second));
    }
    Chars chars = chars_of(token.text);
    if (token.normalized) normalizer(chars);
    std::u32string text;
    for (const Char& c : chars) text += c.code;
    if (text.empty()) continue;  // the normaliser removes all of it
    (token.normalized ? normalized_ : raw_)[text[0]].push_back({text, &token});
  }
  for (Index* index : {&raw_, &normalized_}) {
    for (auto& [first, wanted] : *index) {
      std::stable_sort(wanted.begin(), wanted.end(),
                       [](const Wanted& a, const Wanted& b) { return a.text.size() > b.text.size(); });
    }
  }
}

const AddedToken* AddedTokens::called(Id id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void AddedTokens::split(const Index& index, const Chars& text, std::vector<Piece>& pieces) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto candidates = index.find(text[at].code);
    const Wanted* found = nullptr;
    if (candidates != index.end()) {
      for (const Wanted& wanted : candidates->second) {
        if (found == nullptr && matches(text, at, wanted.text)) found = &wanted;
      }
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + found->text.size();
    at = end;
    const AddedToken& token = *found->token;
    const bool in_word = (begin > 0 && is_word(text[begin - 1].code)) || (end < text.size() && is_word(text[end].code));
    if (token.single_word && in_word) continue;
    while (token.left_strip && begin > done && is_space(text[begin - 1].code)) --begin;
    while (token.right_strip && end < text.size() && is_space(text[end].code)) ++end;
    if (done < begin) pieces.push_back({part_of(text, done, begin), {}});
    pieces.push_back({part_of(text, begin, end), token.id});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) pieces.push_back({part_of(text, done, text.size()), {}});
}

std::vector<Piece> AddedTokens::find(Chars text, const Normalizer& normalizer) const {
  std::vector<Piece> raw, pieces;
  split(raw_, text, raw);
  for (Piece& piece : raw) {
    if (piece.id) {
      pieces.push_back(std::move(piece));
    } else {
      normalizer(piece.chars);
      split(normalized_, piece.chars, pieces);
    }
  }
  return pieces;
}

}  // namespace polyhead::text
