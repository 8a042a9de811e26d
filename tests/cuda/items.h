// What the check of the GPU's kernels is made of: named items, each judged by the rule of the contract. On a GPU
// gpu_check.cpp runs them all (make test-gpu); the tests run some of them without one, see emulator/grid.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "polyhead/context.h"

namespace polyhead::test::gpu {

struct Item {
  std::string name;                          // "forward/causal_f32_...", "ops/gemm_..."
  std::function<std::string(Context&)> run;  // what is wrong, or nothing
};

std::vector<Item> attention_items();   // the whole catalogue, forward and backward
std::vector<Item> many_tiles_items();  // more of attention than an emulator can do in time
std::vector<Item> op_items();          // the other kernels of the table, beside the CPU's
std::vector<Item> training_items();    // passes of whole models, rounded and not
std::vector<Item> model_items();       // whole models in 16 bits, beside the CPU's
std::vector<Item> value_items();       // numbers on the device that are refused
std::vector<Item> queue_items();       // what a device that works in a queue must do besides

}  // namespace polyhead::test::gpu
