// The library never prints, exits or aborts: its objects do not even name the functions.
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "house/shell.h"

namespace polyhead::house {
namespace {

using Names = std::set<std::string>;

// Printing to a FILE needs a FILE, so stdout and stderr stand for fprintf, fputs, fwrite and their kin.
// What C++ itself calls when it cannot go on (std::terminate, __cxa_...) is not ours to avoid.
const char* const kForbidden =
    "stdout stderr printf vprintf puts putchar perror psignal __printf_chk __vprintf_chk "
    "_ZSt4cout _ZSt4cerr _ZSt4clog _ZSt5wcout _ZSt5wcerr _ZSt5wclog "  // std::cout and so on
    "exit _exit _Exit quick_exit abort raise kill __assert __assert_fail "
    "_ZN3hwy5AbortEPKciS1_z";  // hwy::Abort, which HWY_ASSERT calls

Names words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// The forbidden names that a library's objects refer to.
Names forbidden_in(const std::string& library) {
  const std::string command = std::string("'") + POLYHEAD_NM + "' --undefined-only --format=posix '" + library + "'";
  static const Names forbidden = words_of(kForbidden);
  Names found;
  std::istringstream lines(output_of(command));
  int symbols = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find_first_of(" @"));  // "printf@GLIBC_2.2.5 U"
    if (line.find(" U") != std::string::npos) ++symbols;
    if (forbidden.contains(name)) found.insert(name);
  }
  if (symbols == 0) throw std::runtime_error("no symbols from " + command);
  return found;
}

TEST(Symbols, TheLibraryNeitherPrintsNorExitsNorAborts) {
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Highway checks itself in such builds, and those checks abort";
#endif
  EXPECT_EQ(forbidden_in(POLYHEAD_STATIC), Names{});
}

TEST(Symbols, APlantedViolationIsFound) {
  const Names found = forbidden_in(POLYHEAD_PLANTED);
  for (const char* name : {"_ZSt4cout", "_ZSt4cerr", "puts", "printf", "stdout", "stderr", "exit", "abort"}) {
    EXPECT_TRUE(found.contains(name)) << name;
  }
  EXPECT_FALSE(found.contains("snprintf"));
  EXPECT_THROW(forbidden_in("/nonexistent.a"), std::runtime_error);  // nm says so on stderr
}

}  // namespace
}  // namespace polyhead::house
