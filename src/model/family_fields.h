// Fields of a foreign config, and settings that our block must support.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "io/json.h"
#include "model/config.h"
#include "polyhead/error.h"

namespace polyhead::model {

struct Fields {
  const io::Json& json;
  std::string where;

  bool has(const std::string& key) const { return json.is_object() && json.contains(key) && !json.at(key).is_null(); }
  std::int64_t size(const std::string& key, std::int64_t most = (std::int64_t{1} << 31) - 1) const {
    return io::read_integer(json, key, where, 1, most);
  }
  // The number of layers: at most that of tensors, so that a bad file cannot ask for much memory.
  std::int64_t layers(const std::string& key, const std::set<std::string>& tensors) const {
    return size(key, std::max<std::int64_t>(1, std::ssize(tensors)));
  }
  std::int64_t size_or(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  double number(const std::string& key) const { return io::read_number(json, key, where, 0, 1e30); }
  double number_or(const std::string& key, double otherwise) const { return has(key) ? number(key) : otherwise; }
  double positive_or(const std::string& key, double otherwise) const {
    return has(key) ? io::read_number(json, key, where, 1e-30, 1e30) : otherwise;
  }
  double share_or(const std::string& key, double otherwise) const {
    return has(key) ? io::read_number(json, key, where, 0, 1) : otherwise;
  }
  // 0 if the value is null, `otherwise` if the key is missing.
  std::int64_t size_or_none(const std::string& key, std::int64_t otherwise) const {
    return json.contains(key) && json.at(key).is_null() ? 0 : size_or(key, otherwise);
  }
  double number_or_none(const std::string& key, double otherwise) const {
    return json.contains(key) && json.at(key).is_null() ? 0 : number_or(key, otherwise);
  }
  bool flag_or(const std::string& key, bool otherwise) const {
    return has(key) ? io::read_flag(json, key, where) : otherwise;
  }

  // A missing key counts as `otherwise`; a setting that our block does not support is refused.
  void expect_flag(const std::string& key, bool wanted, bool otherwise) const {
    if (flag_or(key, otherwise) != wanted) refuse(key, wanted ? "true" : "false", wanted ? "false" : "true");
  }
  void expect_text(const std::string& key, const std::vector<std::string>& wanted, const std::string& otherwise) const {
    const std::string found = has(key) ? io::read_text(json, key, where) : otherwise;
    if (std::find(wanted.begin(), wanted.end(), found) == wanted.end())
      refuse(key, wanted.front(), io::in_quotes(found));
  }
  void expect_size(const std::string& key, std::int64_t wanted) const {
    const std::int64_t found = size_or(key, wanted);
    if (found != wanted) refuse(key, std::to_string(wanted), std::to_string(found));
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& wanted, const std::string& found) const {
    throw Error(ErrorCode::input, "load",
                where + ": " + io::in_quotes(key) + ": polyhead runs " + wanted + " only, found " + found);
  }
};

// The size of a GGUF file's vocabulary: as the file says, or else that of its tokenizer.
inline std::int64_t gguf_vocabulary(const Fields& fields, const std::string& architecture) {
  const auto tokens = fields.json.find("tokenizer.ggml.tokens");
  return fields.size_or(architecture + ".vocab_size", tokens == fields.json.end() ? 0 : std::ssize(*tokens));
}

// Rotary positions are divided by a factor or left alone; other kinds of scaling are refused.
inline void read_gguf_scaling(const Fields& fields, const std::string& name, Config& config) {
  const std::string key = name + ".rope.scaling.";
  fields.expect_text(key + "type", {"none", "linear"}, "none");
  if (fields.has(key + "type") && io::read_text(fields.json, key + "type", fields.where) == "linear") {
    config.rotary_scaling.factor = fields.number(key + "factor");
  }
}

// Layers, width, heads, feed-forward network, context and tokens by the keys that all GGUF architectures with LayerNorm
// share.
inline Config read_gguf_sizes(const Fields& fields, const std::string& name, Kind kind,
                              const std::set<std::string>& tensors) {
  const auto key = [&](const char* rest) { return name + "." + rest; };
  Config config = make_config(kind, fields.layers(key("block_count"), tensors), fields.size(key("embedding_length")),
                              fields.size(key("attention.head_count")));
  config.hidden = fields.size(key("feed_forward_length"));
  config.context = fields.size(key("context_length"));
  config.vocabulary = gguf_vocabulary(fields, name);
  config.epsilon = fields.number_or(key("attention.layer_norm_epsilon"), 1e-5);
  return config;
}

// The GELU that a config names: exact, or by tanh.
inline FeedForward read_gelu(const Fields& fields, const std::string& key) {
  fields.expect_text(key, {"gelu", "gelu_new", "gelu_pytorch_tanh"}, "gelu");
  const bool exact = !fields.has(key) || io::read_text(fields.json, key, fields.where) == "gelu";
  return exact ? FeedForward::erf_gelu : FeedForward::gelu;
}

}  // namespace polyhead::model
