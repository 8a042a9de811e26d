// The ranks that a command runs on: those that mpirun or srun started, or one process alone.
#pragma once

#include <vector>

#include "cli/commands.h"
#include "core/ranks.h"
#include "model/transformer.h"
#include "polyhead/model.h"

namespace polyhead::cli {

// One alone, until they have been joined.
Ranks& ranks();

// Before a command runs, if it was started several times. Failure (usage) if it is not one for several ranks, (device)
// if this build has none or its MPI is not the launcher's. All but rank 0 are silent from now on, and all run one
// command.
void join_ranks(const Command& command, const std::vector<std::string>& arguments);

// At the end of a command that went well, or that ends on all ranks together: waits for the others.
void leave_ranks();

// What a command's ranks must agree on, whatever it does; and those of a command that examines a model, which must
// agree on that and on `more`, too.
std::vector<Fact> own_facts();
void expect_ranks_alike(const std::string& command, const model::Transformer& model, const std::vector<Fact>& more);
std::string digest_of(const std::vector<Examples>& examples);  // of their tokens

}  // namespace polyhead::cli
