// The files of viewer/, as the build embeds them (embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace polyhead::report {

extern const std::string_view kPageHtml, kPageStyle, kPageScript;
// What a live page adds; its script is the page's with more in it.
extern const std::string_view kAskingHtml, kSwitchesHtml, kExtrasHtml, kLiveScript;
// Of every role in the page's style sheet: "role-induction" and its colour on light paper.
struct RoleColour {
  std::string_view name, colour;
};
extern const std::span<const RoleColour> kRoleColours;
// SHA-256 in hexadecimal of the style sheet and the scripts.
extern const std::string_view kStyleDigest, kScriptDigest, kLiveScriptDigest;

}  // namespace polyhead::report
