// A GGUF file of the architecture llama with random weights in blocks.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/blocks.h"

namespace polyhead::test {

struct QuantisedModel {
  std::uint32_t layers = 2, width = 256, heads = 4, kv_heads = 2, hidden = 512, vocabulary = 500, context = 64;
  // v as in llama.cpp's mixtures, where it often has more bits than q and k.
  BlockType tokens = BlockType::q8_0, matrices = BlockType::q4_k, values = BlockType::q6_k;
  bool tied = true;
  std::vector<std::pair<std::string, float>> numbers{};  // further keys of the architecture

  void write(const std::filesystem::path& path) const {
    std::vector<Stored> tensors;
    const auto matrix = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns, BlockType type) {
      tensors.push_back({name + ".weight", {columns, rows}, static_cast<std::uint32_t>(type)});
    };
    const auto norm = [&](const std::string& name) { tensors.push_back({name + ".weight", {width}, kF32}); };
    const std::uint32_t shared = width / heads * kv_heads;
    matrix("token_embd", vocabulary, width, tokens);
    norm("output_norm");
    if (!tied) matrix("output", vocabulary, width, tokens);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      const std::string name = "blk." + std::to_string(layer) + ".";
      norm(name + "attn_norm"), norm(name + "ffn_norm");
      matrix(name + "attn_q", width, width, matrices), matrix(name + "attn_k", shared, width, matrices);
      matrix(name + "attn_v", shared, width, values), matrix(name + "attn_output", width, width, matrices);
      matrix(name + "ffn_gate", hidden, width, matrices), matrix(name + "ffn_up", hidden, width, matrices);
      matrix(name + "ffn_down", width, hidden, values);
    }
    std::ofstream out(path, std::ios::binary);
    put_header(out, tensors);
    Random random("quantised model");
    for (const Stored& tensor : tensors) {
      put_data(out, tensor, random);
      pad(out);
    }
  }

 private:
  static constexpr std::uint32_t kF32 = 0;
  struct Stored {
    std::string name;
    std::vector<std::uint64_t> sizes;  // the innermost first
    std::uint32_t type;

    std::uint64_t rows() const { return sizes.size() == 1 ? 1 : sizes[1]; }
    std::uint64_t row_bytes() const {
      if (type == kF32) return sizes[0] * sizeof(float);
      return static_cast<std::uint64_t>(
          format_of(static_cast<BlockType>(type)).row_bytes(static_cast<std::int64_t>(sizes[0])));
    }
  };

  template <class Number>
  static void put(std::ostream& out, Number number) {
    out.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
  static void put_text(std::ostream& out, const std::string& text) {
    put(out, std::uint64_t{text.size()});
    out << text;
  }
  static void pad(std::ostream& out) {
    while (out.tellp() % 32 != 0) out.put('\0');
  }

  void put_header(std::ostream& out, const std::vector<Stored>& tensors) const {
    const std::pair<const char*, std::uint32_t> keys[] = {
        {"block_count", layers},         {"embedding_length", width},           {"attention.head_count", heads},
        {"feed_forward_length", hidden}, {"attention.head_count_kv", kv_heads}, {"context_length", context},
        {"vocab_size", vocabulary}};
    constexpr std::uint32_t kUint32 = 4, kFloat32 = 6, kText = 8;
    out << "GGUF";
    put(out, std::uint32_t{3}), put(out, std::uint64_t{tensors.size()}),
        put(out, std::uint64_t{std::size(keys) + numbers.size() + 1});
    put_text(out, "general.architecture"), put(out, kText), put_text(out, "llama");
    for (const auto& [name, number] : keys) {
      put_text(out, std::string("llama.") + name), put(out, kUint32), put(out, number);
    }
    for (const auto& [name, number] : numbers) {
      put_text(out, "llama." + name), put(out, kFloat32), put(out, number);
    }
    std::uint64_t at = 0;
    for (const Stored& tensor : tensors) {
      put_text(out, tensor.name), put(out, static_cast<std::uint32_t>(tensor.sizes.size()));
      for (const std::uint64_t size : tensor.sizes) put(out, size);
      put(out, tensor.type), put(out, at);
      at += (tensor.rows() * tensor.row_bytes() + 31) / 32 * 32;
    }
    pad(out);
  }

  // Random bytes are drawn for one row and shifted by a block's worth for every other, which is fast.
  static void put_data(std::ostream& out, const Stored& tensor, Random& random) {
    if (tensor.type == kF32) {
      for (std::uint64_t n = 0; n < tensor.sizes[0]; ++n) put(out, static_cast<float>(1 + 0.1 * random.normal()));
      return;
    }
    const BlockFormat& format = format_of(static_cast<BlockType>(tensor.type));
    std::vector<std::uint8_t> row = random_row(format, 16 * static_cast<std::int64_t>(tensor.sizes[0]), random);
    for (std::size_t block = 0; block < row.size(); block += static_cast<std::size_t>(format.bytes)) {
      for (const std::int64_t at : format.scales) {
        const float16 scale(static_cast<float>(random.normal()) * (format.elements == 32 ? 4e-3f : 1e-4f));
        std::memcpy(row.data() + block + at, &scale.bits, sizeof scale.bits);
      }
    }
    const std::uint64_t bytes = tensor.row_bytes(),
                        places = (row.size() - bytes) / static_cast<std::uint64_t>(format.bytes);
    for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
      const std::uint64_t at = r * 7 % places * static_cast<std::uint64_t>(format.bytes);
      out.write(reinterpret_cast<const char*>(row.data() + at), static_cast<std::streamsize>(bytes));
    }
  }
};

}  // namespace polyhead::test
