#include "cli/say.h"

#include <atomic>
#include <cstdio>

namespace polyhead::cli {
namespace {

std::atomic<bool> silent{false};

}  // namespace

void say(const std::string& text) noexcept {
  if (!silent) say_anyway(text);
}

void be_silent() noexcept { silent = true; }
bool is_silent() noexcept { return silent; }

void say_anyway(const std::string& text) noexcept {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace polyhead::cli
