// What a model takes, from its config alone: asked before anything is allocated.
#pragma once

#include <string>
#include <string_view>

#include "model/config.h"

namespace polyhead::model {

double parameter_count(const Config& config);  // a double: a config may ask for more than 2^63

// Bytes of one pass over so many tokens; with the way back, and with statistics of every row, if wanted. The way back
// hands the memory of a layer's gradients on to the next, a pass without it all that a layer made. Within a tenth.
struct Pass {
  std::int64_t batch = 1, tokens = 1;
  bool backward = false, row_statistics = false;
  bool last_only = false;       // of a language model: the logits of the last token alone
  std::int64_t remembered = 0;  // tokens that the keys and values of are kept
};
double pass_bytes(const Config& config, const Pass& pass);

// Throws Error (value) if there is not so much memory. `copies` of the parameters: 2 with their gradients. `mend` says
// what to do about it.
void expect_memory(std::string_view op, const Config& config, int copies, const Pass& pass, double more = 0,
                   const std::string& mend = "choose a smaller batch, context, width or number of layers");

}  // namespace polyhead::model
