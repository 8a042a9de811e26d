// Calls that are run around a ring: in one process, and on ranks.
#pragma once

#include <string>
#include <vector>

#include "support/cases.h"

namespace polyhead::test {

// f16 is for rings that round no part before it is added: the gradients of sinks show it.
inline std::vector<Case> ring_cases(const std::vector<DType>& dtypes = {DType::f32, DType::bf16, DType::f64}) {
  const auto make = [](const char* name, DType dtype) {
    Case c;
    c.name = std::string("ring_") + name + "_" + std::string(name_of(dtype));
    c.batch = 2;
    c.queries = 61;
    c.keys = 173;
    c.dtype = dtype;
    c.options.align = Align::bottom_right;
    c.wants = {.lse = true};
    return c;
  };
  std::vector<Case> cases;
  for (const DType dtype : dtypes) {
    Case plain = make("plain", dtype), causal = make("causal_grouped", dtype), window = make("window_alibi", dtype),
         all = make("sink_gates_softcap_dropout", dtype);
    causal.options.causal = true;
    causal.kv_heads = 2;
    causal.dlse = true;
    window.options.window = {.left = 40, .right = 9, .always_first = 30};
    window.alibi = true;
    all.options.causal = all.sink_logit = true;
    all.gates = Gates::per_sequence;
    all.options.softcap = 5;
    all.options.dropout = {.p = 0.2, .seed = 11};
    // Ranks that see two shards of three, or none of them but the sink.
    Case near = make("near_sink", dtype);
    near.keys = near.queries;
    near.options.window = {.left = 3, .right = 9};
    near.sink_logit = true;
    for (const Case& c : {plain, causal, window, all, near}) cases.push_back(c);
  }
  return cases;
}

// Those that a ring in one process, which cuts keys alone, does not run: lengths, packed sequences, statistics, an
// origin, and ranks that have nothing.
inline std::vector<Case> ranks_cases() {
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto add = [&](const char* name, const auto& change) {
      Case c;
      c.name = std::string("ranks_") + name + "_" + std::string(name_of(dtype));
      c.queries = 61;
      c.keys = 173;
      c.dtype = dtype;
      c.options.align = Align::bottom_right;
      c.wants = {.lse = true};
      change(c);
      if (dtype != DType::f16 || c.sink_logit) cases.push_back(c);  // whose gradient shows where f16 is rounded
    };
    const auto causal_dropout = [](Case& c) {
      c.options.causal = true;
      c.options.dropout = {.p = 0.2, .seed = 11};
    };
    add("lengths", [&](Case& c) {
      causal_dropout(c);
      c.kv_heads = 2;
      c.key_lengths = c.query_lengths = true;
    });
    add("lengths_window_sink", [](Case& c) {
      c.options.align = Align::unset;
      c.options.window = {.left = 40, .right = 9, .always_first = 30};
      c.first_positions = c.wide_integers = c.key_lengths = c.alibi = c.sink_logit = true;
    });
    add("packed", [](Case& c) {
      c.packed = c.options.causal = c.sink_logit = c.dlse = true;
      c.gates = Gates::per_sequence;
      c.kv_heads = 2;
    });
    add("packed_window", [](Case& c) {
      c.packed = c.alibi = c.alibi_by_sequence = true;
      c.options.window = {.left = 12, .right = 20};
    });
    add("origin", [&](Case& c) {
      causal_dropout(c);
      c.options.dropout.origin = {.sequence = 3, .head = 2, .row = 11, .key = 21};
    });
    add("few", [](Case& c) {
      c.queries = 9;
      c.keys = 12;
      c.options.causal = c.sink_logit = true;
    });
    add("statistics", [](Case& c) {
      c.options.causal = true;
      c.kv_heads = 2;
      c.wants.statistics = StatisticsSet::full;
      c.wants.row_statistics = true;
    });
    add("statistics_window_sink", [](Case& c) {  // rows that first see a key of a later rank, too
      c.options.window = {.left = 9, .right = 40};
      c.sink_logit = true;
      c.wants.statistics = StatisticsSet::light;
    });
    add("statistics_lengths", [](Case& c) {
      c.key_lengths = c.query_lengths = true;
      c.wants.statistics = StatisticsSet::full;
    });
    add("statistics_packed", [](Case& c) {
      c.packed = c.options.causal = true;
      c.wants.statistics = StatisticsSet::full;
      c.wants.row_statistics = true;
    });
  }
  return cases;
}

}  // namespace polyhead::test
