// The files of viewer/, as the build embeds them (embed.cmake).
#pragma once

#include <string_view>

namespace polyhead::report {

extern const std::string_view kPageHtml, kPageStyle, kPageScript;
// What a live page adds; its script is the page's with more in it.
extern const std::string_view kAskingHtml, kSwitchesHtml, kLiveScript;
// SHA-256 in hexadecimal of the style sheet and the scripts.
extern const std::string_view kStyleDigest, kScriptDigest, kLiveScriptDigest;

}  // namespace polyhead::report
