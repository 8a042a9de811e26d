#include "model/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/numbers.h"
#include "io/file.h"
#include "model/family.h"
#include "model/memory.h"
#include "ops/call.h"

namespace polyhead::model {
namespace {

constexpr std::size_t kMostConfig = 1 << 20;

constexpr const char* kFormat = "polyhead";

// Includes the config, so that a config.json of other weights is detected.
io::Metadata mark(const Config& config) { return {{"format", kFormat}, {"config", to_json(config)}}; }

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "load", what); }

// Whether no exponent is that of infinity or NaN. No early exit, so that the compiler vectorises the loop.
template <class Number>
bool all_finite(const Number* numbers, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(Number) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>>;
  const auto exponent = std::bit_cast<Bits>(static_cast<Number>(std::numeric_limits<float>::infinity()));
  Bits bad = 0;
  for (std::int64_t n = 0; n < count; ++n) bad |= (std::bit_cast<Bits>(numbers[n]) & exponent) == exponent;
  return bad == 0;
}

template <class Number>
void expect_finite(const std::string& where, const std::string& name, const Tensor& tensor) {
  using Wide = std::conditional_t<sizeof(Number) == 2, float, Number>;
  const Number* numbers = tensor.as<Number>();
  const std::int64_t count = count_of(tensor.shape());
  if (all_finite(numbers, count)) return;
  const auto* found =
      std::find_if(numbers, numbers + count, [](Number x) { return !std::isfinite(static_cast<Wide>(x)); });
  const auto number = static_cast<Wide>(*found);
  std::int64_t rest = found - numbers;
  Dims index = tensor.shape();
  for (int axis = index.rank() - 1; axis >= 0; rest /= tensor.shape()[axis--]) index[axis] = rest % index[axis];
  refuse(where + ": " + name + ": expected finite numbers, found " +
         (std::isnan(number) ? "nan"
          : number > 0       ? "inf"
                             : "-inf") +
         " at " + to_string(index) + "; the training that made it went wrong, or the file is damaged");
}

std::int64_t elements_of(const io::Safetensors& file) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : file.tensors) count += count_of(tensor.shape());
  return count;
}

// Weights that polyhead saved must be whole and lie beside the config that they were saved with.
void expect_own(io::Safetensors& file, const Config& config) {
  if (file.metadata["format"] != kFormat) return;  // another program's, which promises nothing
  if (!file.checked)
    refuse(file.where + ": expected a checksum, found none: the file is damaged, or was tampered with");
  if (file.metadata["config"] == to_json(config)) return;
  refuse(file.where + ": expected " + kConfigFile +
         " to be the one that these weights were saved with, found another; take both from the same model");
}

// A missing file is an error of the input, not of the file system.
void expect_file(const std::filesystem::path& folder, const char* name) {
  if (io::is_there(folder / name)) return;
  refuse(folder.string() + ": expected " + kConfigFile + " and " + kWeightsFile + ", found no " + name);
}

}  // namespace

void HostTensors::add(const std::string& name, const Tensor& tensor) {
  const bool here = tensor.device() == Device{} && tensor.dtype() != DType::blocks;
  if (!here) copies_.push_back(numbers_on_host(tensor));
  named_.push_back({name, here ? tensor.view() : std::as_const(copies_.back()).view()});
}

HostTensors named_parameters(const Transformer& model) {
  HostTensors tensors;
  for (const autograd::Parameter* parameter : model.parameters()) tensors.add(parameter->name, parameter->value);
  return tensors;
}

void expect_finite(const std::string& where, const std::string& name, const Tensor& tensor) {
  if (tensor.dtype() == DType::f32) expect_finite<float>(where, name, tensor);
  if (tensor.dtype() == DType::f64) expect_finite<double>(where, name, tensor);
  if (tensor.dtype() == DType::f16) expect_finite<float16>(where, name, tensor);
  if (tensor.dtype() == DType::bf16) expect_finite<bfloat16>(where, name, tensor);
}

bool may_be_half(const autograd::Parameter& parameter) {
  return parameter.value.shape().rank() == 2 && parameter.name != "positions.weight";
}

Placement::Placement(const Context& context, Precision precision)
    : memory_(context.allocator()), widens_(ops::widens_weights(context)) {
  if (widens_) return;
  if (precision == Precision::bf16) half_ = DType::bf16;
  if (precision == Precision::f16) half_ = DType::f16;
}

Tensor Placement::placed(const std::string& where, const autograd::Parameter& parameter, Tensor found) const {
  if (widens_) return moved_to(memory_, std::move(found));
  Tensor fitting = converted(std::move(found), half_ && may_be_half(parameter) ? *half_ : DType::f32);
  if (fitting.dtype() == DType::f16 && !all_finite(fitting.as<float16>(), count_of(fitting.shape()))) {
    refuse(where + ": " + parameter.name + ": expected numbers up to 65504, which f16 can hold, found larger ones; " +
           "take the precision bf16");
  }
  return moved_to(memory_, std::move(fitting));
}

void take_parameters(io::Safetensors& file, Transformer& model, const Placement& placement) {
  for (autograd::Parameter* parameter : model.parameters()) {
    Tensor found = file.take(parameter->name);
    const ConstTensorView to = parameter->value;
    const bool fits = found.dtype() == to.dtype() || (size_of(found.dtype()) == 2 && may_be_half(*parameter));
    if (found.shape() != to.shape() || !fits) {
      refuse(file.where + ": " + parameter->name + ": config.json asks for " + describe(to) + ", found " +
             describe(found));
    }
    expect_finite(file.where, parameter->name, found);
    parameter->value = placement.placed(file.where, *parameter, std::move(found));
  }
}

void save_config(const Config& config, const std::filesystem::path& folder) {
  io::write_atomically(folder / kConfigFile, [&](io::Writer& writer) { writer.write(to_json(config)); });
}

void save(const Transformer& model, const std::filesystem::path& folder) {
  save_config(model.config(), folder);
  io::write_safetensors(folder / kWeightsFile, named_parameters(model).named(), mark(model.config()));
}

std::uint64_t saved_bytes(const Transformer& model) {
  std::vector<io::NamedTensor> named;  // their data are not looked at
  for (const autograd::Parameter* parameter : model.parameters()) {
    const ConstTensorView value = parameter->value;
    const DType written = value.dtype() == DType::blocks ? DType::f32 : value.dtype();
    named.push_back({parameter->name, {value.data(), written, value.shape(), value.strides(), value.device()}});
  }
  return io::safetensors_bytes(named, mark(model.config()));
}

Config load_config(const std::filesystem::path& folder) {
  if (!io::is_folder(folder)) {
    refuse(folder.string() + ": expected a folder with " + kConfigFile + " and " + kWeightsFile +
           ", as polyhead train makes, or a .gguf file");
  }
  expect_file(folder, kConfigFile);
  const std::filesystem::path path = folder / kConfigFile;
  return config_from_json(io::read_file(path, kMostConfig), path.string());
}

std::unique_ptr<Transformer> load(const std::filesystem::path& folder, const Context& context, Precision precision) {
  const Placement placement(context, precision);
  if (!is_own(folder)) return load_foreign(folder, placement);
  const Config config = load_config(folder);
  expect_file(folder, kWeightsFile);
  io::Safetensors file = io::read_safetensors(folder / kWeightsFile);
  expect_own(file, config);
  if (const std::int64_t found = elements_of(file); parameter_count(config) > static_cast<double>(found)) {
    refuse(file.where + ": " + kConfigFile + " asks for more numbers than the " + std::to_string(found) +
           " that are found here");
  }
  auto model = Transformer::unfilled(config, DType::f32, placement.memory());
  take_parameters(file, *model, placement);
  for (const auto& [name, tensor] : file.tensors) {
    if (file.has(name))
      refuse(file.where + ": " + name + " is in the file, but the model of config.json has no place for it");
  }
  return model;
}

}  // namespace polyhead::model
