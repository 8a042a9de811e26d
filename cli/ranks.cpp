#include "cli/ranks.h"

#include <fmt/format.h>

#include "cli/say.h"
#include "core/numbers.h"
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

void add_to(io::Checksum& sum, const Tensor& tensor) {
  const Tensor here = copied_to_host(tensor);
  sum.add(here.view().data(), static_cast<std::size_t>(here.view().count()) * size_of(here.dtype()));
}

}  // namespace

Ranks& ranks() { return joined != nullptr ? *joined : alone(); }

void join_ranks(const Command& command) {
  const std::optional<Launch> started = launch();
  if (!started) return;
  if (started->rank > 0) be_silent();
  if (started->size > 1 && !command.on_ranks) {
    throw Failure(Exit::usage, fmt::format("expected one process, found {} ranks; {} does not share its work: start it "
                                           "without mpirun or srun",
                                           started->size, command.name));
  }
  if (!command.on_ranks) return;
  if (ranks::available()) {
    joined = ranks::join();
  } else if (started->size > 1) {
    throw Failure(Exit::device,
                  fmt::format("expected one process, found {} ranks: {}", started->size, ranks::reason()));
  }
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
  for (const autograd::Parameter* parameter : model.parameters()) add_to(weights, parameter->value);
  std::vector<Fact> facts = own_facts();
  facts.push_back({"model", model::to_json(model.config())});
  facts.push_back({"set of weights", weights.digits()});
  facts.insert(facts.end(), more.begin(), more.end());
  expect_agreement(ranks(), command, facts);
}

std::string digest_of(const std::vector<Examples>& examples) {
  io::Checksum sum;
  for (const Examples& some : examples) add_to(sum, some.tokens);
  return sum.digits();
}

}  // namespace polyhead::cli
