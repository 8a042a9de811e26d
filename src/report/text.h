// Text for people: without hidden characters and without markup.
#pragma once

#include <string>
#include <string_view>

namespace polyhead::report {

// Valid UTF-8 in which every character can be seen: a line feed becomes "↵", a tab "⇥", control, bidi and zero-width
// characters become their number ("‹U+202E›"), and invalid UTF-8 its bytes ("⟨E2 80⟩"): tokens may be parts of
// characters.
std::string visible(std::string_view text);

// visible() for a token: a space at either end shows as "·".
std::string visible_token(std::string_view token);

// visible(), and fit for the text and the attributes of SVG and HTML.
std::string escaped(std::string_view text);

// The first `most` characters, the last of them "…" if the text is longer. Takes and returns UTF-8.
std::string shortened(std::string_view text, int most);

// About how wide the text is in a sans-serif font of this size.
double width_of(std::string_view text, double size);
// The text, or as much of its beginning as that width has room for, with "…" behind it.
std::string fitted(const std::string& text, double width, double size);

// Three significant digits, no trailing zeros, a real minus sign: 0.0123, −12.3, 12,345, 2.5M.
std::string number(double value);

// "-12345.6" -> "−12,345.6".
std::string typeset(std::string digits);

}  // namespace polyhead::report
