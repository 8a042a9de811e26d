// Threads sleep and wake each other in core/awaited.h and nowhere else: the order that makes it safe is easily
// forgotten.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "house/rooms.h"

namespace polyhead::house {
namespace {

namespace fs = std::filesystem;

bool waits(const std::string& line) {
  static const std::regex words(R"((\.|->)wait(_for|_until)?\(|notify_(one|all)|condition_variable|SYS_futex)"
                                R"(|std::(latch|barrier|counting_semaphore|binary_semaphore)\b)");
  return std::regex_search(line.substr(0, line.find("//")), words);
}

TEST(Waits, OnlyWhatIsAwaited) {
  int found = 0;
  for (const char* room : {"include", "src", "cli", "bench", "examples"}) {
    for (const fs::path& file : sources_below(fs::path(POLYHEAD_ROOT) / room)) {
      std::ifstream in(file);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        if (!waits(line)) continue;
        ++found;
        EXPECT_EQ(file.lexically_relative(POLYHEAD_ROOT), "src/core/awaited.h") << "line " << number << ": " << line;
      }
    }
  }
  EXPECT_EQ(found, 4) << "set, add, add_waking and until";
}

TEST(Waits, AreFoundInEveryGuise) {
  for (const char* line :
       {"done.wait(0);", "done->wait(0);", "done.notify_one();", "p->notify_all();", "std::condition_variable ready;",
        "syscall(SYS_futex, at);", "std::barrier together(2);", "ready.wait_for(lock, time);"}) {
    EXPECT_TRUE(waits(line)) << line;
  }
  for (const char* line : {"// done.wait(0)", "await(x);", "wait_for_it();", "std::latched(x);"}) {
    EXPECT_FALSE(waits(line)) << line;
  }
}

}  // namespace
}  // namespace polyhead::house
