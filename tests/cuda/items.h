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
// Calls of all options together, forward and backward: seeds from `first` on. A draw that fails is made again by its
// seed: --filter drawn/ --first 17 --draws 1.
std::vector<Item> drawn_items(int first, int count);
std::vector<Item> gradient_items();  // of rows in which one key has nearly all the weight
std::vector<Item> op_items();        // the other kernels of the table, beside the CPU's
std::vector<Item> training_items();  // passes of whole models, rounded and not
std::vector<Item> model_items();     // whole models in 16 bits, beside the CPU's
std::vector<Item> decoding_items();  // draws, caches and generation, beside the CPU's
std::vector<Item> value_items();     // numbers on the device that are refused
std::vector<Item> queue_items();     // what a device that works in a queue must do besides

}  // namespace polyhead::test::gpu
