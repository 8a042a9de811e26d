// Calls that are run around a ring: in one process, and on ranks.
#pragma once

#include <string>
#include <vector>

#include "support/cases.h"

namespace polyhead::test {

inline std::vector<Case> ring_cases() {
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
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
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

}  // namespace polyhead::test
