// The roles of a model that reads text: found once by the standard probe, then kept in the cache where fetched models
// are, in a file that is named after a digest of the weights and the probe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heads/roles.h"
#include "text/tokenizer.h"

namespace polyhead::heads {

// Of the definitions of roles: another one makes all files stale. A test notices scores that change without it.
inline constexpr int kRolesVersion = 2;

// Both are empty if the tokenizer reads none of the probe's texts.
std::vector<HeadRoles> standard_roles(Context& context, const model::Transformer& model,
                                      const text::Tokenizer& tokenizer);
// Of a model of the same shape with fresh weights, the control of all detectors; `draw` makes it.
std::vector<HeadRoles> untrained_roles(Context& context, const model::Config& config, const text::Tokenizer& tokenizer,
                                       std::uint64_t seed,
                                       const std::function<std::unique_ptr<model::Transformer>()>& draw);

// What is kept under this digest. If there is nothing, or it is damaged or of another version, what `find` finds is
// kept; a cache that cannot be written is no error.
std::vector<HeadRoles> kept_roles(const std::string& digest, const std::function<std::vector<HeadRoles>()>& find);

}  // namespace polyhead::heads
