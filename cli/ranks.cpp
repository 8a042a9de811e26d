#include "cli/ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/say.h"
#include "io/checksum.h"
#include "io/file.h"
#include "polyhead/info.h"
#include "polyhead/version.h"

namespace polyhead::cli {
namespace {

std::unique_ptr<Ranks> joined;

// The bytes of this program.
std::string digest_of_command() {
  constexpr std::size_t kMost = std::size_t{1} << 32;
  io::Checksum sum;
  sum.add(io::read_file("/proc/self/exe", kMost));
  return sum.digits();
}

}  // namespace

Ranks& ranks() { return joined != nullptr ? *joined : alone(); }

void join_ranks(const Command& command, const std::vector<std::string>& arguments) {
  const std::optional<Launch> started = launch();
  if (!started || started->size == 1) return;
  const auto refuse = [&](Exit code, const std::string& why) {
    throw Failure(code, fmt::format("expected one process, found {} ranks, and {}; start it without mpirun or srun, or "
                                    "with POLYHEAD_RANKS=off, which lets each rank work by itself",
                                    started->size, why));
  };
  if (!command.on_ranks) refuse(Exit::usage, command.name + " does not share its work");
  if (!ranks::available()) refuse(Exit::device, ranks::reason());
  joined = ranks::join();
  if (joined->size() != started->size || joined->rank() != started->rank) {
    const std::string found = fmt::format("rank {} of {}", joined->rank(), joined->size());
    joined.reset();
    throw Failure(Exit::device,
                  fmt::format("expected rank {} of {} by the environment, found {} by {}; start it with the mpirun of "
                              "that MPI, or with POLYHEAD_RANKS=off, which lets each process work by itself",
                              started->rank, started->size, found, ranks::library()));
  }
  if (joined->rank() > 0) be_silent();
  const bool resumes = std::find(arguments.begin(), arguments.end(), "--resume") != arguments.end();
  expect_agreement(*joined, command.name, {{"command", command.name + (resumes ? " --resume" : "")}});
}

void leave_ranks() { joined.reset(); }

std::vector<Fact> own_facts() {
  if (ranks().size() == 1) return {};
  return {{"binary", fmt::format("polyhead {} with the digest {}", version(), digest_of_command())},
          {"set of vector instructions", info().target}};
}

void expect_ranks_alike(const std::string& command, const model::Transformer& model, const std::vector<Fact>& more) {
  if (ranks().size() == 1) return;
  io::Checksum weights;
  for (const autograd::Parameter* parameter : model.parameters()) weights.add(parameter->value);
  std::vector<Fact> facts = own_facts();
  facts.push_back({"model", model::to_json(model.config())});
  facts.push_back({"set of weights", weights.digits()});
  facts.insert(facts.end(), more.begin(), more.end());
  expect_agreement(ranks(), command, facts);
}

std::string digest_of(const std::vector<Examples>& examples) {
  io::Checksum sum;
  for (const Examples& some : examples) sum.add(some.tokens);
  return sum.digits();
}

}  // namespace polyhead::cli
