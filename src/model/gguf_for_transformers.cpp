#include "model/gguf_for_transformers.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/numbers.h"
#include "model/families.h"

namespace polyhead::model {
namespace {

const std::string kTokenizerKey = "tokenizer.ggml.";

std::set<std::string> names_of(const io::ListedWeights& weights) {
  std::set<std::string> names;
  for (const auto& listed : weights.tensors) names.insert(listed.tensor.name);
  return names;
}

std::string with_layer(std::string name, std::size_t layer) {
  if (const std::size_t at = name.find("{}"); at != name.npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

// How many rows of a parameter go to each of its tensors: q, k and v; gate and up; or all to one.
std::vector<std::int64_t> shares_of(const Config& config, std::size_t layer, std::size_t tensors, std::int64_t rows) {
  if (tensors == 1) return {rows};
  if (tensors == 2) return {rows / 2, rows / 2};
  const std::int64_t shared = config.layers[layer].kv_heads * config.head_dim;
  return {rows - 2 * shared, shared, shared};
}

// Rows [first, first + rows).
Tensor rows_of(const Tensor& from, std::int64_t first, std::int64_t rows) {
  Dims shape = from.shape();
  shape[0] = rows;
  Tensor to = Tensor::empty(shape, from.dtype());
  const auto bytes = static_cast<std::int64_t>(size_of(from.dtype())) * (shape.rank() == 2 ? shape[1] : 1);
  std::copy_n(static_cast<const std::byte*>(from.view().data()) + first * bytes, rows * bytes,
              static_cast<std::byte*>(to.view().data()));
  return to;
}

// How byte-level tokenizers cut text, by the name in "tokenizer.ggml.pre".
const std::map<std::string, const char*>& pre_tokenizers() {
  static const std::map<std::string, const char*> all = {
      {"gpt-2", R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})"},
      {"smollm", R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
         {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})"}};
  return all;
}

const std::string* text_at(const io::Json& metadata, const std::string& key) {
  const auto found = metadata.find(kTokenizerKey + key);
  return found != metadata.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

// Tokens that are found in a text as a whole: control tokens and the unknown one are special, the user's are not.
io::Json added_tokens(const io::Json& tokens, const io::Json& metadata) {
  constexpr int kUnknown = 2, kControl = 3, kUser = 4;
  io::Json added = io::Json::array();
  const auto types = metadata.find(kTokenizerKey + "token_type");
  for (std::size_t n = 0; types != metadata.end() && n < types->size(); ++n) {
    const int type = (*types)[n].get<int>();
    if (type != kUnknown && type != kControl && type != kUser) continue;
    added.push_back({{"id", n},
                     {"content", tokens[n]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != kUser}});
  }
  return added;
}

// What the tokenizer puts around a text, as a template.
io::Json template_of(const text::Tokenizer& tokenizer) {
  io::Json single = io::Json::array(), special = io::Json::object();
  const auto add = [&](const std::vector<text::Id>& ids) {
    for (const text::Id id : ids) {
      const std::string& name = *tokenizer.text_of(id);
      single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
    }
  };
  add(tokenizer.beginning());
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(tokenizer.ending());
  io::Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 0}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

io::Json tokenizer_json(const io::Json& metadata, const char* pre_tokenizer, const text::Tokenizer& tokenizer) {
  const io::Json& tokens = metadata.at(kTokenizerKey + "tokens");
  io::Json::object_t vocabulary;  // a list of members: adding one does not search the others
  for (std::size_t n = 0; n < tokens.size(); ++n) vocabulary.emplace_back(tokens[n].get<std::string>(), n);
  io::Json merges = io::Json::array();
  for (const io::Json& merge : metadata.at(kTokenizerKey + "merges")) {
    const auto& line = merge.get_ref<const std::string&>();
    const std::size_t blank = line.find(' ', 1);
    merges.push_back({line.substr(0, blank), line.substr(blank + 1)});
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(tokens, metadata)},
          {"normalizer", nullptr},
          {"pre_tokenizer", io::parse_json(pre_tokenizer, "built in")},
          {"post_processor",
           tokenizer.beginning().empty() && tokenizer.ending().empty() ? io::Json() : template_of(tokenizer)},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}}}};
}

// The tokens with a role, under their names in tokenizer_config.json.
io::Json tokenizer_config(const io::Json& metadata, const text::Tokenizer& tokenizer) {
  io::Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [name, key] : {std::pair{"bos_token", "bos_token_id"},
                                  {"eos_token", "eos_token_id"},
                                  {"unk_token", "unknown_token_id"},
                                  {"pad_token", "padding_token_id"}}) {
    const auto found = metadata.find(kTokenizerKey + key);
    const std::string* text = found == metadata.end() ? nullptr : tokenizer.text_of(found->get<text::Id>());
    if (text != nullptr) config[name] = *text;
  }
  return config;
}

}  // namespace

io::Json llama_config_json(const Config& config, const io::Json& metadata) {
  io::Json json = {{"architectures", {"LlamaForCausalLM"}},
                   {"model_type", "llama"},
                   {"vocab_size", config.vocabulary},
                   {"hidden_size", config.width},
                   {"intermediate_size", config.hidden},
                   {"num_hidden_layers", config.layers.size()},
                   {"num_attention_heads", config.layers[0].heads},
                   {"num_key_value_heads", config.layers[0].kv_heads},
                   {"head_dim", config.head_dim},
                   {"hidden_act", "silu"},
                   {"max_position_embeddings", config.context},
                   {"rms_norm_eps", config.epsilon},
                   {"rope_theta", config.rotary_base},
                   {"attention_bias", false},
                   {"mlp_bias", false},
                   {"tie_word_embeddings", config.tied}};
  if (config.rotary_scaling.factor != 1) {
    json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", config.rotary_scaling.factor}};
  }
  for (const auto& [name, key] : {std::pair{"bos_token_id", "bos_token_id"},
                                  {"eos_token_id", "eos_token_id"},
                                  {"pad_token_id", "padding_token_id"}}) {
    const auto found = metadata.find(kTokenizerKey + key);
    if (found != metadata.end()) json[name] = *found;
  }
  return json;
}

void expect_llama(const io::ListedWeights& gguf) {
  const std::string where = gguf.where.string();
  const auto refuse = [&](const std::string& what) { throw Error(ErrorCode::input, "prune", where + ": " + what); };
  const Family stored = llama_gguf_family(), wanted = llama_family();
  const std::string found = io::read_text(gguf.metadata, "general.architecture", where);
  if (found != stored.name) {
    refuse("expected a GGUF file of the architecture llama, the only one that can be written for transformers, found " +
           io::in_quotes(found) + "; give a folder as transformers saves it");
  }
  const std::set<std::string> names = names_of(gguf);
  const Config config = stored.read_config(gguf.metadata, where, names);
  if (wanted.read_config(llama_config_json(config, gguf.metadata), where, names) != config) {
    refuse("Llama's config.json cannot say some of its settings; give a folder as transformers saves it");
  }
}

std::vector<std::pair<std::string, Tensor>> llama_tensors(const Transformer& model) {
  const Family family = llama_family();
  std::map<std::string, const autograd::Parameter*> parameters;
  for (const autograd::Parameter* parameter : model.parameters()) parameters[parameter->name] = parameter;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [pattern, sources] : family.parameters) {
    const bool of_layers = pattern.find("{}") != pattern.npos;
    for (std::size_t layer = 0; layer < (of_layers ? model.config().layers.size() : 1); ++layer) {
      const auto found = parameters.find(with_layer(pattern, layer));
      if (found == parameters.end()) continue;  // the output, if it is the embedding
      const Tensor all = numbers_on_host(found->second->value);
      std::int64_t row = 0, n = 0;
      for (const std::int64_t rows : shares_of(model.config(), layer, sources.size(), all.shape()[0])) {
        const std::string name = with_layer(sources[static_cast<std::size_t>(n++)].name, layer);
        tensors.emplace_back((pattern == "output.weight" ? "" : family.prefix) + name, rows_of(all, row, rows));
        row += rows;
      }
    }
  }
  return tensors;
}

TokenizerFiles tokenizer_files(const io::Json& metadata, const std::string& where) {
  const std::string *kind = text_at(metadata, "model"), *cut = text_at(metadata, "pre");
  if (kind == nullptr || *kind != "gpt2") {
    return {{}, "its tokenizer is of the kind " + (kind == nullptr ? "none" : io::in_quotes(*kind)) + ", not \"gpt2\""};
  }
  const auto found = pre_tokenizers().find(cut == nullptr ? "gpt-2" : *cut);
  if (found == pre_tokenizers().end()) return {{}, "its tokenizer splits text as " + io::in_quotes(*cut) + " does"};
  const text::Tokenizer tokenizer = text::tokenizer_from_gguf(metadata, where);
  TokenizerFiles made;
  try {
    made.files = {{text::kTokenizerFile, tokenizer_json(metadata, found->second, tokenizer).dump() + "\n"},
                  {"tokenizer_config.json", tokenizer_config(metadata, tokenizer).dump(2) + "\n"}};
  } catch (const io::Json::exception&) {
    return {{}, "some of its tokens are not valid UTF-8"};
  }
  const auto chat = metadata.find("tokenizer.chat_template");
  if (chat != metadata.end() && chat->is_string()) {
    made.files.emplace_back("chat_template.jinja", chat->get<std::string>());
  }
  return made;
}

}  // namespace polyhead::model
