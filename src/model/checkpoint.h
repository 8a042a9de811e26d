// A model on disk: a folder with config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "io/safetensors.h"
#include "model/transformer.h"

namespace polyhead::model {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kWeightsFile = "model.safetensors";

// Tensors by name, to be written; those on a device are copied to the host, those of blocks are widened.
class HostTensors {
 public:
  void add(const std::string& name, const Tensor& tensor);
  const std::vector<io::NamedTensor>& named() const noexcept { return named_; }

 private:
  std::vector<io::NamedTensor> named_;
  std::vector<Tensor> copies_;
};

// Each file is replaced as a whole or left alone. The folder must be there.
void save(const Transformer& model, const std::filesystem::path& folder);
std::uint64_t saved_bytes(const Transformer& model);  // of the weights' file
void save_config(const Config& config, const std::filesystem::path& folder);

// Refuses (input) a path that is no such folder, weights that are damaged or not finite, and weights that do not fit
// the config: the error names the first that is missing, extra or of another shape. The parameters lie in the memory of
// the context, where Placement says how. Models that others saved are loaded too: see family.h.
std::unique_ptr<Transformer> load(const std::filesystem::path& folder, const Context& context, Precision precision);
inline std::unique_ptr<Transformer> load(const std::filesystem::path& folder, const Context& context = Context(1)) {
  return load(folder, context, context.precision());
}
Config load_config(const std::filesystem::path& folder);

// Refuses (input) a tensor with NaN or infinity in it, and says where. `where` is the file, for the message.
void expect_finite(const std::string& where, const std::string& name, const Tensor& tensor);

// Whether a parameter may have 16 bits in an f32 model: products and token look-ups widen it as they read.
bool may_be_half(const autograd::Parameter& parameter);

// How matrices may stay that were not stored in f32.
struct AsStored {
  bool halves = false, blocks = false;
};

// How the parameters of a loaded model lie in the memory of a context. If its products widen weights, those that may be
// half stay as they are stored, in 16 bits or in blocks; else they have the 16 bits of the precision, or become f32.
// The rest is f32.
class Placement {
 public:
  Placement(const Context& context, Precision precision);
  AsStored as_stored() const noexcept { return {.halves = widens_ || half_, .blocks = widens_}; }
  const std::shared_ptr<Allocator>& memory() const noexcept { return memory_; }
  // A host tensor in the parameter's place. Refuses (input) numbers that are finite in the file, and not in 16 bits.
  Tensor placed(const std::string& where, const autograd::Parameter& parameter, Tensor found) const;

 private:
  const std::shared_ptr<Allocator> memory_;
  const bool widens_;
  std::optional<DType> half_;  // that matrices are rounded to
};

// The model's parameters by name, to be written or read along with others.
HostTensors named_parameters(const Transformer& model);
// Moves the model's parameters out of the file; refuses those that are not finite.
void take_parameters(io::Safetensors& file, Transformer& model, const Placement& placement);

}  // namespace polyhead::model
