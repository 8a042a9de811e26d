// The speed of the processors when nothing else limits them: multiply-adds in registers.
#pragma once

#include <cstdint>

#include "core/team.h"

namespace polyhead::bench {

// `count` multiply-adds of f32, in small pieces that the team's threads claim.
void multiply_adds(Team& team, std::int64_t count);

}  // namespace polyhead::bench
