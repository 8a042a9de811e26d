#include "model/family.h"

#include <algorithm>

#include "core/memory.h"
#include "core/numbers.h"
#include "core/processors.h"
#include "core/team.h"
#include "io/file.h"
#include "model/families.h"
#include "model/memory.h"

namespace polyhead::model {
namespace {

constexpr std::size_t kMostConfig = 1 << 24;
constexpr std::int64_t kMostFactors = 1 << 16;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "load", what); }

std::string type_of(const io::Json& config, const std::string& where) {
  return io::read_text(config, "model_type", where);
}

Family family_called(const std::string& name, bool gguf, const std::string& where) {
  std::vector<FamilyTable> families(std::begin(kDecoders), std::end(kDecoders));
  families.insert(families.end(), std::begin(kEncoders), std::end(kEncoders));
  if (gguf) families.assign(std::begin(kGgufFamilies), std::end(kGgufFamilies));
  for (const FamilyTable table : families) {
    if (Family family = table(); family.name == name) return family;
  }
  refuse(where + ": a model of the family " + io::in_quotes(name) + ", which polyhead does not run; it runs " +
         names_of(families, ", "));
}

// "blocks.3.attention.in_proj_weight" is "blocks.{}.attention.in_proj_weight" of layer "3".
struct Place {
  std::string pattern, layer;

  explicit Place(const std::string& name) : pattern(name) {
    const std::size_t begin = name.find('.') + 1, end = name.find('.', begin);
    if (!name.starts_with("blocks.")) return;
    layer = name.substr(begin, end - begin);
    pattern.replace(begin, end - begin, "{}");
  }
  std::string named(std::string source) const {
    if (const std::size_t at = source.find("{}"); at != source.npos) source.replace(at, 2, layer);
    return source;
  }
};

// A tensor's row r, of `bytes` each.
std::byte* row_of(Tensor& tensor, std::int64_t r, std::int64_t bytes) {
  return static_cast<std::byte*>(tensor.view().data()) + r * bytes;
}
const std::byte* row_of(const Tensor& tensor, std::int64_t r, std::int64_t bytes) {
  return static_cast<const std::byte*>(tensor.view().data()) + r * bytes;
}
std::int64_t row_bytes(const Tensor& tensor) {
  return count_of(tensor.shape()) / std::max<std::int64_t>(tensor.shape()[0], 1) *
         static_cast<std::int64_t>(size_of(tensor.dtype()));
}

// [R,C] from [C,R]; Number has the width of an element.
template <class Number>
Tensor transposed(const Tensor& from) {
  const std::int64_t rows = from.shape()[1], columns = from.shape()[0];
  Tensor to = Tensor::empty({rows, columns}, from.dtype());
  const auto* numbers = static_cast<const Number*>(from.view().data());
  auto* target = static_cast<Number*>(to.view().data());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) target[r * columns + c] = numbers[c * rows + r];
  }
  return to;
}

// Where row r of `rows` goes: by its source's rules about heads of head_dim rows, without the first ones. Below 0:
// away.
std::int64_t place_of(std::int64_t r, const Source& source, std::int64_t rows, std::int64_t head_dim) {
  const std::int64_t in_head = r % head_dim, first = r - in_head;
  if (rows % head_dim == 0 && source.interleaved) return first + in_head / 2 + in_head % 2 * (head_dim / 2);
  if (rows % head_dim == 0 && source.by_head) {  // [H, q k v, D] to [q k v, H, D]
    const std::int64_t part = r / head_dim, heads = rows / (3 * head_dim);
    return (part % 3 * heads + part / 3) * head_dim + in_head;
  }
  return r - source.skip;
}

// A tensor's rows in their places.
Tensor placed_rows(const Tensor& from, const Source& source, std::int64_t head_dim) {
  const std::int64_t rows = from.shape()[0], bytes = row_bytes(from);
  Dims shape = from.shape();
  shape[0] -= source.skip;
  Tensor to = Tensor::empty(shape, from.dtype());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t place = place_of(r, source, rows, head_dim);
    if (place >= 0) std::copy_n(row_of(from, r, bytes), bytes, row_of(to, place, bytes));
  }
  return to;
}

void add_first_row(const Tensor& row, Tensor& to) {
  const std::int64_t columns = to.shape()[1];
  for (std::int64_t n = 0; n < count_of(to.shape()); ++n) to.as<float>()[n] += row.as<float>()[n % columns];
}

class Loader {
 public:
  Loader(const io::ListedWeights& weights, const Family& family, const Config& config, const AsStored& kept)
      : family_(family), config_(config), kept_(kept), where_(weights.where.string()) {
    for (const auto& listed : weights.tensors) {
      std::string name = listed.tensor.name;
      if (!family.prefix.empty() && name.starts_with(family.prefix)) name.erase(0, family.prefix.size());
      for (const auto& [from, to] : family.renamed) {
        if (name.starts_with(from)) name.replace(0, from.size(), to);
      }
      if (const auto [other, fresh] = tensors_.emplace(name, &listed); !fresh) {
        refuse(where_ + ": tensors " + io::in_quotes(other->second->tensor.name) + " and " +
               io::in_quotes(listed.tensor.name) + " are both " + io::in_quotes(name) + " of the family " +
               family.name + "; remove one of them");
      }
    }
  }

  // Refuses sources that are missing, not floats, or do not make up the parameter. Nothing is read.
  void check(const autograd::Parameter& parameter) {
    const std::string& name = parameter.name;
    const Dims& shape = parameter.value.shape();
    const Place place(name);
    const std::vector<Source>& sources = family_.parameters.at(place.pattern);
    std::int64_t row = 0;
    for (const Source& source : sources) {
      const std::string own = place.named(source.name);
      const Dims part = rows_of(source, listed(own).tensor);
      const bool fits = part.rank() == shape.rank() && (shape.rank() == 1 || part[1] == shape[1]);
      row += fits ? part[0] : 0;
      const bool last = &source == &sources.back();
      if (!fits || row > shape[0] || (last && row != shape[0])) refuse_shape(own, part, name, shape);
      if (source.plus.empty()) continue;
      const Dims& added = listed(source.plus).tensor.shape;
      if (added.rank() != 2 || added[0] < 1 || added[1] != part[1]) refuse_shape(source.plus, added, name, shape);
    }
  }

  // A parameter that was checked: its one source, or the rows of several in order.
  Tensor make(const autograd::Parameter& parameter) const {
    const Dims& shape = parameter.value.shape();
    const Place place(parameter.name);
    const std::vector<Source>& sources = family_.parameters.at(place.pattern);
    if (sources.empty()) return Tensor::zeros(shape, DType::f32);
    if (const std::vector<BlockType> strips = strips_of(parameter, place, sources); !strips.empty()) {
      return blocks_of(shape, place, sources, strips);
    }
    const DType dtype = kept_.halves && may_be_half(parameter) ? common_type(place, sources) : DType::f32;
    if (sources.size() == 1) return read(place.named(sources[0].name), sources[0], dtype);
    Tensor result = Tensor::empty(shape, dtype);
    const std::int64_t bytes = row_bytes(result);
    std::int64_t row = 0;
    for (const Source& source : sources) {
      const Tensor part = read(place.named(source.name), source, dtype);
      std::copy_n(row_of(part, 0, bytes), part.shape()[0] * bytes, row_of(result, row, bytes));
      row += part.shape()[0];
    }
    return result;
  }

  void expect_nothing_left() const {
    for (const auto& entry : tensors_) {
      const std::string& name = entry.first;
      const bool ignored = std::any_of(family_.ignored.begin(), family_.ignored.end(),
                                       [&](const std::string& ending) { return name.ends_with(ending); });
      const bool beyond = std::any_of(family_.beyond.begin(), family_.beyond.end(),
                                      [&](const std::string& beginning) { return name.starts_with(beginning); });
      const bool copy = config_.tied && name == family_.parameters.at("output.weight")[0].name;
      if (!taken_.contains(name) && !ignored && !beyond && !copy && name != family_.rotary_factors) {
        refuse(where_ + ": tensor " + io::in_quotes(name) + " is in the file, but a model of the family " +
               family_.name + " has no place for it");
      }
    }
  }

 private:
  const io::ListedWeights::Listed& listed(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse(where_ + ": no tensor " + io::in_quotes(family_.prefix + name));
    taken_.insert(name);
    const io::StoredTensor& tensor = found->second->tensor;
    if (is_float(tensor.dtype)) return *found->second;
    refuse(where_ + ": tensor " + io::in_quotes(name) + ": expected numbers of a float type, found " + tensor.format +
           " " + to_string(tensor.shape));
  }

  // The shape of what the source takes from a tensor.
  static Dims rows_of(const Source& source, const io::StoredTensor& tensor) {
    const Dims& shape = tensor.shape;
    if (shape.rank() != 2) return shape;
    if (source.transposed) return {shape[1], shape[0]};
    return {std::max<std::int64_t>(shape[0] - source.skip, 0), shape[1]};
  }

  static bool is_moved_only(const Source& source) { return source.plus.empty() && !source.plus_one; }

  // The types of a parameter's strips, if it can stay in the blocks of its sources.
  std::vector<BlockType> strips_of(const autograd::Parameter& parameter, const Place& place,
                                   const std::vector<Source>& sources) const {
    if (!kept_.blocks || !may_be_half(parameter)) return {};
    std::vector<BlockType> rows;
    for (const Source& source : sources) {
      const io::StoredTensor& stored = tensors_.at(place.named(source.name))->tensor;
      if (!stored.blocks || source.transposed || !is_moved_only(source)) return {};
      rows.insert(rows.end(), static_cast<std::size_t>(rows_of(source, stored)[0]), *stored.blocks);
    }
    return types_of_strips(rows);
  }

  Tensor blocks_of(const Dims& shape, const Place& place, const std::vector<Source>& sources,
                   const std::vector<BlockType>& strips) const {
    BlockWriter writer(shape, strips);
    std::int64_t first = 0;
    for (const Source& source : sources) {
      const io::ListedWeights::Listed& listed = *tensors_.at(place.named(source.name));
      const BlockFormat& format = format_of(*listed.tensor.blocks);
      const std::int64_t rows = listed.tensor.shape[0];
      io::read_block_rows(listed, [&](std::int64_t r, std::span<const std::uint8_t> blocks) {
        const std::int64_t target = place_of(r, source, rows, config_.head_dim);
        if (!format.all_finite(blocks)) {
          refuse(where_ + ": " + listed.tensor.name +
                 ": expected finite numbers, found a scale of infinity or nan in row " + std::to_string(r) +
                 "; the training that made it went wrong, or the file is damaged");
        }
        if (target >= 0) writer.put(first + target, blocks.data());
      });
      first += rows_of(source, listed.tensor)[0];
    }
    return std::move(writer).finish();
  }

  // The 16-bit type that all sources are stored in and can stay in; else f32.
  DType common_type(const Place& place, const std::vector<Source>& sources) const {
    DType common = DType::f32;
    for (const Source& source : sources) {
      const DType dtype = tensors_.at(place.named(source.name))->tensor.dtype;
      if (size_of(dtype) != 2 || !is_moved_only(source)) return DType::f32;
      if (&source != &sources.front() && dtype != common) return DType::f32;
      common = dtype;
    }
    return common;
  }

  Tensor read(const std::string& name, const Source& source, DType dtype = DType::f32) const {
    Tensor tensor = io::read_weight(*tensors_.at(name));
    if (tensor.dtype() != dtype) tensor = widened(std::move(tensor));
    expect_finite(where_, name, tensor);
    if (source.plus_one) {
      for (std::int64_t n = 0; n < count_of(tensor.shape()); ++n) tensor.as<float>()[n] += 1;
    }
    if (source.transposed && tensor.shape().rank() == 2) {
      return dtype == DType::f32 ? transposed<float>(tensor) : transposed<std::uint16_t>(tensor);
    }
    if (source.interleaved || source.by_head || source.skip > 0) {
      tensor = placed_rows(tensor, source, config_.head_dim);
    }
    if (!source.plus.empty()) add_first_row(read(source.plus, {}), tensor);
    return tensor;
  }

  [[noreturn]] void refuse_shape(const std::string& source, const Dims& found, const std::string& name,
                                 const Dims& wanted) const {
    refuse(where_ + ": tensor " + io::in_quotes(source) + ": " + to_string(found) +
           " does not fit the config, which says that " + name + " is " + to_string(wanted));
  }

  const Family& family_;
  const Config& config_;
  AsStored kept_;
  std::string where_;
  std::map<std::string, const io::ListedWeights::Listed*> tensors_;
  std::set<std::string> taken_;
};

std::set<std::string> names_of(const io::ListedWeights& weights) {
  std::set<std::string> names;
  for (const auto& listed : weights.tensors) names.insert(listed.tensor.name);
  return names;
}

// A small tensor that belongs to the config; empty if the file does not have it.
std::vector<double> read_factors(const io::ListedWeights& weights, const std::string& name) {
  const auto found = std::find_if(weights.tensors.begin(), weights.tensors.end(),
                                  [&](const auto& listed) { return listed.tensor.name == name; });
  if (name.empty() || found == weights.tensors.end()) return {};
  const io::StoredTensor& stored = found->tensor;
  if (stored.shape.rank() != 1 || stored.shape[0] > kMostFactors || !is_float(stored.dtype)) {
    refuse(weights.where.string() + ": tensor " + io::in_quotes(name) + ": expected floats [pairs], up to " +
           std::to_string(kMostFactors) + ", found " + stored.format + " " + to_string(stored.shape));
  }
  const Tensor factors = widened(io::read_weight(*found));
  return {factors.as<float>(), factors.as<float>() + count_of(factors.shape())};
}

Config checked_config(const Family& family, const io::Json& json, const std::string& where,
                      const io::ListedWeights& weights) {
  double elements = 0;
  for (const auto& listed : weights.tensors) elements += static_cast<double>(count_of(listed.tensor.shape));
  try {
    Config config = family.read_config(json, where, names_of(weights));
    config.rotary_factors = read_factors(weights, family.rotary_factors);
    check(config);
    Config least = config;
    least.bias = false;  // some may not be in the file
    if (parameter_count(least) > elements) {
      refuse(where + " asks for more numbers than the " + std::to_string(static_cast<std::int64_t>(elements)) +
             " that " + weights.where.string() + " has");
    }
    return config;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::input) throw;
    refuse(where + ": " + error.what());
  }
}

}  // namespace

std::string names_of(std::span<const FamilyTable> families, const std::string& last) {
  std::string names;
  for (std::size_t n = 0; n < families.size(); ++n) {
    names += (n == 0 ? "" : n + 1 == families.size() ? last : ", ") + families[n]().name;
  }
  return names;
}

void drop_biases(Family& family, const std::string& of) {
  for (auto& [name, sources] : family.parameters) {
    if (name.starts_with("blocks.{}." + of + ".") && name.ends_with("bias")) sources.clear();
  }
}

double loaded_bytes(const io::ListedWeights& weights, const AsStored& kept) {
  double bytes = 0;
  for (const auto& [file, tensor] : weights.tensors) {
    const bool matrix = tensor.shape.rank() == 2, half = kept.halves && matrix && size_of(tensor.dtype) == 2;
    bytes += kept.blocks && matrix && tensor.blocks ? static_cast<double>(tensor.bytes)
                                                    : (half ? 2.0 : 4.0) * static_cast<double>(count_of(tensor.shape));
  }
  return bytes;
}

bool is_own(const std::filesystem::path& model) {
  const std::filesystem::path ending = io::model_of(model).extension();
  if (ending == ".gguf" || ending == ".safetensors") return false;
  if (!io::is_folder(model)) return true;  // load_config says what is missing
  if (!io::is_there(model / kConfigFile)) return !io::holds_other_formats(model);
  const std::string where = (model / kConfigFile).string();
  const io::Json json = io::parse_json(io::read_file(where, kMostConfig), where);
  return !json.is_object() || !json.contains("model_type") || type_of(json, where).starts_with("polyhead-");
}

namespace {

// What the files say about the model, before any weight is read.
struct Foreign {
  explicit Foreign(const io::ListedWeights& weights) {
    const bool gguf = !weights.metadata.is_null();
    const std::string where = gguf ? weights.where.string() : (weights.where.parent_path() / kConfigFile).string();
    const io::Json json = gguf ? weights.metadata : io::parse_json(io::read_file(where, kMostConfig), where);
    family =
        family_called(gguf ? io::read_text(json, "general.architecture", where) : type_of(json, where), gguf, where);
    if (family.settle != nullptr) family.settle(json, where, names_of(weights), family);
    config = checked_config(family, json, where, weights);
  }

  Family family;
  Config config;
};

// Refuses weights that do not fit; nothing is read.
void check_all(Loader& loader, const Transformer& model) {
  for (const autograd::Parameter* parameter : model.parameters()) loader.check(*parameter);
  loader.expect_nothing_left();
}

// For tensors of which only the shape matters.
class NoAllocator final : public Allocator {
 public:
  Device device() const noexcept override { return {}; }
  void* allocate(std::size_t) override { return &nothing_; }
  void release(void*, std::size_t) noexcept override {}
  void zero(void*, std::size_t) override {}
  void copy_in(void*, const void*, std::size_t) override {}
  void copy_out(void*, const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}

 private:
  alignas(64) std::byte nothing_{};
};

}  // namespace

Config foreign_config(const io::ListedWeights& weights) { return Foreign(weights).config; }

void check_foreign(const io::ListedWeights& weights) {
  const Foreign foreign(weights);
  const auto shapes = Transformer::unfilled(foreign.config, DType::f32, std::make_shared<NoAllocator>());
  Loader loader(weights, foreign.family, foreign.config, {});
  check_all(loader, *shapes);
}

// Threads that read, widen and assemble parameters; each holds part of one in addition to the model, for which there is
// more room if that goes to another memory.
constexpr int kReaders = 2, kReadersForDevice = 8;

std::unique_ptr<Transformer> load_foreign(const std::filesystem::path& model, const Placement& placement) {
  const io::ListedWeights weights = io::list_weights(model);
  const Foreign foreign(weights);
  polyhead::expect_memory("load", weights.where.string(), loaded_bytes(weights, placement.as_stored()),
                          "load it on a machine that has more");
  auto made = Transformer::unfilled(foreign.config, DType::f32, placement.memory());
  Loader loader(weights, foreign.family, foreign.config, placement.as_stored());
  check_all(loader, *made);
  const std::vector<autograd::Parameter*> all = made->parameters();
  Team team(std::min(placement.memory()->device() == Device{} ? kReaders : kReadersForDevice, usable_processors()));
  team.for_each(std::ssize(all), 1, team.threads(), [&](int) {
    return [&](std::int64_t n) {
      autograd::Parameter& parameter = *all[static_cast<std::size_t>(n)];
      parameter.value = placement.placed(weights.where.string(), parameter, loader.make(parameter));
    };
  });
  return made;
}

}  // namespace polyhead::model
