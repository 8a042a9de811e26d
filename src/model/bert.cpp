// BERT, RoBERTa and DistilBERT: encoders with norms after attention and feed-forward. The layers of tasks on top are
// left out. A text is one segment, whose embedding is added to those of the positions.
#include "model/families.h"
#include "model/family_fields.h"

namespace polyhead::model {
namespace {

Config encoder_of(std::int64_t layers, std::int64_t width, std::int64_t heads, const Fields& fields) {
  Config config = make_config(Kind::encoder, layers, width, heads);
  config.vocabulary = fields.size("vocab_size");
  config.context = fields.size("max_position_embeddings");
  config.post_norm = config.embedding_norm = true;
  return config;
}

Config read_bert(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_text("position_embedding_type", {"absolute"}, "absolute");
  fields.expect_flag("is_decoder", false, false);
  Config config = encoder_of(fields.layers("num_hidden_layers", tensors), fields.size("hidden_size"),
                             fields.size("num_attention_heads"), fields);
  config.hidden = fields.size("intermediate_size");
  config.feed_forward = read_gelu(fields, "hidden_act");
  config.epsilon = fields.number_or("layer_norm_eps", 1e-12);
  return config;
}

// The first position is the one after the padding's.
constexpr std::int64_t kFirstPosition = 2;

Config read_roberta(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  Config config = read_bert(json, where, tensors);
  Fields{json, where}.expect_size("pad_token_id", kFirstPosition - 1);
  config.context -= kFirstPosition;
  return config;
}

Config read_distilbert(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  Config config = encoder_of(fields.layers("n_layers", tensors), fields.size("dim"), fields.size("n_heads"), fields);
  config.hidden = fields.size("hidden_dim");
  config.feed_forward = read_gelu(fields, "activation");
  config.epsilon = 1e-12;
  return config;
}

// llama.cpp's files of this architecture also hold DistilBERT and RoBERTa, without the tensors that those lack.
Config read_bert_gguf(const io::Json& json, const std::string& where, const std::set<std::string>& tensors) {
  const Fields fields{json, where};
  fields.expect_flag("bert.attention.causal", false, false);
  Config config = read_gguf_sizes(fields, "bert", Kind::encoder, tensors);
  config.post_norm = config.embedding_norm = true;
  config.feed_forward = FeedForward::erf_gelu;
  return config;
}

void settle_bert_gguf(const io::Json&, const std::string&, const std::set<std::string>& tensors, Family& family) {
  Source& positions = family.parameters["positions.weight"][0];
  if (!tensors.contains(positions.plus)) positions.plus.clear();
}

}  // namespace

Family bert_family() {
  const std::string layer = "encoder.layer.{}.", attention = layer + "attention.";
  return {
      .name = "bert",
      .prefix = "bert.",
      .read_config = read_bert,
      .parameters =
          {{"tokens.weight", {{"embeddings.word_embeddings.weight"}}},
           {"positions.weight",
            {{.name = "embeddings.position_embeddings.weight", .plus = "embeddings.token_type_embeddings.weight"}}},
           {"embedding_norm.weight", {{"embeddings.LayerNorm.weight"}}},
           {"embedding_norm.bias", {{"embeddings.LayerNorm.bias"}}},
           {"blocks.{}.attention.in_proj_weight",
            {{attention + "self.query.weight"}, {attention + "self.key.weight"}, {attention + "self.value.weight"}}},
           {"blocks.{}.attention.in_proj_bias",
            {{attention + "self.query.bias"}, {attention + "self.key.bias"}, {attention + "self.value.bias"}}},
           {"blocks.{}.attention.out_proj.weight", {{attention + "output.dense.weight"}}},
           {"blocks.{}.attention.out_proj.bias", {{attention + "output.dense.bias"}}},
           {"blocks.{}.attention_norm.weight", {{attention + "output.LayerNorm.weight"}}},
           {"blocks.{}.attention_norm.bias", {{attention + "output.LayerNorm.bias"}}},
           {"blocks.{}.feed_forward.up.weight", {{layer + "intermediate.dense.weight"}}},
           {"blocks.{}.feed_forward.up.bias", {{layer + "intermediate.dense.bias"}}},
           {"blocks.{}.feed_forward.down.weight", {{layer + "output.dense.weight"}}},
           {"blocks.{}.feed_forward.down.bias", {{layer + "output.dense.bias"}}},
           {"blocks.{}.feed_forward_norm.weight", {{layer + "output.LayerNorm.weight"}}},
           {"blocks.{}.feed_forward_norm.bias", {{layer + "output.LayerNorm.bias"}}}},
      .ignored = {".position_ids"},
      .beyond = {"pooler.", "cls.", "classifier.", "qa_outputs."}};
}

Family bert_gguf_family() {
  const std::string layer = "blk.{}.";
  return {.name = "bert",
          .prefix = "",
          .read_config = read_bert_gguf,
          .parameters = {{"tokens.weight", {{"token_embd.weight"}}},
                         {"positions.weight", {{.name = "position_embd.weight", .plus = "token_types.weight"}}},
                         {"embedding_norm.weight", {{"token_embd_norm.weight"}}},
                         {"embedding_norm.bias", {{"token_embd_norm.bias"}}},
                         {"blocks.{}.attention.in_proj_weight",
                          {{layer + "attn_q.weight"}, {layer + "attn_k.weight"}, {layer + "attn_v.weight"}}},
                         {"blocks.{}.attention.in_proj_bias",
                          {{layer + "attn_q.bias"}, {layer + "attn_k.bias"}, {layer + "attn_v.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{layer + "attn_output.weight"}}},
                         {"blocks.{}.attention.out_proj.bias", {{layer + "attn_output.bias"}}},
                         {"blocks.{}.attention_norm.weight", {{layer + "attn_output_norm.weight"}}},
                         {"blocks.{}.attention_norm.bias", {{layer + "attn_output_norm.bias"}}},
                         {"blocks.{}.feed_forward.up.weight", {{layer + "ffn_up.weight"}}},
                         {"blocks.{}.feed_forward.up.bias", {{layer + "ffn_up.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{layer + "ffn_down.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{layer + "ffn_down.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{layer + "layer_output_norm.weight"}}},
                         {"blocks.{}.feed_forward_norm.bias", {{layer + "layer_output_norm.bias"}}}},
          .ignored = {},
          .beyond = {"cls."},
          .settle = settle_bert_gguf};
}

Family roberta_family() {
  Family family = bert_family();
  family.name = "roberta";
  family.prefix = "roberta.";
  family.read_config = read_roberta;
  family.parameters["positions.weight"][0].skip = kFirstPosition;
  family.beyond = {"pooler.", "lm_head.", "classifier.", "qa_outputs."};
  return family;
}

Family distilbert_family() {
  const std::string layer = "transformer.layer.{}.", attention = layer + "attention.";
  return {.name = "distilbert",
          .prefix = "distilbert.",
          .read_config = read_distilbert,
          .parameters = {{"tokens.weight", {{"embeddings.word_embeddings.weight"}}},
                         {"positions.weight", {{"embeddings.position_embeddings.weight"}}},
                         {"embedding_norm.weight", {{"embeddings.LayerNorm.weight"}}},
                         {"embedding_norm.bias", {{"embeddings.LayerNorm.bias"}}},
                         {"blocks.{}.attention.in_proj_weight",
                          {{attention + "q_lin.weight"}, {attention + "k_lin.weight"}, {attention + "v_lin.weight"}}},
                         {"blocks.{}.attention.in_proj_bias",
                          {{attention + "q_lin.bias"}, {attention + "k_lin.bias"}, {attention + "v_lin.bias"}}},
                         {"blocks.{}.attention.out_proj.weight", {{attention + "out_lin.weight"}}},
                         {"blocks.{}.attention.out_proj.bias", {{attention + "out_lin.bias"}}},
                         {"blocks.{}.attention_norm.weight", {{layer + "sa_layer_norm.weight"}}},
                         {"blocks.{}.attention_norm.bias", {{layer + "sa_layer_norm.bias"}}},
                         {"blocks.{}.feed_forward.up.weight", {{layer + "ffn.lin1.weight"}}},
                         {"blocks.{}.feed_forward.up.bias", {{layer + "ffn.lin1.bias"}}},
                         {"blocks.{}.feed_forward.down.weight", {{layer + "ffn.lin2.weight"}}},
                         {"blocks.{}.feed_forward.down.bias", {{layer + "ffn.lin2.bias"}}},
                         {"blocks.{}.feed_forward_norm.weight", {{layer + "output_layer_norm.weight"}}},
                         {"blocks.{}.feed_forward_norm.bias", {{layer + "output_layer_norm.bias"}}}},
          .ignored = {},
          .beyond = {"vocab_", "pre_classifier.", "classifier.", "qa_outputs."}};
}

}  // namespace polyhead::model
