#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "text/fields.h"

namespace polyhead::text {
namespace {

void keep(Chars& chars, bool (*wanted)(char32_t)) {
  std::erase_if(chars, [&](const Char& c) { return !wanted(c.code); });
}

// Replaces each character by what `append` makes of it, in the same place.
template <class Append>
void map(Chars& chars, const Append& append) {
  Chars result;
  result.reserve(chars.size());
  std::u32string codes;
  for (const Char& c : chars) {
    codes.clear();
    append(codes, c.code);
    for (const char32_t code : codes) result.push_back({code, c.begin, c.end});
  }
  chars = std::move(result);
}

void lower(Chars& chars) { map(chars, append_lower); }

void strip_accents(Chars& chars) {
  chars = normal_form(chars, false, false);
  keep(chars, [](char32_t code) { return !is_nonspacing_mark(code); });
}

bool is_ideograph(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                                       {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                                       {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return code >= range.first && code <= range.second; });
}

Normalizer read_bert(const io::Json& json, const std::string& where) {
  const bool clean = flag_or(json, "clean_text", where, true);
  const bool ideographs = flag_or(json, "handle_chinese_chars", where, true);
  const bool lowercase = flag_or(json, "lowercase", where, true);
  const bool accents = flag_or(json, "strip_accents", where, lowercase);
  return [=](Chars& chars) {
    if (clean) {
      keep(chars, [](char32_t code) {
        const bool blank = code == '\t' || code == '\n' || code == '\r';
        return code != 0 && code != 0xfffd && (blank || !is_other(code));
      });
      for (Char& c : chars) c.code = is_space(c.code) ? U' ' : c.code;
    }
    if (ideographs) {
      map(chars, [](std::u32string& to, char32_t code) {
        to += is_ideograph(code) ? std::u32string{U' ', code, U' '} : std::u32string{code};
      });
    }
    if (accents) strip_accents(chars);
    if (lowercase) lower(chars);
  };
}

Normalizer read_sequence(const io::Json& json, const std::string& where) {
  std::vector<Normalizer> parts;
  for (const io::Json& part : list_of(json, "normalizers", where)) parts.push_back(read_normalizer(part, where));
  return [parts](Chars& chars) {
    for (const Normalizer& part : parts) part(chars);
  };
}

Normalizer normal_form_reader(bool composed, bool compatible) {
  return [=](Chars& chars) { chars = normal_form(chars, composed, compatible); };
}

Normalizer read_strip(const io::Json& json, const std::string& where) {
  const bool left = flag_or(json, "strip_left", where, true), right = flag_or(json, "strip_right", where, true);
  return [=](Chars& chars) {
    const auto solid = [](const Char& c) { return !is_space(c.code); };
    if (right) chars.erase(std::find_if(chars.rbegin(), chars.rend(), solid).base(), chars.end());
    if (left) chars.erase(chars.begin(), std::find_if(chars.begin(), chars.end(), solid));
  };
}

const Readers<Normalizer>& readers() {
  static const Readers<Normalizer> all = {
      {"Sequence", read_sequence},
      {"BertNormalizer", read_bert},
      {"NFC", [](auto&, auto&) { return normal_form_reader(true, false); }},
      {"NFD", [](auto&, auto&) { return normal_form_reader(false, false); }},
      {"NFKC", [](auto&, auto&) { return normal_form_reader(true, true); }},
      {"NFKD", [](auto&, auto&) { return normal_form_reader(false, true); }},
      {"Lowercase", [](auto&, auto&) { return lower; }},
      {"Strip", read_strip},
      {"Prepend",
       [](const io::Json& json, const std::string& where) {
         return [text = codes_of(io::read_text(json, "prepend", where))](Chars& chars) { prepend(chars, text); };
       }},
      {"Replace",
       [](const io::Json& json, const std::string& where) {
         return [from = codes_of(plain_pattern(json, where)),
                 to = codes_of(io::read_text(json, "content", where))](Chars& chars) { replace(chars, from, to); };
       }},
  };
  return all;
}

}  // namespace

void prepend(Chars& chars, const std::u32string& text) {
  if (chars.empty()) return;
  const Char first = chars.front();
  chars.insert(chars.begin(), text.size(), first);
  for (std::size_t n = 0; n < text.size(); ++n) chars[n].code = text[n];
}

void replace(Chars& chars, const std::u32string& from, const std::u32string& to) {
  const auto same = [](const Char& c, char32_t code) { return c.code == code; };
  Chars result;
  result.reserve(chars.size());
  for (auto at = chars.begin(); at != chars.end();) {
    const auto found = std::search(at, chars.end(), from.begin(), from.end(), same);
    result.insert(result.end(), at, found);
    if (found == chars.end()) break;
    at = found + static_cast<std::ptrdiff_t>(from.size());
    for (const char32_t code : to) result.push_back({code, (at - 1)->begin, (at - 1)->end});
  }
  chars = std::move(result);
}

Normalizer read_normalizer(const io::Json& json, const std::string& where) {
  if (json.is_null()) return [](Chars&) {};
  return read_part(readers(), json, where);
}

}  // namespace polyhead::text
