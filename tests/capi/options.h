// Options of attention as C takes them, and tensors compared to the bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "capi/tensors.h"
#include "polyhead/attention.h"

namespace polyhead::test {

struct Options {
  polyhead_attention_options c;
  double scale;
  std::int64_t first_position;
  polyhead_window window;
  polyhead_origin origin;
};

inline polyhead_origin origin_of(const Dropout& dropout) {
  const Origin& origin = dropout.origin;
  return {sizeof(polyhead_origin), origin.sequence, origin.head, origin.row, origin.key};
}

inline void fill(Options& to, const AttentionOptions& from, InC& in_c) {
  to.scale = from.scale.value_or(0);
  to.first_position = from.first_position.value_or(0);
  to.window = {sizeof to.window, from.window.left, from.window.right, from.window.always_first};
  to.origin = origin_of(from.dropout);
  to.c = {.size = sizeof to.c,
          .scale = from.scale ? &to.scale : nullptr,
          .softcap = from.softcap,
          .align = static_cast<std::int32_t>(from.align),
          .causal = from.causal,
          .first_position = from.first_position ? &to.first_position : nullptr,
          .first_positions = in_c(from.first_positions),
          .window = &to.window,
          .keep = in_c(from.keep),
          .bias = in_c(from.bias),
          .alibi = in_c(from.alibi),
          .key_lengths = in_c(from.key_lengths),
          .key_start = in_c(from.key_start),
          .query_lengths = in_c(from.query_lengths),
          .cu_q = in_c(from.cu_q),
          .cu_k = in_c(from.cu_k),
          .sink_logit = in_c(from.sink_logit),
          .gates = in_c(from.gates),
          .dropout = from.dropout.p,
          .dropout_seed = from.dropout.seed,
          .dropout_origin = &to.origin};
}

inline void expect_same_bits(const Tensor& expected, const Tensor& found, const char* what) {
  ASSERT_EQ(expected.present(), found.present()) << what;
  if (!expected.present() || expected.view().count() == 0) return;
  const auto bytes = static_cast<std::size_t>(expected.view().count()) * size_of(expected.dtype());
  EXPECT_EQ(std::memcmp(expected.view().data(), found.view().data(), bytes), 0) << what;
}

}  // namespace polyhead::test
