#include "text/decoder.h"

#include <algorithm>
#include <charconv>

#include "text/fields.h"
#include "text/pre_tokenizer.h"

namespace polyhead::text {
namespace {

using Texts = std::vector<std::string>;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size()) {
    result.append(text, at, found - at).append(to);
  }
  text = result.append(text, at);
}

// U+FFFD in place of invalid UTF-8.
std::string valid_utf8(const std::string& bytes) { return utf8_of(chars_of(bytes)); }

// The bytes of a token whose letters stand for bytes; any other token as it is.
std::string bytes_of_letters(const std::string& token) {
  std::string bytes;
  for (const Char& c : chars_of(token)) {
    const int byte = byte_of_char(c.code);
    if (byte < 0) return token;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The byte of a token that is called <0xE2>; -1 for any other.
int byte_called(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with(">")) return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

void decode_bytes(Texts& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += bytes_of_letters(token);
  tokens = {valid_utf8(all)};
}

// Removes the blanks that English tokenizers put before marks and endings.
void clean_up(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

Decoder read_word_piece(const io::Json& json, const std::string& where) {
  const std::string prefix = text_or(json, "prefix", where, "##");
  const bool clean = flag_or(json, "cleanup", where, true);
  return [=](Texts& tokens) {
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      if (n > 0) tokens[n] = tokens[n].starts_with(prefix) ? tokens[n].substr(prefix.size()) : " " + tokens[n];
      if (clean) clean_up(tokens[n]);
    }
  };
}

Decoder read_metaspace(const io::Json& json, const std::string& where) {
  const std::string sign = text_or(json, "replacement", where, "\u2581");
  const bool once_always = flag_or(json, "add_prefix_space", where, true);
  const bool prefixed = text_or(json, "prepend_scheme", where, once_always ? "always" : "never") != "never";
  return [=](Texts& tokens) {
    for (std::size_t n = 0; n < tokens.size(); ++n) replace_all(tokens[n], sign, n == 0 && prefixed ? "" : " ");
  };
}

// Runs of <0x..> become their bytes; a run that is not valid UTF-8 becomes one U+FFFD per byte.
void fall_back_to_bytes(Texts& tokens) {
  Texts result;
  std::string run;
  const auto finish = [&] {
    const std::string text = valid_utf8(run);
    if (text == run) {
      if (!run.empty()) result.push_back(run);
    } else {
      for (std::size_t n = 0; n < run.size(); ++n) result.push_back("\ufffd");
    }
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const int byte = byte_called(token); byte >= 0) {
      run += static_cast<char>(byte);
    } else {
      finish();
      result.push_back(token);
    }
  }
  finish();
  tokens = std::move(result);
}

void fuse(Texts& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {all};
}

Decoder read_strip(const io::Json& json, const std::string& where) {
  const std::string content = io::read_text(json, "content", where);
  if (chars_of(content).size() != 1) refuse(where, "\"content\": expected one character");
  const std::int64_t start = io::read_integer(json, "start", where, 0, 1000),
                     stop = io::read_integer(json, "stop", where, 0, 1000);
  return [=](Texts& tokens) {
    for (std::string& token : tokens) {
      for (auto n = start; n > 0 && token.starts_with(content); --n) token.erase(0, content.size());
      for (auto n = stop; n > 0 && token.ends_with(content); --n) token.resize(token.size() - content.size());
    }
  };
}

Decoder read_replace(const io::Json& json, const std::string& where) {
  return [from = plain_pattern(json, where), to = io::read_text(json, "content", where)](Texts& tokens) {
    for (std::string& token : tokens) replace_all(token, from, to);
  };
}

Decoder read_sequence(const io::Json& json, const std::string& where) {
  std::vector<Decoder> parts;
  for (const io::Json& part : list_of(json, "decoders", where)) parts.push_back(read_decoder(part, where));
  return [parts](Texts& tokens) {
    for (const Decoder& part : parts) part(tokens);
  };
}

const Readers<Decoder>& readers() {
  static const Readers<Decoder> all = {
      {"Sequence", read_sequence},    {"ByteLevel", [](auto&, auto&) { return decode_bytes; }},
      {"WordPiece", read_word_piece}, {"Metaspace", read_metaspace},
      {"Replace", read_replace},      {"ByteFallback", [](auto&, auto&) { return fall_back_to_bytes; }},
      {"Strip", read_strip},          {"Fuse", [](auto&, auto&) { return fuse; }},
  };
  return all;
}

void join(Texts& tokens) {
  for (std::size_t n = 1; n < tokens.size(); ++n) tokens[n].insert(0, 1, ' ');
}

}  // namespace

std::string bytes_of_token(const std::string& token) {
  const int byte = byte_called(token);
  return byte >= 0 ? std::string(1, static_cast<char>(byte)) : bytes_of_letters(token);
}

Decoder read_decoder(const io::Json& json, const std::string& where) {
  if (json.is_null()) return join;
  return read_part(readers(), json, where);
}

}  // namespace polyhead::text
