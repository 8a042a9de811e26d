// What the processors give when nothing but them can limit: multiply-adds in registers.
#pragma once

#include <cstdint>

#include "core/team.h"

namespace polyhead::bench {

// So many multiply-adds of f32, in small pieces that the team's threads claim.
void multiply_adds(Team& team, std::int64_t count);

}  // namespace polyhead::bench
