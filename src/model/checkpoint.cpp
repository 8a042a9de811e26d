#include "model/checkpoint.h"

#include <cstring>

#include "io/file.h"

namespace polyhead::model {
namespace {

constexpr std::size_t kMostConfig = 1 << 20;

io::Metadata mark() { return {{"format", "polyhead"}}; }

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "load", what); }

}  // namespace

std::vector<io::NamedTensor> named_parameters(const Transformer& model) {
  std::vector<io::NamedTensor> named;
  for (const autograd::Parameter* parameter : model.parameters()) named.push_back({parameter->name, parameter->value});
  return named;
}

void take_parameters(io::Safetensors& file, Transformer& model) {
  for (autograd::Parameter* parameter : model.parameters()) {
    const Tensor found = file.take(parameter->name);
    const TensorView to = parameter->value;
    if (found.shape() != to.shape() || found.dtype() != to.dtype()) {
      refuse(file.where + ": " + parameter->name + ": config.json asks for " + describe(to) + ", found " +
             describe(found));
    }
    std::memcpy(to.data(), found.view().data(), static_cast<std::size_t>(to.count()) * size_of(to.dtype()));
  }
}

void save_config(const Config& config, const std::filesystem::path& folder) {
  io::write_atomically(folder / kConfigFile, [&](io::Writer& writer) { writer.write(to_json(config)); });
}

void save(const Transformer& model, const std::filesystem::path& folder) {
  save_config(model.config(), folder);
  io::write_safetensors(folder / kWeightsFile, named_parameters(model), mark());
}

std::uint64_t saved_bytes(const Transformer& model) { return io::safetensors_bytes(named_parameters(model), mark()); }

Config load_config(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) {
    refuse(folder.string() + ": expected a folder with " + kConfigFile + " and " + kWeightsFile +
           ", as polyhead train makes");
  }
  const std::filesystem::path path = folder / kConfigFile;
  return config_from_json(io::read_file(path, kMostConfig), path.string());
}

std::unique_ptr<Transformer> load(const std::filesystem::path& folder) {
  const Config config = load_config(folder);
  io::Safetensors file = io::read_safetensors(folder / kWeightsFile);
  auto model = std::make_unique<Transformer>(config);
  take_parameters(file, *model);
  for (const auto& [name, tensor] : file.tensors) {
    if (file.has(name))
      refuse(file.where + ": " + name + " is in the file, but the model of config.json has no place for it");
  }
  return model;
}

}  // namespace polyhead::model
