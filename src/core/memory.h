// How much memory there is, asked before it is taken: a system that is out of it kills, and says nothing.
#pragma once

#include <string>
#include <string_view>

namespace polyhead {

// Bytes that this process may still take: what the machine has free, its control group and its own limit allow.
// Infinite where nobody says.
double available_memory();

// Throws Error (value) if `what` ("a step of 32 x 1000000 tokens") takes more bytes than there are; `mend` says what to
// do about it.
void expect_memory(std::string_view op, const std::string& what, double bytes, const std::string& mend);

}  // namespace polyhead
