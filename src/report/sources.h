// The files of viewer/, as the build embeds them (embed.cmake).
#pragma once

#include <string_view>

namespace polyhead::report {

extern const std::string_view kPageHtml, kPageStyle, kPageScript;
// SHA-256 in hexadecimal of the style sheet and the script.
extern const std::string_view kStyleDigest, kScriptDigest;

}  // namespace polyhead::report
