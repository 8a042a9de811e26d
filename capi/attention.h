#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "polyhead/attention.h"
#include "polyhead/error.h"
#include "polyhead/polyhead_c.h"

namespace polyhead::capi {

AttentionOptions options_of(const polyhead_attention_options* options, std::string_view op);

// Of the fields that C has for one.
Dropout dropout_of(double p, std::uint64_t seed, const polyhead_origin* origin, std::string_view op,
                   std::string_view origin_name);

// Numbers of heads or rows; none if the count is 0.
std::vector<std::int32_t> chosen(const std::int32_t* values, std::size_t count, std::string_view op,
                                 std::string_view name);

template <class Enum>
Enum enumerator(std::int32_t value, Enum last, std::string_view op, std::string_view name) {
  if (value >= 0 && value <= static_cast<std::int32_t>(last)) return static_cast<Enum>(value);
  throw Error(ErrorCode::value, op,
              "expected " + std::string(name) + " from 0 to " + std::to_string(static_cast<int>(last)) + ", found " +
                  std::to_string(value));
}

}  // namespace polyhead::capi
