#pragma once

#include <string_view>

#include "polyhead/attention.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::capi {

AttentionOptions options_of(const polyhead_attention_options* options, std::string_view op);

}  // namespace polyhead::capi
