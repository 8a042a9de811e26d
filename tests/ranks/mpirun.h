// Runs the real command on ranks.
#pragma once

#include <cstdlib>
#include <string>

#include "cli/run.h"
#include "io/scratch.h"

namespace polyhead::ranks {

using cli::contains, cli::Ran, cli::shell;

// Open MPI starts nothing for root, nor more ranks than there are processors, unless it is told to; others need no
// word.
inline void allow_many_ranks() {
  for (const char* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"}) {
    setenv(name, "1", 1);
  }
}

// "mpirun -n 3 polyhead train ..."; one that fails does not wait for ranks that end anyway; further programs of the
// same job may follow, each as " : -n 1 ...".
inline std::string mpirun(int ranks, const std::string& arguments) {
  allow_many_ranks();
  return "OMPI_MCA_odls_base_sigkill_timeout=0 '" POLYHEAD_MPIRUN "' -n " + std::to_string(ranks) + " " +
         cli::command(arguments);
}

// Both outputs.
inline Ran said_by(const std::string& line) { return shell(line + " 2>&1"); }

}  // namespace polyhead::ranks
