#include "polyhead/text.h"

#include <algorithm>

#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/model.h"

using namespace polyhead;
using namespace polyhead::capi;

namespace {

constexpr std::string_view kOp = "text";

const Tokenizer& tokenizer_in(const polyhead_tokenizer* tokenizer) {
  return required(tokenizer, kOp, "tokenizer").tokenizer;
}

// As much as fits, and how much there is.
template <class Range, class T>
void give(const Range& made, T* into, std::size_t capacity, std::size_t* count) {
  required(count, kOp, "count") = made.size();
  if (capacity > 0 && !made.empty()) required(into, kOp, "memory to fill");
  std::copy_n(made.begin(), std::min(capacity, made.size()), into);
}

polyhead_token in_c(const Token& token) {
  return {token.id, token.begin, token.end, token.first_char, token.last_char};
}

std::vector<std::int32_t> tokens_of_kind(const Tokenizer& tokenizer, std::int32_t kind) {
  switch (kind) {
    case POLYHEAD_BEGINNING: return tokenizer.beginning();
    case POLYHEAD_ENDING: return tokenizer.ending();
    case POLYHEAD_ENDS: return tokenizer.ends();
    case POLYHEAD_SPECIAL: return tokenizer.special();
    case POLYHEAD_MARKS: return tokenizer.marks();
    default: throw Error(ErrorCode::value, kOp, "kind: expected a polyhead_token_kind, found " + std::to_string(kind));
  }
}

}  // namespace

polyhead_status polyhead_tokenizer_load(const char* path, polyhead_tokenizer** tokenizer) {
  return guarded([&] {
    required(tokenizer, kOp, "tokenizer") = new polyhead_tokenizer{Tokenizer::load(&required(path, kOp, "path"))};
  });
}

void polyhead_tokenizer_free(polyhead_tokenizer* tokenizer) { delete tokenizer; }

polyhead_status polyhead_tokenizer_size(const polyhead_tokenizer* tokenizer, int64_t* size) {
  return guarded([&] { required(size, kOp, "size") = tokenizer_in(tokenizer).size(); });
}

polyhead_status polyhead_model_tokenizer(const polyhead_model* model, polyhead_tokenizer** tokenizer) {
  return guarded([&] {
    required(tokenizer, kOp, "tokenizer") = new polyhead_tokenizer{required(model, kOp, "model").model.tokenizer()};
  });
}

polyhead_status polyhead_encode(const polyhead_tokenizer* tokenizer, const char* text, size_t size, int32_t special,
                                polyhead_token* tokens, size_t capacity, size_t* count) {
  return guarded([&] {
    std::vector<polyhead_token> found;
    for (const Token& token : tokenizer_in(tokenizer).encode(text_of(text, size, kOp, "text"), special != 0)) {
      found.push_back(in_c(token));
    }
    give(found, tokens, capacity, count);
  });
}

polyhead_status polyhead_decode(const polyhead_tokenizer* tokenizer, const int32_t* tokens, size_t count,
                                int32_t special, char* text, size_t capacity, size_t* size, polyhead_token* places) {
  return guarded([&] {
    const std::span<const std::int32_t> given(count == 0 ? tokens : &required(tokens, kOp, "tokens"), count);
    std::vector<Token> found;
    give(tokenizer_in(tokenizer).decode(given, special != 0, places == nullptr ? nullptr : &found), text, capacity,
         size);
    std::transform(found.begin(), found.end(), places, in_c);
  });
}

polyhead_status polyhead_token_text(const polyhead_tokenizer* tokenizer, int32_t token, char* text, size_t capacity,
                                    size_t* size) {
  return guarded([&] { give(tokenizer_in(tokenizer).text_of(token), text, capacity, size); });
}

polyhead_status polyhead_chat(const polyhead_tokenizer* tokenizer, const polyhead_message* messages, size_t count,
                              int32_t answer, char* text, size_t capacity, size_t* size) {
  return guarded(
      [&] { give(tokenizer_in(tokenizer).chat(messages_of(messages, count), answer != 0), text, capacity, size); });
}

polyhead_status polyhead_tokens_of_kind(const polyhead_tokenizer* tokenizer, int32_t kind, int32_t* tokens,
                                        size_t capacity, size_t* count) {
  return guarded([&] { give(tokens_of_kind(tokenizer_in(tokenizer), kind), tokens, capacity, count); });
}

polyhead_status polyhead_model_examples(const polyhead_model* model, const char* const* texts, const size_t* sizes,
                                        size_t text_count, int64_t length, polyhead_results** results) {
  return guarded([&] {
    polyhead_results*& into = required(results, kOp, "results");
    auto named = std::make_unique<polyhead_results>();
    const auto& kept = named->kept.emplace<Examples>(
        required(model, kOp, "model").model.examples(texts_of(texts, sizes, text_count, kOp), length));
    named->name("tokens", kept.tokens);
    named->name("targets", kept.targets);
    named->name("lengths", kept.lengths);
    into = named.release();
  });
}
