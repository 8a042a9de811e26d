// Calls that nobody thought of: every option drawn together with all others, by a seed.
#pragma once

#include <cstdint>
#include <string>

#include "support/cases.h"

namespace polyhead::test {

// The same case for a seed always. It is legal, small enough for the oracle, and has rows enough that the rule does not
// judge by luck; its element type is one that GPUs compute.
Case drawn(std::uint64_t seed);

// "bf16 B2 H6 G2 T37 S131 D64 E64, causal, window 5 2 1, gates": what to look for when a draw fails.
std::string described(const Case& c);

}  // namespace polyhead::test
