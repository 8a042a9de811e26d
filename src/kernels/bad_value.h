// A value that is not allowed: what a kernel reports about it, and the error made from that. A CPU kernel throws the
// error; a queued kernel keeps its report until somebody waits for the queue.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "polyhead/error.h"

namespace polyhead::kernels {

struct BadValue {
  enum class Kind : std::int32_t {
    none,
    key_lengths,    // place[0] of B; found, low, high
    key_start,      // the same
    query_lengths,  // the same
    first_positions,
    cu_q_ends,    // found is the first, found_too the last; high the number of rows
    cu_k_ends,    // the same
    cu_q_falls,   // found is followed by found_too, which is less
    cu_k_falls,   // the same
    bias,         // +inf
    sink_logit,   // place[0] of H; number
    target_keys,  // place [b,t,slot]; found, high: keys
    indices,      // place[0] of the flat indices; found, high: entries
    lengths,      // found; high: tokens
    classes,      // place[0] of the rows; found, high: classes
    logits,       // not finite
  };
  Kind kind = Kind::none;
  std::int64_t place[3] = {};
  std::int64_t found = 0, found_too = 0, low = 0, high = 0;
  double number = 0;
};

inline Error error_of(std::string_view op, const BadValue& bad) {
  using Kind = BadValue::Kind;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string at = "[" + text(bad.place[0]) + "]", found = ", found " + text(bad.found);
  const auto within = [&](const std::string& name) {
    return name + at + ": expected " + text(bad.low) + " to " + text(bad.high) + found;
  };
  const auto ends = [&](const std::string& name) {
    return name + ": expected offsets from 0 to " + text(bad.high) + found + " to " + text(bad.found_too);
  };
  const auto falls = [&](const std::string& name) {
    return name + ": offsets must not decrease" + found + " before " + text(bad.found_too);
  };
  const auto message = [&]() -> std::string {
    switch (bad.kind) {
      case Kind::key_lengths: return within("key_lengths");
      case Kind::key_start: return within("key_start");
      case Kind::query_lengths: return within("query_lengths");
      case Kind::first_positions: return within("first_positions");
      case Kind::cu_q_ends: return ends("cu_q");
      case Kind::cu_k_ends: return ends("cu_k");
      case Kind::cu_q_falls: return falls("cu_q");
      case Kind::cu_k_falls: return falls("cu_k");
      case Kind::bias: return "bias: expected finite numbers or -inf (which hides a key), found +inf";
      case Kind::sink_logit:
        return "sink_logit" + at + ": expected a number or -inf, found " + std::to_string(bad.number);
      case Kind::target_keys:
        return "target_keys[" + text(bad.place[0]) + "," + text(bad.place[1]) + "," + text(bad.place[2]) +
               "]: expected a key below " + text(bad.high) + ", or -1 for none" + found;
      case Kind::indices:
        return "indices: expected numbers from 0 to " + text(bad.high - 1) + found + " at place " + text(bad.place[0]);
      case Kind::lengths: return "lengths: expected 1 to " + text(bad.high) + found;
      case Kind::classes:
        return "targets: expected classes below " + text(bad.high) + found + " at place " + text(bad.place[0]);
      case Kind::logits: return "the model's logits are not finite: its weights are unusable";
      case Kind::none: break;
    }
    return "a number out of its range";
  };
  return Error(bad.kind == Kind::logits ? ErrorCode::input : ErrorCode::value, op, message());
}

}  // namespace polyhead::kernels
