#include "text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/fields.h"
#include "text/normalizer.h"
#include "text/patterns.h"

namespace polyhead::text {
namespace {

using Pieces = std::vector<Chars>;

// A part of a piece, and whether it matches what the piece is cut at.
struct Part {
  std::size_t begin, end;
  bool match;
};
using Parts = std::vector<Part>;

enum class Behavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_called(const std::string& name, const std::string& where) {
  const char* const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) refuse(where, "\"behavior\": " + io::in_quotes(name) + " is not known");
  return static_cast<Behavior>(found - std::begin(names));
}

// Cuts each piece as `behavior` says; `find` divides a piece into parts from front to back.
template <class Find>
void split(Pieces& pieces, Behavior behavior, const Find& find) {
  Pieces result;
  for (const Chars& piece : pieces) {
    Parts merged;
    for (const Part& part : find(piece)) {
      const bool after_match = !merged.empty() && merged.back().match;
      const bool joins =
          !merged.empty() && ((behavior == Behavior::contiguous && after_match == part.match) ||
                              (behavior == Behavior::merged_with_previous && part.match && !after_match) ||
                              (behavior == Behavior::merged_with_next && after_match && !part.match));
      if (joins) {
        merged.back().end = part.end;
        merged.back().match = part.match;
      } else {
        merged.push_back(part);
      }
    }
    for (const Part& part : merged) {
      if (part.begin == part.end || (behavior == Behavior::removed && part.match)) continue;
      result.emplace_back(piece.begin() + static_cast<std::ptrdiff_t>(part.begin),
                          piece.begin() + static_cast<std::ptrdiff_t>(part.end));
    }
  }
  pieces = std::move(result);
}

// Every character that is `kind` is a match of its own.
template <class Kind>
auto each_char(const Kind& kind) {
  return [kind](const Chars& piece) {
    Parts parts;
    for (std::size_t n = 0; n < piece.size(); ++n) {
      const bool match = kind(piece[n].code);
      if (!match && !parts.empty() && !parts.back().match) {
        parts.back().end = n + 1;
      } else {
        parts.push_back({n, n + 1, match});
      }
    }
    return parts;
  };
}

auto each_text(const std::u32string& text) {
  return [text](const Chars& piece) {
    Parts parts;
    const auto same = [](const Char& c, char32_t code) { return c.code == code; };
    for (std::size_t at = 0; at < piece.size();) {
      const auto from = piece.begin() + static_cast<std::ptrdiff_t>(at);
      const auto found =
          static_cast<std::size_t>(std::search(from, piece.end(), text.begin(), text.end(), same) - piece.begin());
      if (found > at) parts.push_back({at, found, false});
      if (found == piece.size()) break;
      parts.push_back({found, found + text.size(), true});
      at = found + text.size();
    }
    return parts;
  };
}

auto each_piece_of(const SplitPattern& pattern) {
  return [pattern](const Chars& piece) {
    Parts parts;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = pattern.end_of(piece, at);
      parts.push_back({at, end, true});
      at = end;
    }
    return parts;
  };
}

void to_bytes(Chars& piece) {
  Chars result;
  std::string bytes;
  for (const Char& c : piece) {
    bytes.clear();
    append_utf8(bytes, c.code);
    for (const char byte : bytes) result.push_back({char_of_byte(static_cast<unsigned char>(byte)), c.begin, c.end});
  }
  piece = std::move(result);
}

PreTokenizer read_byte_level(const io::Json& json, const std::string& where) {
  const bool blank = flag_or(json, "add_prefix_space", where, true), cut = flag_or(json, "use_regex", where, true);
  return [=](Pieces& pieces) {
    if (blank) {
      for (Chars& piece : pieces) {
        if (piece.front().code != ' ') prepend(piece, U" ");
      }
    }
    if (cut) split(pieces, Behavior::isolated, each_piece_of(kGpt2Pattern));
    for (Chars& piece : pieces) to_bytes(piece);
  };
}

PreTokenizer read_split(const io::Json& json, const std::string& where) {
  const Behavior behavior = behavior_called(io::read_text(json, "behavior", where), where);
  const bool invert = flag_or(json, "invert", where, false);
  const io::Json& pattern = field(json, "pattern");
  if (pattern.is_object() && pattern.contains("Regex")) {
    const std::string regex = io::read_text(pattern, "Regex", where);
    const auto known = pattern_of(regex);
    if (!known || invert || behavior != Behavior::isolated) {
      refuse(where,
             "\"Regex\": expected that of GPT-2, Llama 3 or Qwen 2, \"Isolated\", found " + io::in_quotes(regex));
    }
    return [known](Pieces& pieces) { split(pieces, Behavior::isolated, each_piece_of(*known)); };
  }
  const std::u32string text = codes_of(plain_pattern(json, where));
  if (invert) refuse(where, "\"invert\": expected false");
  return [=](Pieces& pieces) { split(pieces, behavior, each_text(text)); };
}

PreTokenizer read_digits(const io::Json& json, const std::string& where) {
  const bool one_by_one = flag_or(json, "individual_digits", where, false);
  const Behavior behavior = one_by_one ? Behavior::isolated : Behavior::contiguous;
  return [=](Pieces& pieces) { split(pieces, behavior, each_char(is_number)); };
}

// Every three digits in a row, from left to right, are a match.
Parts each_three_digits(const Chars& piece) {
  const auto is_digit = [](const Char& c) { return c.code >= '0' && c.code <= '9'; };
  Parts parts;
  for (std::size_t at = 0; at < piece.size(); at = parts.back().end) {
    const auto first = piece.begin() + static_cast<std::ptrdiff_t>(at);
    const bool match = piece.size() - at >= 3 && std::all_of(first, first + 3, is_digit);
    if (!match && !parts.empty() && !parts.back().match) {
      ++parts.back().end;
    } else {
      parts.push_back({at, at + (match ? 3 : 1), match});
    }
  }
  return parts;
}

// [\p{P}\$\+<=>\^~\|]
bool is_default_sign(char32_t code) {
  constexpr std::u32string_view kSigns = U"$+<=>^~|";
  return is_punctuation(code) || kSigns.find(code) != kSigns.npos;
}

bool is_bert_punctuation(char32_t code) {
  const bool ascii = (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
                     (code >= '{' && code <= '~');
  return ascii || is_punctuation(code);
}

void split_at_blanks(Pieces& pieces) { split(pieces, Behavior::removed, each_char(is_space)); }

void split_as_bert(Pieces& pieces) {
  split_at_blanks(pieces);
  split(pieces, Behavior::isolated, each_char(is_bert_punctuation));
}

PreTokenizer read_metaspace(const io::Json& json, const std::string& where) {
  const std::u32string sign = codes_of(text_or(json, "replacement", where, "\u2581"));
  if (sign.size() != 1) refuse(where, "\"replacement\": expected one character");
  const bool once_always = flag_or(json, "add_prefix_space", where, true);  // what older files say instead
  const std::string scheme = text_or(json, "prepend_scheme", where, once_always ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    refuse(where, "\"prepend_scheme\": expected always, first or never, found " + io::in_quotes(scheme));
  }
  const bool cut = flag_or(json, "split", where, true);
  return [=](Pieces& pieces) {
    for (Chars& piece : pieces) {
      replace(piece, U" ", sign);
      const bool wanted = scheme == "always" || (scheme == "first" && piece.front().begin == 0);
      if (wanted && piece.front().code != sign[0]) prepend(piece, sign);
    }
    if (cut) split(pieces, Behavior::merged_with_next, each_text(sign));
  };
}

PreTokenizer read_sequence(const io::Json& json, const std::string& where) {
  std::vector<PreTokenizer> parts;
  for (const io::Json& part : list_of(json, "pretokenizers", where)) parts.push_back(read_pre_tokenizer(part, where));
  return [parts](Pieces& pieces) {
    for (const PreTokenizer& part : parts) part(pieces);
  };
}

const Readers<PreTokenizer>& readers() {
  static const Readers<PreTokenizer> all = {
      {"Sequence", read_sequence},
      {"ByteLevel", read_byte_level},
      {"Split", read_split},
      {"Digits", read_digits},
      {"Metaspace", read_metaspace},
      {"BertPreTokenizer", [](auto&, auto&) { return split_as_bert; }},
      {"WhitespaceSplit", [](auto&, auto&) { return split_at_blanks; }},
  };
  return all;
}

// Printable bytes are written as themselves, the others, in order, as U+0100 and up.
bool prints(int byte) { return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad); }

struct ByteTable {
  char32_t chars[256];
  int bytes[0x200];

  ByteTable() {
    std::fill(std::begin(bytes), std::end(bytes), -1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      chars[byte] = prints(byte) ? static_cast<char32_t>(byte) : next++;
      bytes[chars[byte]] = byte;
    }
  }
};
const ByteTable& byte_table() {
  static const ByteTable table;
  return table;
}

}  // namespace

char32_t char_of_byte(unsigned char byte) { return byte_table().chars[byte]; }
int byte_of_char(char32_t code) { return code < 0x200 ? byte_table().bytes[code] : -1; }

void cut_by_default(std::vector<Chars>& pieces) {
  split(pieces, Behavior::contiguous, each_char(is_default_sign));
  split(pieces, Behavior::isolated, each_piece_of(kGpt2Pattern));
  split(pieces, Behavior::contiguous, each_char(is_number));
  split(pieces, Behavior::isolated, each_three_digits);
}

bool is_byte_level(const io::Json& json) {
  const io::Json &type = field(json, "type"), &parts = field(json, "pretokenizers");
  return type == "ByteLevel" || (type == "Sequence" && std::any_of(parts.begin(), parts.end(), is_byte_level));
}

PreTokenizer read_pre_tokenizer(const io::Json& json, const std::string& where) {
  if (json.is_null()) return [](Pieces&) {};
  return read_part(readers(), json, where);
}

}  // namespace polyhead::text
