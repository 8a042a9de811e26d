// The memory that a model takes, from its config alone, before anything is allocated.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"

namespace polyhead::model {

class Transformer;

double parameter_count(const Config& config);  // a double: a config may ask for more than 2^63

// Of what a tape packs of a model's weights: blocks are read as they lie.
double packed_bytes(const Transformer& model);

// Bytes of one pass, accurate to within a tenth. In a backward pass, layers reuse the memory of each other's gradients;
// without one, they reuse all of each other's memory.
struct Pass {
  std::int64_t batch = 1, tokens = 1;
  bool backward = false, row_statistics = false;
  bool last_only = false;       // of a language model: the logits of the last token alone
  std::int64_t remembered = 0;  // tokens whose keys and values are kept
};
double pass_bytes(const Config& config, const Pass& pass);

// Of `copies` of the parameters (2 with gradients), the pass, and `more` for other things.
double bytes_of(const Config& config, int copies, const Pass& pass, double more = 0);
// Throws Error (value) if there is too little memory for these. `mend` tells the user what to do.
void expect_memory(std::string_view op, const Config& config, int copies, const Pass& pass, double more = 0,
                   const std::string& mend = "choose a smaller batch, context, width or number of layers");

}  // namespace polyhead::model
