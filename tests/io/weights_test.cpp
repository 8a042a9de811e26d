#include "io/weights.h"

#include <gtest/gtest.h>

#include <string>

#include "io/gguf.h"
#include "io/scratch.h"
#include "support/bits.h"

namespace polyhead::io {
namespace {

// A file with the bools named, each [1].
void spill_shard(const std::filesystem::path& path, const std::string& names) {
  std::string header = "{";
  for (std::size_t n = 0; n < names.size(); ++n) {
    header += (n == 0 ? "\"" : ",\"") + std::string(1, names[n]) + R"(":{"dtype":"BOOL","shape":[1],"data_offsets":[)" +
              std::to_string(n) + "," + std::to_string(n + 1) + "]}";
  }
  spill(path, safetensors_bytes(header + "}", std::string(names.size(), '\1')));
}

void spill_index(const std::filesystem::path& path, const std::string& map) {
  spill(path, R"({"metadata":{"total_size":3},"weight_map":{)" + map + "}}");
}

const std::string kMap = R"("a":"1.safetensors","c":"2.safetensors","b":"1.safetensors")";

TEST(Sharded, WhatDoesNotFitTheIndex) {
  const Scratch scratch;
  const auto refused = [&](const std::string& one, const std::string& two, const std::vector<std::string>& words) {
    spill_shard(scratch / "1.safetensors", one);
    spill_shard(scratch / "2.safetensors", two);
    spill_index(scratch / "index.json", kMap);
    expect_error(ErrorCode::input, words, [&] { return list_weights(scratch / "index.json"); });
  };
  refused("a", "c", {"index.json", "tensor \"b\"", "expected in \"1.safetensors\", found nowhere"});
  refused("ab", "ca", {"2.safetensors", "tensor \"a\"", "two shards"});
  refused("abx", "c", {"1.safetensors", "tensor \"x\"", "not in the index"});
  refused("ac", "b", {"tensor \"c\"", "the index says it is in \"2.safetensors\""});
}

TEST(Sharded, IndicesThatAreNone) {
  const Scratch scratch;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    spill(scratch / "index.json", text);
    expect_error(ErrorCode::input, words, [&] { return list_weights(scratch / "index.json"); });
  };
  refused("", {"index.json"});
  refused("[]", {"weight_map"});
  refused("{}", {"weight_map"});
  refused(R"({"weight_map":[]})", {"weight_map"});
  refused(R"({"weight_map":{"a":1}})", {"tensor \"a\"", "name of a file"});
  for (const std::string name : {"../1.safetensors", "/etc/passwd", "..", ".", "", "x/1.safetensors", "x\\\\1"}) {
    refused(R"({"weight_map":{"a":")" + name + "\"}}", {"tensor \"a\"", "beside the index"});
  }
  spill_index(scratch / "index.json", kMap);
  expect_error(ErrorCode::io, {"1.safetensors"}, [&] { return list_weights(scratch / "index.json"); });
}

TEST(Sharded, WeightsOfAFolder) {
  const Scratch scratch;
  expect_error(ErrorCode::input, {scratch.folder(), "found none"}, [&] { return find_weights(scratch.folder()); });
  spill(scratch / "pytorch_model.bin", "x");
  for (const std::filesystem::path& path : {std::filesystem::path(scratch.folder()), scratch / "pytorch_model.bin"}) {
    expect_error(ErrorCode::input, {"pytorch_model.bin", "pickle", "save_pretrained"},
                 [&] { return find_weights(path); });
  }
  for (const char* name : {"model.pt", "model.pth", "model.ckpt"}) {
    expect_error(ErrorCode::input, {name, "pickle"}, [&] {
      spill(scratch / name, "x");
      return find_weights(scratch / name);
    });
  }
  spill(scratch / "a.gguf", "x");
  EXPECT_EQ(find_weights(scratch.folder()), scratch / "a.gguf");
  spill(scratch / "b.gguf", "x");
  expect_error(ErrorCode::input, {"2 .gguf files"}, [&] { return find_weights(scratch.folder()); });
  EXPECT_EQ(find_weights(scratch / "b.gguf"), scratch / "b.gguf");
  spill(scratch / "model.safetensors", "x");
  EXPECT_EQ(find_weights(scratch.folder()), scratch / "model.safetensors");
}

// Listed and read one by one they are what they are when the file is read whole.
TEST(Weights, ListedThenRead) {
  const std::filesystem::path folder = std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/gguf";
  const ListedWeights gguf = list_weights(folder);
  EXPECT_EQ(gguf.where, folder / "types.gguf");
  EXPECT_EQ(gguf.format, "GGUF version 3");
  EXPECT_EQ(gguf.metadata.at("general.architecture"), "test");
  const ListedWeights plain = list_weights(folder / "types.safetensors");
  EXPECT_EQ(plain.format, "safetensors");
  EXPECT_TRUE(plain.metadata.is_null());
  Safetensors whole = read_safetensors(folder / "types.safetensors");
  ASSERT_EQ(plain.tensors.size(), 11u);
  ASSERT_EQ(gguf.tensors.size(), 11u);
  for (std::size_t n = 0; n < plain.tensors.size(); ++n) {
    EXPECT_TRUE(test::same_bits("tensor", read_weight(plain.tensors[n]), whole.take(plain.tensors[n].tensor.name)));
  }
  EXPECT_TRUE(test::same_bits("q6_k", read_weight(gguf.tensors.back()), read_gguf(gguf.where).take("q6_k")));
}

TEST(Weights, ListedFromShards) {
  const Scratch scratch;
  spill_shard(scratch / "1.safetensors", "ab");
  spill_shard(scratch / "2.safetensors", "c");
  spill_index(scratch / "model.safetensors.index.json", kMap);
  const ListedWeights found = list_weights(scratch.folder());
  EXPECT_EQ(found.format, "safetensors in 2 shards");
  ASSERT_EQ(found.tensors.size(), 3u);
  EXPECT_EQ(found.tensors[2].file, scratch / "2.safetensors");
  EXPECT_EQ(read_weight(found.tensors[2]).as<bool>()[0], true);
}

}  // namespace
}  // namespace polyhead::io
