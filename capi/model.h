#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/model.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::capi {

std::vector<HeadId> heads_of(const polyhead_head* heads, std::size_t count, std::string_view op, std::string_view name);
std::string text_of(const char* text, std::size_t size, std::string_view op, std::string_view name);
// sizes NULL: each text ends with a 0.
std::vector<std::string> texts_of(const char* const* texts, const std::size_t* sizes, std::size_t count,
                                  std::string_view op);
std::vector<Message> messages_of(const polyhead_message* messages, std::size_t count);
polyhead_head head_in_c(const HeadId& id);

}  // namespace polyhead::capi
