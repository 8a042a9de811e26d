// The ranks of a test program that mpirun starts.
#pragma once

#include "core/ranks.h"

namespace polyhead::test {

Ranks& ranks();

}  // namespace polyhead::test
