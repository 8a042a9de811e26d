// How much memory there is, asked before it is taken: a system that is out of it kills, and says nothing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace polyhead {

// Bytes that this process may still take: what the machine has free, its control group and its own limit allow.
// Infinite where nobody says.
double available_memory();

// Bytes that control groups, version 1 or 2, leave to this process; infinite where there is no limit. `root` is the
// file system's, or one that a test has made.
double free_in_groups(const std::filesystem::path& root = "/");

// Throws Error (value) if `what` ("a step of 32 x 1000000 tokens") takes more bytes than there are; `mend` says what to
// do about it.
void expect_memory(std::string_view op, const std::string& what, double bytes, const std::string& mend);

}  // namespace polyhead
