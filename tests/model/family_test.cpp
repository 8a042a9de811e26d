// Models that others saved: logits against those of transformers, and files that are refused (tools/model-fixtures;
// tests/parity compares larger ones).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/numbers.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/scratch.h"
#include "model/checkpoint.h"
#include "model/families.h"
#include "model/head.h"
#include "polyhead/model.h"
#include "support/bits.h"
#include "support/mutator.h"
#include "support/npy.h"
#include "support/rounded.h"

namespace polyhead::model {
namespace {

using io::expect_error, io::Scratch, io::slurp, io::spill;

constexpr std::array kFamilies = {"gpt2",       "llama",  "mistral",        "qwen2",       "qwen3",
                                  "gemma2",     "gemma3", "gpt_neox",       "bert",        "roberta",
                                  "distilbert", "llama3", "llama_mlp_bias", "qwen2_plain", "gpt_neox_no_bias"};

std::filesystem::path fixture(const std::string& family) {
  return std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/models" / family;
}

Tensor logits_of(const std::filesystem::path& model, const std::filesystem::path& folder) {
  const Tensor numbers = test::read_npy(folder / "tokens.npy");
  std::vector<std::int32_t> tokens;
  for (std::int64_t n = 0; n < count_of(numbers.shape()); ++n) {
    tokens.push_back(static_cast<std::int32_t>(numbers.as<double>()[n]));
  }
  Context context(1);
  return Model::load(model).forward(context, ConstTensorView(tokens.data(), {1, std::ssize(tokens)}));
}

double largest_difference(const auto* a, const double* b, std::int64_t count) {
  double largest = 0;
  for (std::int64_t n = 0; n < count; ++n) largest = std::max(largest, std::abs(static_cast<double>(a[n]) - b[n]));
  return largest;
}

TEST(Family, IsInTheDocuments) {
  const std::string text = slurp(std::filesystem::path(POLYHEAD_ROOT) / "docs/heads.md");
  for (const std::string& line :
       {"- which continue a text: " + names_of(kDecoders, " and "), "- encoders: " + names_of(kEncoders, " and "),
        "- in GGUF: " + names_of(kGgufFamilies, " and ")}) {
    EXPECT_NE(text.find("\n" + line + "\n"), text.npos) << line;
  }
}

// What a config does not say is what transformers takes it to be: GPT-2's output is tied, Llama's is not.
TEST(Family, OutputsAreTiedWhereNothingIsSaid) {
  for (const auto& [family, tied] : {std::pair{"gpt2", true}, {"llama", false}, {"gemma2", true}}) {
    const Scratch scratch;
    io::Json config = io::parse_json(slurp(fixture(family) / "config.json"), family);
    config.erase("tie_word_embeddings");
    spill(scratch / "config.json", config.dump());
    std::filesystem::copy_file(fixture(family) / "model.safetensors", scratch / "model.safetensors");
    EXPECT_EQ(load(scratch.folder())->config().tied, tied) << family;
  }
}

double mean_square(const Tensor& some, const Tensor& expected) {
  double sum = 0;
  for (std::int64_t n = 0; n < count_of(expected.shape()); ++n) {
    const double number = some.dtype() == DType::f32 ? static_cast<double>(some.as<float>()[n]) : some.as<double>()[n];
    sum += (number - expected.as<double>()[n]) * (number - expected.as<double>()[n]);
  }
  return sum / static_cast<double>(count_of(expected.shape()));
}

// At most twice the error of transformers in float32 (tests/parity/model_parity.py), plus a unit in the last place.
void expect_logits_of_transformers(const std::filesystem::path& model, const std::filesystem::path& folder) {
  const Tensor expected = test::read_npy(folder / "logits_float64.npy");
  const Tensor plain = test::read_npy(folder / "logits_float32.npy");
  const Tensor found = logits_of(model, folder);
  const std::int64_t count = count_of(expected.shape());
  ASSERT_EQ(count_of(found.shape()), count) << model;
  float top = 0;
  for (std::int64_t n = 0; n < count; ++n) top = std::max(top, std::abs(static_cast<float>(expected.as<double>()[n])));
  const double ulp = std::nextafter(top, std::numeric_limits<float>::infinity()) - top;
  EXPECT_LE(std::sqrt(mean_square(found, expected)), 2 * std::sqrt(mean_square(plain, expected)) + ulp) << model;
  EXPECT_LE(largest_difference(found.as<float>(), expected.as<double>(), count),
            5 * largest_difference(plain.as<double>(), expected.as<double>(), count) + 2 * ulp)
      << model;
}

TEST(Family, LogitsAreThoseOfTransformers) {
  for (const char* family : kFamilies) expect_logits_of_transformers(fixture(family), fixture(family));
}

// GGUF has what Llama 3's scaling makes of every pair of columns instead of its settings, and biases without flags.
TEST(Family, GgufHoldsFactorsOfRotaryPositions) {
  const std::filesystem::path gguf = fixture("llama3") / "llama3.gguf";
  expect_logits_of_transformers(gguf, fixture("llama3"));
  const Config config = load(gguf)->config();
  EXPECT_EQ(config.rotary_factors.size(), 5u);
  EXPECT_EQ(config.rotary_scaling, RotaryScaling());
  EXPECT_EQ(config_from_json(to_json(config), "config.json"), config);
}

// What older files call otherwise, and what tasks put on top of an encoder.
TEST(Family, OtherNames) {
  const auto changed = [](const std::string& family, const auto& change) {
    const Scratch scratch;
    std::filesystem::copy_file(fixture(family) / "config.json", scratch / "config.json");
    io::Safetensors file = io::read_safetensors(fixture(family) / "model.safetensors");
    std::vector<io::NamedTensor> named;
    for (auto& [name, tensor] : file.tensors) {
      change(name);
      named.push_back({name, tensor});
    }
    const Tensor more = Tensor::zeros({3}, DType::f32);
    if (family == "bert") named.push_back({"cls.predictions.bias", more});
    io::write_safetensors(scratch / "model.safetensors", named);
    EXPECT_TRUE(test::same_bits("logits", logits_of(scratch.folder(), fixture(family)),
                                logits_of(fixture(family), fixture(family))))
        << family;
  };
  changed("gpt_neox", [](std::string& name) { name = name == "lm_head.weight" ? "embed_out.weight" : name; });
  changed("bert", [](std::string& name) { name = "bert." + name; });
}

// The limit is what the file says, of positions that are computed as well as of those that are looked up; up to it a
// model reads, and no further. RoBERTa's first two positions are for padding.
TEST(Family, ReadsAsManyTokensAsItsFileSays) {
  Context context(1);
  const std::vector<std::int32_t> tokens(14, 3);
  const auto expect_limit = [&](const std::filesystem::path& path, std::int64_t limit) {
    SCOPED_TRACE(path);
    const Model model = Model::load(path);
    EXPECT_EQ(model.context_length(), limit);
    EXPECT_NO_THROW(model.forward(context, ConstTensorView(tokens.data(), {1, limit})));
    expect_error(ErrorCode::shape, {"tokens", "T up to " + std::to_string(limit)}, [&] {
      return model.forward(context, ConstTensorView(tokens.data(), {1, limit + 1}));
    });
  };
  for (const std::string family : kFamilies) expect_limit(fixture(family), family == "roberta" ? 11 : 13);
  for (const std::string family : {"llama", "gpt2", "gpt_neox", "gemma2", "bert"}) {
    expect_limit(fixture(family) / (family + ".gguf"), 13);
  }
}

// An output of its own has a name of its own, which tied fixtures do not show: with the numbers of the embedding, and
// with others.
TEST(Family, OutputsThatAreNotTied) {
  for (const std::string family : {"gpt2", "gemma2", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    io::Json config = io::parse_json(slurp(fixture(family) / "config.json"), family);
    config["tie_word_embeddings"] = false;
    spill(scratch / "config.json", config.dump());
    io::Safetensors file = io::read_safetensors(fixture(family) / "model.safetensors");
    std::erase_if(file.tensors, [](const auto& each) { return each.first == "lm_head.weight"; });
    const auto embedding = std::find_if(file.tensors.begin(), file.tensors.end(), [](const auto& each) {
      return each.first.ends_with("wte.weight") || each.first.ends_with("embed_tokens.weight");
    });
    ASSERT_NE(embedding, file.tensors.end());
    Context context(1);
    Tensor output = clone(context, embedding->second);
    const auto logits_with = [&](float first) {
      output.as<float>()[0] = first;
      std::vector<io::NamedTensor> named{{"lm_head.weight", output}};
      for (const auto& [name, tensor] : file.tensors) named.push_back({name, tensor});
      io::write_safetensors(scratch / "model.safetensors", named);
      return logits_of(scratch.folder(), fixture(family));
    };
    const float first = output.as<float>()[0];
    const Tensor same = logits_with(first), other = logits_with(first + 1);
    config["tie_word_embeddings"] = true;
    spill(scratch / "config.json", config.dump());
    EXPECT_TRUE(test::same_bits("logits", logits_with(first), same)) << "tied, a copy in the file is left alone";
    EXPECT_FALSE(test::same_bits("logits", other, same));
  }
}

TEST(Family, GgufHoldsTheSameModel) {
  for (const std::string family : {"llama", "qwen2_plain", "qwen3", "gemma2", "gemma3", "gpt2", "gpt_neox", "bert"}) {
    const Tensor a = logits_of(fixture(family), fixture(family));
    const Tensor b = logits_of(fixture(family) / (family + ".gguf"), fixture(family));
    EXPECT_TRUE(test::same_bits("logits", a, b)) << family;
  }
}

// A tensor that two shards hold would be whichever is read last.
TEST(Family, ShardsHoldEveryTensorOnce) {
  const Scratch scratch;
  std::filesystem::copy_file(fixture("llama") / "config.json", scratch / "config.json");
  io::Safetensors file = io::read_safetensors(fixture("llama") / "model.safetensors");
  std::vector<io::NamedTensor> first, second;
  io::Json map;
  for (const auto& [name, tensor] : file.tensors) {
    const bool late = name == "model.norm.weight";
    (late ? second : first).push_back({name, tensor});
    map[name] = late ? "2.safetensors" : "1.safetensors";
  }
  spill(scratch / "model.safetensors.index.json", io::Json{{"weight_map", map}}.dump());
  io::write_safetensors(scratch / "1.safetensors", first);
  io::write_safetensors(scratch / "2.safetensors", second);
  EXPECT_TRUE(test::same_bits("logits", logits_of(scratch.folder(), fixture("llama")),
                              logits_of(fixture("llama"), fixture("llama"))));
  second.push_back(first[0]);
  io::write_safetensors(scratch / "2.safetensors", second);
  expect_error(ErrorCode::input, {"2.safetensors", io::in_quotes(first[0].name), "two shards"},
               [&] { return load(scratch.folder()); });
}

// What was loaded can be saved as our own and is the same model.
TEST(Family, SavedAsOurOwn) {
  for (const char* family : kFamilies) {
    const Scratch scratch;
    Model::load(fixture(family)).save(scratch.folder());
    EXPECT_TRUE(is_own(scratch.folder()));
    EXPECT_TRUE(test::same_bits("logits", logits_of(scratch.folder(), fixture(family)),
                                logits_of(fixture(family), fixture(family))));
  }
}

// Matrices of 16 bits stay as they are stored: half the memory, and the bits of the same numbers in f32. So do those of
// a model that has lost a head, and of one that was saved as our own.
TEST(Family, MatricesOf16BitsStayAsStored) {
  Context context(1);
  for (const std::string family : kFamilies) {
    const Scratch halves, wides, own;
    const DType dtype = family == "llama" ? DType::f16 : DType::bf16;
    test::save_rounded(fixture(family), dtype, false, halves.folder());
    test::save_rounded(fixture(family), dtype, true, wides.folder());
    const Model half = Model::load(halves.folder()), wide = Model::load(wides.folder());
    std::size_t kept = 0, arithmetic = 0;
    for (const autograd::Parameter* parameter : half.transformer().parameters()) {
      kept += parameter->value.dtype() == dtype;
      arithmetic += may_be_half(*parameter) && parameter->value.dtype() == DType::f32;
    }
    EXPECT_GT(kept, 4u) << family;
    EXPECT_LE(arithmetic, 1u) << family;  // tokens of BERT and RoBERTa carry the row of their type
    std::vector<Tensor> dgates;
    const Tensor expected = logits_of(wides.folder(), fixture(family));
    EXPECT_TRUE(test::same_bits("logits", logits_of(halves.folder(), fixture(family)), expected)) << family;
    half.save(own.folder());
    EXPECT_TRUE(test::same_bits("logits", logits_of(own.folder(), fixture(family)), expected)) << family;
    for (const Model* model : {&half, &wide}) {
      autograd::Tape tape(context);
      Gates gates(model->transformer().config());
      const std::vector<std::int32_t> tokens{1, 2, 3, 4};
      const autograd::Variable out = model->transformer().forward(tape, ConstTensorView(tokens.data(), {1, 4}),
                                                                  {.gates = gates.get(), .gate_gradients = true});
      const ConstTensorView made = tape.value(out);
      Tensor ones = Tensor::empty(made.shape(), made.dtype());
      std::fill_n(ones.as<float>(), made.count(), 1.0f);
      tape.send_shared(out, ones);
      tape.backward();
      dgates.push_back(clone(context, model->transformer().attention(tape, 0).gradients.dgates));
    }
    EXPECT_TRUE(test::same_bits("dgates", dgates[0], dgates[1])) << family;
    if (!half.is_encoder()) {  // weights are packed for it
      EXPECT_EQ(half.generate(context, {{1, 2, 3}}, 4, {.temperature = 0}),
                wide.generate(context, {{1, 2, 3}}, 4, {.temperature = 0}));
    }
  }
}

// NaN and infinity are found in 16 bits too, in the model's own file and in those of others; the largest numbers that
// the types have are none.
TEST(Family, NumbersOf16BitsAreChecked) {
  struct Bad {
    DType dtype;
    std::uint16_t bits;
    const char* found;  // nothing: a number
  };
  for (const Bad& bad : {Bad{DType::f16, 0x7e00, "found nan"},
                         {DType::f16, 0x7c01, "found nan"},
                         {DType::f16, 0xfc00, "found -inf"},
                         {DType::f16, 0x7bff, nullptr},
                         {DType::bf16, 0x7fc0, "found nan"},
                         {DType::bf16, 0xff81, "found nan"},
                         {DType::bf16, 0x7f80, "found inf"},
                         {DType::bf16, 0xff7f, nullptr}}) {
    const Scratch whole, spoilt, own;
    test::save_rounded(fixture("llama"), bad.dtype, false, whole.folder());
    Model::load(whole.folder()).save(own.folder());
    std::filesystem::copy_file(whole / "config.json", spoilt / "config.json");
    for (const Scratch* from : {&whole, &own}) {
      SCOPED_TRACE(testing::Message() << name_of(bad.dtype) << " " << bad.bits << (from == &own ? ", our own" : ""));
      io::Safetensors file = io::read_safetensors(*from / "model.safetensors");
      std::vector<io::NamedTensor> named;
      bool one = false;  // of the matrices, the last but one of its numbers
      for (auto& [name, tensor] : file.tensors) {
        if (!one && tensor.dtype() == bad.dtype && tensor.shape().rank() == 2) {
          static_cast<std::uint16_t*>(tensor.view().data())[count_of(tensor.shape()) - 2] = bad.bits;
          one = true;
        }
        named.push_back({name, tensor});
      }
      ASSERT_TRUE(one);
      std::filesystem::copy_file(*from / "config.json", spoilt / "config.json",
                                 std::filesystem::copy_options::overwrite_existing);
      io::write_safetensors(spoilt / "model.safetensors", named, file.metadata);
      if (bad.found == nullptr) {
        EXPECT_NO_THROW(load(spoilt.folder()));
      } else {
        expect_error(ErrorCode::input, {bad.found}, [&] { return load(spoilt.folder()); });
      }
    }
  }
}

// A copy of a fixture with a field of its config set.
void expect_refused(const std::string& family, const std::string& key, const char* value,
                    const std::vector<std::string>& words) {
  const Scratch scratch;
  std::filesystem::copy_file(fixture(family) / "model.safetensors", scratch / "model.safetensors");
  io::Json json = io::parse_json(slurp(fixture(family) / "config.json"), "config");
  json[key] = io::parse_json(value, "value");
  spill(scratch / "config.json", json.dump());
  SCOPED_TRACE(key + " = " + value);
  expect_error(ErrorCode::input, words, [&] { return load(scratch.folder()); });
}

// What the fixtures' files do not say, and other files may.
TEST(Family, SettingsOfGgufThatAreNotTheUsualOnes) {
  io::Json neox = io::read_gguf_header(fixture("gpt_neox") / "gpt_neox.gguf").metadata;
  const auto read = [&] { return gpt_neox_gguf_family().read_config(neox, "file", {"a", "b", "c"}); };
  EXPECT_EQ(read().rotary_scaling.factor, RotaryScaling{}.factor);
  neox["gptneox.rope.scaling.factor"] = 4;
  neox["gptneox.rope.scaling.type"] = "linear";
  EXPECT_EQ(read().rotary_scaling.factor, 4);
  neox["gptneox.rope.scaling.type"] = "yarn";
  io::expect_error(ErrorCode::input, {"gptneox.rope.scaling.type", "yarn"}, read);
  io::Json bert = io::read_gguf_header(fixture("bert") / "bert.gguf").metadata;
  bert["bert.attention.causal"] = true;
  io::expect_error(ErrorCode::input, {"bert.attention.causal"}, [&] {
    return bert_gguf_family().read_config(bert, "file", {"a", "b", "c"});
  });
}

// Older files give the first layer that slides; newer ones say it of every layer. Both come to the same.
TEST(Family, WindowsByNumberOrByList) {
  const Scratch scratch;
  std::filesystem::copy_file(fixture("qwen2") / "model.safetensors", scratch / "model.safetensors");
  io::Json json = io::parse_json(slurp(fixture("qwen2") / "config.json"), "config");
  ASSERT_EQ(json.at("max_window_layers"), 1);
  json.erase("layer_types");
  spill(scratch / "config.json", json.dump());
  EXPECT_TRUE(test::same_bits("logits", logits_of(scratch.folder(), fixture("qwen2")),
                              logits_of(fixture("qwen2"), fixture("qwen2"))));
  json["max_window_layers"] = 2;
  spill(scratch / "config.json", json.dump());
  EXPECT_FALSE(test::same_bits("logits", logits_of(scratch.folder(), fixture("qwen2")),
                               logits_of(fixture("qwen2"), fixture("qwen2"))));
}

TEST(Family, Configs) {
  expect_refused("gpt2", "model_type", "\"gpt_bigcode\"",
                 {"config.json", "\"gpt_bigcode\"", "gpt2, llama, mistral, qwen2, qwen3, gemma2"});
  expect_refused("gpt2", "model_type", "1", {"config.json", "model_type"});
  expect_refused("gpt2", "activation_function", "\"relu\"", {"activation_function", "gelu_new", "\"relu\""});
  expect_refused("gpt2", "scale_attn_by_inverse_layer_idx", "true", {"scale_attn_by_inverse_layer_idx", "found true"});
  expect_refused("gpt2", "n_head", "5", {"config.json", "heads", "width 12", "found 5"});
  expect_refused("gpt2", "n_head", "0", {"n_head", "found 0"});
  expect_refused("gpt2", "n_layer", "1000000000", {"config.json", "n_layer", "found 1000000000"});
  expect_refused("gpt2", "n_layer", "20", {"config.json", "more numbers"});
  expect_refused("gpt2", "n_layer", "1", {"\"h.1.", "no place for it"});
  expect_refused("gpt2", "n_positions", "12", {"\"wpe.weight\": [13,12]", "positions.weight is [12,12]"});
  expect_refused("gpt2", "tie_word_embeddings", "false", {"more numbers"});
  expect_refused("llama", "attention_bias", "true", {"no tensor \"model.layers.0.self_attn.q_proj.bias\""});
  expect_refused("llama", "mlp_bias", "true", {"no tensor \"model.layers.0.mlp.gate_proj.bias\""});
  expect_refused("llama3", "attention_bias", "false", {"_proj.bias\"", "no place"});
  expect_refused("gpt_neox_no_bias", "attention_bias", "true", {"no tensor", "query_key_value.bias"});
  expect_refused("llama", "rope_scaling", R"({"rope_type":"yarn","factor":8.0})", {"rope_type", "\"yarn\""});
  expect_refused("llama", "rope_scaling", R"({"rope_type":"llama3","factor":8.0})",
                 {"rope_scaling", "low_freq_factor"});
  expect_refused("llama", "rope_scaling", R"({"type":"linear","factor":0.5})", {"factor of 1 or more", "found 0.5"});
  expect_refused("gpt_neox", "rope_parameters", R"({"partial_rotary_factor":1e20})", {"partial_rotary_factor"});
  expect_refused("gpt_neox", "rope_parameters", "\"default\"", {"rope_parameters", "an object"});
  expect_refused("qwen2", "max_window_layers", "-1", {"max_window_layers", "found -1"});
  expect_refused("gpt_neox", "hidden_act", "\"relu\"", {"hidden_act", "gelu", "\"relu\""});
  expect_refused("gpt_neox", "rope_parameters", R"({"partial_rotary_factor":0.5})", {"rotary_dim", "found 3"});
  expect_refused("bert", "position_embedding_type", "\"relative_key\"", {"position_embedding_type", "absolute"});
  expect_refused("bert", "is_decoder", "true", {"is_decoder", "found true"});
  expect_refused("roberta", "pad_token_id", "3", {"pad_token_id", "found 3"});
  expect_refused("mistral", "sliding_window", "0", {"sliding_window", "found 0"});
  expect_refused("qwen2", "layer_types", R"(["full_attention"])", {"layer_types", "2 layers"});
  expect_refused("qwen2", "layer_types", R"(["full_attention", "mamba"])", {"layer_types", "mamba"});
  expect_refused("qwen3", "attention_bias", "true", {"no tensor", "self_attn.q_proj.bias"});
  expect_refused("gemma2", "hidden_activation", "\"silu\"", {"hidden_activation", "gelu_pytorch_tanh", "\"silu\""});
  expect_refused("gemma2", "attention_bias", "true", {"no tensor", "self_attn.q_proj.bias"});
  expect_refused("gemma2", "query_pre_attn_scalar", "0", {"query_pre_attn_scalar", "found 0"});
  expect_refused("gemma2", "attn_logit_softcapping", "-1", {"attn_logit_softcapping", "found -1"});
  expect_refused("gemma3", "use_bidirectional_attention", "true", {"use_bidirectional_attention", "found true"});
  expect_refused("gemma3", "rope_parameters",
                 R"({"full_attention":{}, "sliding_attention":{"rope_type":"linear","factor":2.0}})",
                 {"sliding_attention", "without scaling"});
  expect_refused("gemma3", "model_type", "\"gemma3\"", {"\"gemma3\"", "gemma3_text"});
  expect_refused("llama", "num_key_value_heads", "3", {"kv_heads"});
  expect_refused("llama", "num_key_value_heads", "4", {"config.json"});
  expect_refused("llama", "head_dim", "4", {"_proj", "does not fit"});
  expect_refused("llama", "rms_norm_eps", "-1", {"rms_norm_eps"});
}

// Configs with a few bytes changed: refused, or a model comes of them.
TEST(Family, SpoiltConfigs) {
  const Scratch scratch;
  test::Mutator mutate;
  test::expect_read_or_refused(1600, [&](int round) {
    const std::filesystem::path from = fixture(kFamilies[static_cast<std::size_t>(round) % kFamilies.size()]);
    spill(scratch / "config.json", mutate(slurp(from / "config.json")));
    std::filesystem::copy_file(from / "model.safetensors", scratch / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    load(scratch.folder());
  });
}

TEST(Family, Tensors) {
  const auto refused = [](const auto& change, const std::vector<std::string>& words) {
    const Scratch scratch;
    std::filesystem::copy_file(fixture("llama") / "config.json", scratch / "config.json");
    io::Safetensors file = io::read_safetensors(fixture("llama") / "model.safetensors");
    file.tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", Tensor::zeros({3}, DType::f32));
    change(file);
    std::vector<io::NamedTensor> named;
    for (const auto& [name, tensor] : file.tensors) {
      if (tensor.present()) named.push_back({name, tensor});
    }
    io::write_safetensors(scratch / "model.safetensors", named);
    if (words.empty()) {
      EXPECT_NO_THROW(load(scratch.folder()));
    } else {
      expect_error(ErrorCode::input, words, [&] { return load(scratch.folder()); });
    }
  };
  refused([](io::Safetensors&) {}, {});  // a buffer that older files have
  refused([](io::Safetensors& file) { file.take("model.norm.weight"); }, {"more numbers"});
  refused([](io::Safetensors& file) { file.tensors.emplace_back("norm.weight", Tensor::zeros({12}, DType::f32)); },
          {"\"model.norm.weight\" and \"norm.weight\"", "remove one"});
  refused(
      [](io::Safetensors& file) {
        file.take("model.norm.weight");
        file.tensors.emplace_back("model.nrom.weight", Tensor::zeros({12}, DType::f32));
      },
      {"no tensor \"model.norm.weight\""});
  refused([](io::Safetensors& file) { file.tensors.emplace_back("score.weight", Tensor::zeros({2}, DType::f32)); },
          {"\"score.weight\"", "no place"});
  refused([](io::Safetensors& file) { file.tensors[0].second.as<float>()[0] = std::nanf(""); }, {"found nan"});
  refused([](io::Safetensors& file) { file.tensors[0].second.as<float>()[1] = -INFINITY; }, {"found -inf"});
  refused(
      [](io::Safetensors& file) {
        file.take("model.norm.weight");
        file.tensors.emplace_back("model.norm.weight", Tensor::zeros({12}, DType::i32));
      },
      {"\"norm.weight\"", "float type"});
}

}  // namespace
}  // namespace polyhead::model
