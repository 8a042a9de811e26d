// What is said to something that is wrong, to be held to a file (support/kept.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "polyhead/error.h"

namespace polyhead {

inline std::string_view name_of(ErrorCode code) {
  static constexpr std::string_view kNames[] = {"shape",  "dtype",  "layout", "value", "unsupported",
                                                "device", "memory", "input",  "io"};
  return kNames[static_cast<std::size_t>(code)];
}

// The kind of error and its words, or "accepted".
inline std::string said(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + " " + error.what();
  }
  return "accepted";
}

// Lines of what was tried and what was said; the name of a folder that is another every time is left out.
class Said {
 public:
  explicit Said(std::string folder = "") : folder_(std::move(folder)) {}
  void operator()(const std::string& what, const std::function<void()>& call) {
    std::string words = said(call);
    while (!folder_.empty() && words.find(folder_) != words.npos) {
      words.replace(words.find(folder_), folder_.size(), "FOLDER");
    }
    text_ += what + ": " + words + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string folder_, text_;
};

}  // namespace polyhead
