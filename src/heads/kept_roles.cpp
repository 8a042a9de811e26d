#include "heads/kept_roles.h"

#include <filesystem>
#include <memory>

#include "heads/standard_probe.h"
#include "io/checksum.h"
#include "io/fetched.h"
#include "io/file.h"
#include "io/json.h"

namespace polyhead::heads {
namespace {

using io::Json;

constexpr std::size_t kMostBytes = std::size_t{1} << 28;

Json json_of(const RoleScore& score) {
  Json json{{"role", score.role}, {"score", score.score}, {"threshold", score.threshold}, {"control", score.control}};
  if (!score.note.empty()) json["note"] = score.note;
  if (score.interval) json["interval"] = {score.interval->low, score.interval->high};
  if (score.p) json["p"] = *score.p;
  json["by_chance"] = score.by_chance;
  json["number_only"] = score.number_only;
  return json;
}

RoleScore score_in(const Json& json) {
  RoleScore score{.role = json.at("role").get<std::string>(),
                  .score = json.at("score").get<double>(),
                  .threshold = json.at("threshold").get<double>(),
                  .control = json.at("control").get<double>()};
  if (json.contains("note")) score.note = json["note"].get<std::string>();
  if (json.contains("interval"))
    score.interval = {json["interval"].at(0).get<double>(), json["interval"].at(1).get<double>()};
  if (json.contains("p")) score.p = json["p"].get<double>();
  score.by_chance = json.at("by_chance").get<bool>();
  score.number_only = json.at("number_only").get<bool>();
  return score;
}

Json json_of(const std::vector<HeadRoles>& heads) {
  Json list = Json::array();
  for (const HeadRoles& head : heads) {
    Json scores = Json::array();
    for (const RoleScore& score : head.scores) scores.push_back(json_of(score));
    list.push_back({{"layer", head.id.layer}, {"head", head.id.head}, {"scores", std::move(scores)}});
  }
  return list;
}

std::string checksum_of(const Json& heads) {
  io::Checksum sum;
  sum.add(heads.dump());
  return sum.digits();
}

// Nothing if the file is not there, is damaged or stale.
std::optional<std::vector<HeadRoles>> kept_in(const std::filesystem::path& file, const std::string& digest) {
  try {
    const Json json = io::parse_json(io::read_file(file, kMostBytes), file.string());
    const Json& list = json.at("heads");
    if (json.at("version") != kRolesVersion || json.at("digest") != digest ||
        json.at("checksum") != checksum_of(list)) {
      return std::nullopt;
    }
    std::vector<HeadRoles> heads;
    for (const Json& one : list) {
      HeadRoles& head =
          heads.emplace_back(HeadRoles{{one.at("layer").get<std::size_t>(), one.at("head").get<std::int64_t>()}, {}});
      for (const Json& score : one.at("scores")) head.scores.push_back(score_in(score));
    }
    return heads;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void keep(const std::filesystem::path& file, const std::string& digest, const std::vector<HeadRoles>& heads) {
  try {
    const Json list = json_of(heads);
    const Json json{{"version", kRolesVersion}, {"digest", digest}, {"checksum", checksum_of(list)}, {"heads", list}};
    io::make_folder(file.parent_path());
    io::write_atomically(file, [&](io::Writer& writer) { writer.write(json.dump()); });
  } catch (const std::exception&) {  // they are found again next time
  }
}

void add(const std::vector<Probe>& probes, io::Checksum& to) {
  for (const Probe& probe : probes) {
    to.add(probe.tokens);
    to.add(probe.separators);
    if (probe.special.present()) to.add(probe.special);
    to.add(probe.targets);
  }
}

void add(const model::Config& config, const Probes& probes, io::Checksum& sum) {
  sum.add(model::to_json(config));
  add(probes.plain, sum);
  add(probes.repeats, sum);
}

}  // namespace

std::vector<HeadRoles> kept_roles(const std::string& digest, const std::function<std::vector<HeadRoles>()>& find) {
  std::filesystem::path file;
  try {
    file = io::cache_folder() / "roles" / (digest + ".json");
  } catch (const Error&) {  // there is no place for a cache
    return find();
  }
  if (std::optional<std::vector<HeadRoles>> kept = kept_in(file, digest)) return std::move(*kept);
  std::vector<HeadRoles> found = find();
  keep(file, digest, found);
  return found;
}

std::vector<HeadRoles> standard_roles(Context& context, const model::Transformer& model,
                                      const text::Tokenizer& tokenizer) {
  const Probes probes = standard_probes(tokenizer, model.config());
  if (probes.plain.empty()) return {};
  io::Checksum sum;
  add(model.config(), probes, sum);
  for (const autograd::Parameter* parameter : model.parameters()) sum.add(parameter->value);
  return kept_roles(sum.digits(), [&] { return survey_roles(context, model, probes).roles; });
}

std::vector<HeadRoles> untrained_roles(Context& context, const model::Config& config, const text::Tokenizer& tokenizer,
                                       std::uint64_t seed,
                                       const std::function<std::unique_ptr<model::Transformer>()>& draw) {
  const Probes probes = standard_probes(tokenizer, config);
  if (probes.plain.empty()) return {};
  io::Checksum sum;
  add(config, probes, sum);
  sum.add("untrained " + std::to_string(seed));
  return kept_roles(sum.digits(), [&] {
    const std::unique_ptr<model::Transformer> untrained = draw();
    autograd::Tape tape(context, false);
    tape.pack_weights(ops::Products::coarse);
    return survey_roles(tape, *untrained, probes).roles;
  });
}

}  // namespace polyhead::heads
