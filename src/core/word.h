// What an Awaited number lies in. A test builds the team with another word, which shows all that a processor may do.
#pragma once

#include <atomic>
#include <cstdint>

namespace polyhead {

using Word = std::atomic<std::uint32_t>;

}  // namespace polyhead
