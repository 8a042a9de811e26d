#include "model/family.h"

#include <algorithm>
#include <cstring>

#include "core/numbers.h"
#include "io/file.h"
#include "io/weights.h"
#include "model/checkpoint.h"
#include "model/memory.h"

namespace polyhead::model {
namespace {

constexpr std::size_t kMostConfig = 1 << 24;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::input, "load", what); }

std::string type_of(const io::Json& config, const std::string& where) {
  return io::read_text(config, "model_type", where);
}

Family family_called(const std::string& name, bool gguf, const std::string& where) {
  const std::vector<Family> families =
      gguf ? std::vector{llama_gguf_family(), qwen2_gguf_family(), qwen3_gguf_family(), gemma2_gguf_family(),
                         gemma3_gguf_family()}
           : std::vector{gpt2_family(),  llama_family(),   mistral_family(),   qwen2_family(),
                         qwen3_family(), gemma2_family(),  gemma3_family(),    gpt_neox_family(),
                         bert_family(),  roberta_family(), distilbert_family()};
  std::string known;
  for (const Family& family : families) {
    if (family.name == name) return family;
    known += (known.empty() ? "" : ", ") + family.name;
  }
  refuse(where + ": a model of the family " + io::in_quotes(name) + ", which polyhead does not run; it runs " + known);
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

template <class Number>
void widen(const Tensor& from, float* to) {
  const Number* numbers = from.as<Number>();
  std::transform(numbers, numbers + count_of(from.shape()), to, [](Number x) { return static_cast<float>(x); });
}

Tensor widened(Tensor tensor, const std::string& where) {
  if (tensor.dtype() == DType::f32) return tensor;
  Tensor wide = Tensor::empty(tensor.shape(), DType::f32);
  switch (tensor.dtype()) {
    case DType::f64: widen<double>(tensor, wide.as<float>()); break;
    case DType::f16: widen<float16>(tensor, wide.as<float>()); break;
    case DType::bf16: widen<bfloat16>(tensor, wide.as<float>()); break;
    default: refuse(where + ": expected numbers of a float type, found " + describe(tensor));
  }
  return wide;
}

// [R,C] from [C,R].
Tensor transposed(const Tensor& from) {
  const std::int64_t rows = from.shape()[1], columns = from.shape()[0];
  Tensor to = Tensor::empty({rows, columns}, DType::f32);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to.as<float>()[r * columns + c] = from.as<float>()[c * rows + r];
  }
  return to;
}

// Rows 2c and 2c + 1 of each head [D rows] to c and c + D/2.
Tensor apart(const Tensor& from, std::int64_t head_dim) {
  const std::int64_t rows = from.shape()[0], columns = from.shape()[1];
  Tensor to = Tensor::empty(from.shape(), DType::f32);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t in_head = r % head_dim, target = r - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
    std::memcpy(to.as<float>() + target * columns, from.as<float>() + r * columns,
                static_cast<std::size_t>(columns) * sizeof(float));
  }
  return to;
}

// Rows [H, q k v, D] to [q k v, H, D].
Tensor by_part(const Tensor& from, std::int64_t head_dim) {
  const std::int64_t rows = from.shape()[0], columns = count_of(from.shape()) / std::max<std::int64_t>(rows, 1);
  const std::int64_t heads = rows / (3 * head_dim), block = head_dim * columns;
  Tensor to = Tensor::empty(from.shape(), DType::f32);
  for (std::int64_t n = 0; n < 3 * heads; ++n) {
    std::copy_n(from.as<float>() + n * block, block, to.as<float>() + (n % 3 * heads + n / 3) * block);
  }
  return to;
}

// Without the first rows.
Tensor from_row(const Tensor& from, std::int64_t first) {
  const std::int64_t rows = from.shape()[0] - first, columns = from.shape()[1];
  Tensor to = Tensor::empty({rows, columns}, DType::f32);
  std::copy_n(from.as<float>() + first * columns, rows * columns, to.as<float>());
  return to;
}

void add_first_row(const Tensor& row, Tensor& to) {
  const std::int64_t columns = to.shape()[1];
  for (std::int64_t n = 0; n < count_of(to.shape()); ++n) to.as<float>()[n] += row.as<float>()[n % columns];
}

class Loader {
 public:
  Loader(const io::ListedWeights& weights, const Family& family, const Config& config)
      : family_(family), config_(config), where_(weights.where.string()) {
    for (const auto& listed : weights.tensors) {
      std::string name = listed.tensor.name;
      if (!family.prefix.empty() && name.starts_with(family.prefix)) name.erase(0, family.prefix.size());
      for (const auto& [from, to] : family.renamed) {
        if (name.starts_with(from)) name.replace(0, from.size(), to);
      }
      tensors_[name] = &listed;
    }
  }

  // The parameter's rows from its sources, one after another.
  Tensor make(const std::string& name, const Dims& shape) {
    const Place place(name);
    const std::vector<Source>& sources = family_.parameters.at(place.pattern);
    if (sources.empty()) return Tensor::zeros(shape, DType::f32);
    Tensor result = Tensor::empty(shape, DType::f32);
    const std::int64_t columns = shape.rank() == 2 ? shape[1] : 1;
    std::int64_t row = 0;
    for (const Source& source : sources) {
      const std::string own = place.named(source.name);
      const Tensor part = read(own, source);
      const bool fits = part.shape().rank() == shape.rank() && (shape.rank() == 1 || part.shape()[1] == columns) &&
                        row + part.shape()[0] <= shape[0];
      if (!fits) refuse_shape(own, part, name, shape);
      std::memcpy(result.as<float>() + row * columns, part.view().data(),
                  static_cast<std::size_t>(count_of(part.shape())) * sizeof(float));
      row += part.shape()[0];
      if (&source == &sources.back() && row != shape[0]) refuse_shape(own, part, name, shape);
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
      if (!taken_.contains(name) && !ignored && !beyond && !copy) {
        refuse(where_ + ": tensor " + io::in_quotes(name) + " is in the file, but a model of the family " +
               family_.name + " has no place for it");
      }
    }
  }

 private:
  Tensor read(const std::string& name, const Source& source) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) refuse(where_ + ": no tensor " + io::in_quotes(family_.prefix + name));
    taken_.insert(name);
    Tensor tensor = widened(io::read_weight(*found->second), where_ + ": tensor " + io::in_quotes(name));
    expect_finite(where_, name, tensor);
    if (source.plus_one) {
      for (std::int64_t n = 0; n < count_of(tensor.shape()); ++n) tensor.as<float>()[n] += 1;
    }
    if (source.transposed && tensor.shape().rank() == 2) return transposed(tensor);
    const bool matrix = tensor.shape().rank() == 2,
               heads = tensor.shape().rank() > 0 && tensor.shape()[0] % config_.head_dim == 0;
    if (source.interleaved && matrix && heads) return apart(tensor, config_.head_dim);
    if (source.by_head && heads) return by_part(tensor, config_.head_dim);
    if (source.skip > 0 && matrix && tensor.shape()[0] > source.skip) tensor = from_row(tensor, source.skip);
    if (!source.plus.empty() && matrix) {
      const Tensor row = read(source.plus, {});
      if (row.shape().rank() != 2 || row.shape()[0] < 1 || row.shape()[1] != tensor.shape()[1]) {
        refuse_shape(source.plus, row, name, tensor.shape());
      }
      add_first_row(row, tensor);
    }
    return tensor;
  }

  [[noreturn]] void refuse_shape(const std::string& source, const Tensor& found, const std::string& name,
                                 const Dims& wanted) const {
    refuse(where_ + ": tensor " + io::in_quotes(source) + ": " + to_string(found.shape()) +
           " does not fit the config, by which " + name + " is " + to_string(wanted));
  }

  const Family& family_;
  const Config& config_;
  std::string where_;
  std::map<std::string, const io::ListedWeights::Listed*> tensors_;
  std::set<std::string> taken_;
};

Config checked_config(const Family& family, const io::Json& json, const std::string& where,
                      const io::ListedWeights& weights) {
  std::set<std::string> names;
  double elements = 0;
  for (const auto& listed : weights.tensors) {
    names.insert(listed.tensor.name);
    elements += static_cast<double>(count_of(listed.tensor.shape));
  }
  try {
    const Config config = family.read_config(json, where, names);
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

bool is_own(const std::filesystem::path& model) {
  if (model.extension() == ".gguf" || model.extension() == ".safetensors") return false;
  if (!io::is_folder(model) || !io::is_there(model / kConfigFile)) return true;  // and its loader says what is missing
  const std::string where = (model / kConfigFile).string();
  const io::Json json = io::parse_json(io::read_file(where, kMostConfig), where);
  return !json.is_object() || !json.contains("model_type") || type_of(json, where).starts_with("polyhead-");
}

std::unique_ptr<Transformer> load_foreign(const std::filesystem::path& model,
                                          const std::shared_ptr<Allocator>& memory) {
  const io::ListedWeights weights = io::list_weights(model);
  const bool gguf = !weights.metadata.is_null();
  const std::string where = gguf ? weights.where.string() : (weights.where.parent_path() / kConfigFile).string();
  const io::Json json = gguf ? weights.metadata : io::parse_json(io::read_file(where, kMostConfig), where);
  const Family family =
      family_called(gguf ? io::read_text(json, "general.architecture", where) : type_of(json, where), gguf, where);
  const Config config = checked_config(family, json, where, weights);
  auto made = Transformer::unfilled(config, DType::f32, memory);
  Loader loader(weights, family, config);
  for (autograd::Parameter* parameter : made->parameters()) {
    parameter->value = moved_to(memory, loader.make(parameter->name, parameter->value.shape()));
  }
  loader.expect_nothing_left();
  return made;
}

}  // namespace polyhead::model
