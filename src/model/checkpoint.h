// A model on disk: a folder with config.json and model.safetensors.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "io/safetensors.h"
#include "model/transformer.h"

namespace polyhead::model {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kWeightsFile = "model.safetensors";

// Tensors by name, to be written; those on a device are copied to the host.
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
// the config: the error names the first that is missing, extra or of another shape. `memory` is that of the context
// that passes run on, or the host's. Models that others saved are loaded too: see family.h.
std::unique_ptr<Transformer> load(const std::filesystem::path& folder,
                                  const std::shared_ptr<Allocator>& memory = host_allocator());
Config load_config(const std::filesystem::path& folder);

// Refuses (input) a tensor with NaN or infinity in it, and says where. `where` is the file, for the message.
void expect_finite(const std::string& where, const std::string& name, const Tensor& tensor);

// Whether a parameter may have 16 bits in an f32 model on the host: products and token look-ups widen it as they read.
// On a device, products need one type.
bool may_be_half(const autograd::Parameter& parameter);

// The model's parameters by name, to be written or read along with others.
HostTensors named_parameters(const Transformer& model);
// Moves the model's parameters out of the file; refuses those that are not finite.
void take_parameters(io::Safetensors& file, Transformer& model);

}  // namespace polyhead::model
