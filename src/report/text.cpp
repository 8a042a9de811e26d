#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace polyhead::report {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// How many bytes a character that begins with this byte takes; 0 if none can.
int length_from(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// Takes one character off the text; if it is invalid, takes one byte and returns nothing.
std::optional<char32_t> take(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto length = static_cast<std::size_t>(length_from(byte(0)));
  bool valid = length != 0 && length <= text.size();
  char32_t code = length < 2 ? byte(0) : byte(0) & (0x7Fu >> length);
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = (byte(i) & 0xC0) == 0x80;
    code = (code << 6) | (byte(i) & 0x3F);
  }
  static constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  valid = valid && code >= least[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  text.remove_prefix(valid ? length : 1);
  return valid ? std::optional(code) : std::nullopt;
}

void append(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
  } else {
    if (code < 0x10000) {
      put(0xE0 | (code >> 12));
    } else {
      put(0xF0 | (code >> 18));
      put(0x80 | ((code >> 12) & 0x3F));
    }
    put(0x80 | ((code >> 6) & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

struct Codes {
  char32_t first, last;
};

bool within(char32_t code, const auto& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Codes& range) { return code >= range.first && code <= range.last; });
}

// Characters without a shape: controls, soft hyphen, zero widths, bidi controls, separators, tags, noncharacters.
bool hides(char32_t code) {
  static constexpr std::array<Codes, 13> ranges{{{0x00, 0x1F},
                                                 {0x7F, 0x9F},
                                                 {0xAD, 0xAD},
                                                 {0x61C, 0x61C},
                                                 {0x115F, 0x1160},
                                                 {0x180E, 0x180E},
                                                 {0x200B, 0x200F},
                                                 {0x2028, 0x202E},
                                                 {0x2060, 0x206F},
                                                 {0x3164, 0x3164},
                                                 {0xFEFF, 0xFEFF},
                                                 {0xFFF9, 0xFFFB},
                                                 {0xE0000, 0xE0FFF}}};
  return within(code, ranges) || (code & 0xFFFE) == 0xFFFE;
}

// East Asian letters and emoji take a whole em.
bool wide(char32_t code) {
  static constexpr std::array<Codes, 5> ranges{
      {{0x1100, 0x115F}, {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3}, {0xFE30, 0xFF60}, {0x1F300, 0x1FAFF}}};
  return within(code, ranges);
}

double em_of(char32_t code) {
  static constexpr std::string_view narrow = " .,:;!|'()[]ijltfrI-/";
  if (wide(code)) return 1;
  if (code < 0x80 && narrow.find(static_cast<char>(code)) != std::string_view::npos) return 0.38;
  if (code == 'm' || code == 'w' || code == 'M' || code == 'W' || code == '%') return 0.92;
  return code >= 'A' && code <= 'Z' ? 0.7 : 0.63;
}

}  // namespace

std::string visible(std::string_view text) {
  std::string result;
  bool in_bytes = false;  // "⟨E2" is still open
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    const std::optional<char32_t> code = take(text);
    if (!code) {
      result += fmt::format("{}{:02X}", in_bytes ? " " : "⟨", byte);
      in_bytes = true;
      continue;
    }
    if (std::exchange(in_bytes, false)) result += "⟩";
    if (*code == '\n') {
      append(result, 0x21B5);
    } else if (*code == '\t') {
      append(result, 0x21E5);
    } else if (hides(*code)) {
      result += fmt::format("‹U+{:04X}›", static_cast<unsigned>(*code));
    } else {
      append(result, *code);
    }
  }
  return in_bytes ? result + "⟩" : result;
}

std::string visible_token(std::string_view token) {
  const std::size_t begin = std::min(token.find_first_not_of(' '), token.size());
  const std::size_t end = begin == token.size() ? begin : token.find_last_not_of(' ') + 1;
  std::string result;
  for (std::size_t i = 0; i < begin; ++i) result += "·";
  result += visible(token.substr(begin, end - begin));
  for (std::size_t i = end; i < token.size(); ++i) result += "·";
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : visible(text)) {
    switch (letter) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += letter;
    }
  }
  return result;
}

std::string shortened(std::string_view text, int most) {
  std::string result, before_last;
  for (int letters = 0; !text.empty(); ++letters) {
    if (letters == most) return before_last + "…";
    before_last = result;
    append(result, take(text).value_or(kReplacement));
  }
  return result;
}

double width_of(std::string_view text, double size) {
  double em = 0;
  while (!text.empty()) em += em_of(take(text).value_or(kReplacement));
  return em * size;
}

std::string fitted(const std::string& text, double width, double size) {
  std::string result = text;
  for (auto letters = static_cast<int>(text.size()); letters > 0 && width_of(result, size) > width; --letters) {
    result = shortened(text, letters);
  }
  return result;
}

std::string typeset(std::string digits) {
  const bool negative = digits.starts_with('-');
  digits.erase(0, negative ? 1 : 0);
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, ",");
  return (negative ? "−" : "") + digits;
}

std::string number(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 999.5e6) return typeset(fmt::format("{:.3g}G", value / 1e9));
  if (size >= 999.5e3) return typeset(fmt::format("{:.3g}M", value / 1e6));
  if (size >= 999.5) return typeset(fmt::format("{:.0f}", value));
  return typeset(fmt::format("{:.3g}", value));
}

}  // namespace polyhead::report
