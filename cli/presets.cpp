#include "cli/arithmetic.h"

namespace polyhead::cli {
namespace {

Model gpt(std::string name, std::string title, std::int64_t width, std::int64_t heads, std::int64_t layers,
          std::int64_t context) {
  return {.name = std::move(name),
          .title = std::move(title),
          .width = width,
          .heads = heads,
          .ff = 4 * width,
          .layers = layers,
          .vocabulary = 50257,
          .context = context,
          .tokens = context,
          .causal = true,
          .norm = Norm::layer,
          .final_norm = true};
}

const Model kTransformerBase{.name = "transformer-base",
                             .title = "the base encoder-decoder of \"Attention Is All You Need\"",
                             .width = 512,
                             .heads = 8,
                             .ff = 2048,
                             .layers = 6,
                             .decoder_layers = 6,
                             .vocabulary = 37000,
                             .tokens = 512,
                             .norm = Norm::layer};

const Model kLlama7b{.name = "llama-7b",
                     .title = "LLaMA 7B",
                     .width = 4096,
                     .heads = 32,
                     .ff = 11008,
                     .layers = 32,
                     .vocabulary = 32000,
                     .tokens = 2048,
                     .qkv_bias = false,
                     .out_bias = false,
                     .causal = true,
                     .gated_ff = true,
                     .tied = false,
                     .norm = Norm::rms,
                     .final_norm = true};

// Single attention layers as they are taught: four separate heads of 32 with a projection; fused heads; no biases.
const Model kLayer128x4{.name = "layer-128x4",
                        .title = "one attention layer, bias in the projection only",
                        .width = 128,
                        .heads = 4,
                        .tokens = 64,
                        .qkv_bias = false,
                        .causal = true};
const Model kLayer512x4{.name = "layer-512x4", .title = "one attention layer", .width = 512, .heads = 4, .tokens = 16};
const Model kLayer512x8{.name = "layer-512x8",
                        .title = "one attention layer without biases",
                        .width = 512,
                        .heads = 8,
                        .tokens = 10,
                        .qkv_bias = false,
                        .out_bias = false};

}  // namespace

const std::vector<Model>& presets() {
  static const std::vector<Model> table{kLayer128x4,
                                        kLayer512x4,
                                        kLayer512x8,
                                        kTransformerBase,
                                        gpt("gpt2", "GPT-2 small", 768, 12, 12, 1024),
                                        gpt("gpt2-medium", "GPT-2 medium", 1024, 16, 24, 1024),
                                        gpt("gpt2-large", "GPT-2 large", 1280, 20, 36, 1024),
                                        gpt("gpt3", "GPT-3 175B", 12288, 96, 96, 2048),
                                        kLlama7b};
  return table;
}

}  // namespace polyhead::cli
