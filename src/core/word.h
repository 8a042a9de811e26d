// The type of an Awaited number. A test builds the team with another one, which reorders as badly as a processor may.
#pragma once

#include <atomic>
#include <cstdint>

namespace polyhead {

using Word = std::atomic<std::uint32_t>;

}  // namespace polyhead
