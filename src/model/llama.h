// What the families that descend from Llama have in common.
#pragma once

#include <set>
#include <string>

#include "io/json.h"
#include "model/config.h"

namespace polyhead::model {

// Sizes, rotary positions and tied embeddings, by the keys of Llama's config.json; without biases and windows.
Config read_llama_like(const io::Json& json, const std::string& where, const std::set<std::string>& tensors);

// "rope_scaling", which newer files call "rope_parameters", and which may have the base and the share of columns that
// are rotated, too; `share` is what it is otherwise.
void read_rotary(const io::Json& json, const std::string& where, double share, Config& config);

// The window of every layer: as "layer_types" says or, where there is no such list, of those from `first` on.
void read_windows(const io::Json& json, const std::string& where, std::int64_t window, std::int64_t first,
                  Config& config);

}  // namespace polyhead::model
