// How much memory is free, asked before much is taken: a system that runs out kills the process without a message.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace polyhead {

// Bytes that this process may still take: the least of what the machine has free, its control groups allow and its own
// resource limit allows. Infinite if none of them is known.
double available_memory();

// Bytes that control groups, version 1 or 2, leave to this process; infinite if there is no limit. `root` is "/", or a
// folder that a test has made.
double free_in_groups(const std::filesystem::path& root = "/");

// Throws Error (value) if `what` ("a step of 32 x 1000000 tokens") takes more bytes than there are; `mend` says what to
// do about it.
void expect_memory(std::string_view op, const std::string& what, double bytes, const std::string& mend);

}  // namespace polyhead
