// Outputs that are somebody else's memory: every pair of an input or option with an output, and of two outputs, of
// every public op is refused, and nothing has been written by then.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "polyhead/layer.h"
#include "polyhead/linear.h"
#include "support/random.h"

namespace polyhead::test {
namespace {

// Tensors by name; two of them can be made to share their first byte.
class Arguments {
 public:
  void add(const std::string& name, const Dims& shape, DType dtype, double low, double high) {
    Tensor tensor = Tensor::empty(shape, dtype);
    Random random(name);
    fill_with(tensor.view(), [&] {
      const double x = low + (high - low) * random.uniform();
      return is_float(dtype) ? x : static_cast<double>(static_cast<std::int64_t>(x));
    });
    tensors_[name] = std::move(tensor);
  }

  TensorView operator[](const std::string& name) const {
    const TensorView own = const_cast<Tensor&>(tensors_.at(name)).view();
    if (name != pair_[0] && name != pair_[1]) return own;
    const auto bytes = static_cast<std::size_t>(own.count()) * size_of(own.dtype());
    if (name == pair_[0]) std::memcpy(arena_, own.data(), bytes);  // the input's numbers
    Dims strides = own.strides();
    std::byte* data = arena_;
    if (backwards_ && name == pair_[1] && own.rank() > 1) {  // the same bytes, from the last block to the first
      data += (own.shape(0) - 1) * strides[0] * static_cast<std::int64_t>(size_of(own.dtype()));
      strides[0] = -strides[0];
    }
    return TensorView(data, own.dtype(), own.shape(), strides);
  }

  // call() with every input beside every output, and with outputs beside each other.
  void expect_refused(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                      const std::function<void()>& call) {
    EXPECT_NO_THROW(call());  // as they are, they fit
    std::vector<std::string> firsts = inputs;
    firsts.insert(firsts.end(), outputs.begin(), outputs.end());
    for (const std::string& output : outputs) {
      for (const std::string& first : firsts) {
        if (first == output) continue;
        for (const bool backwards : {false, true}) expect_pair_refused(first, output, backwards, call);
      }
    }
    pair_[0] = pair_[1] = "";
  }

 private:
  void expect_pair_refused(const std::string& first, const std::string& output, bool backwards,
                           const std::function<void()>& call) {
    pair_[0] = first;
    pair_[1] = output;
    backwards_ = backwards;
    (*this)[first];
    const std::vector<std::byte> before(arena_, arena_ + sizeof arena_);
    try {
      call();
      ADD_FAILURE() << first << " and " << output << (backwards ? " backwards" : "") << " may share their memory";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::layout) << first << ", " << output << ": " << error.what();
    }
    EXPECT_EQ(std::memcmp(before.data(), arena_, sizeof arena_), 0) << first << " and " << output << " were written";
  }

  std::map<std::string, Tensor> tensors_;
  std::string pair_[2];
  bool backwards_ = false;
  alignas(64) mutable std::byte arena_[1 << 16] = {};
};

class Aliases : public ::testing::Test {
 protected:
  Context context_{2};
  Arguments a_;

  // Sizes for which no checksum of shapes can be fooled: all different.
  static constexpr std::int64_t B = 2, H = 4, G = 2, T = 5, S = 7, D = 8, E = 6;

  void add_attention() {
    a_.add("q", {B, H, T, D}, DType::f32, -1, 1);
    a_.add("k", {B, G, S, D}, DType::f32, -1, 1);
    a_.add("v", {B, G, S, E}, DType::f32, -1, 1);
    a_.add("keep", {B, H, T, S}, DType::boolean, 1, 2);
    a_.add("bias", {B, H, T, S}, DType::f32, -1, 1);
    a_.add("alibi", {B, H}, DType::f32, 0, 1);
    a_.add("key_lengths", {B}, DType::i32, 5, 7);
    a_.add("key_start", {B}, DType::i64, 0, 2);
    a_.add("query_lengths", {B}, DType::i32, 4, 5);
    a_.add("first_positions", {B}, DType::i64, 0, 3);
    a_.add("sink_logit", {H}, DType::f32, -1, 1);
    a_.add("gates", {B, H}, DType::f32, 0.5, 1);
    for (const char* name : {"output", "doutput"}) a_.add(name, {B, H, T, E}, DType::f32, 0, 1);
    for (const char* name : {"lse", "dlse"}) a_.add(name, {B, H, T}, DType::f32, 1, 2);
    for (const char* name : {"weights", "logits", "dweights"}) a_.add(name, {B, H, T, S}, DType::f32, 0, 1);
  }
  AttentionOptions options() const {
    return {.first_positions = a_["first_positions"],
            .causal = true,
            .keep = a_["keep"],
            .bias = a_["bias"],
            .alibi = a_["alibi"],
            .key_lengths = a_["key_lengths"],
            .key_start = a_["key_start"],
            .query_lengths = a_["query_lengths"],
            .sink_logit = a_["sink_logit"],
            .gates = a_["gates"]};
  }
  const std::vector<std::string> read_{"q",           "k",          "v",
                                       "keep",        "bias",       "alibi",
                                       "key_lengths", "key_start",  "query_lengths",
                                       "gates",       "sink_logit", "first_positions"};
};

TEST_F(Aliases, Attend) {
  add_attention();
  a_.add("marked", {B, S}, DType::boolean, 0, 2);
  a_.add("targets", {B, T, 4}, DType::i32, 0, 6);
  a_.add("statistics", {B, H, kFullStatistics}, DType::f32, 0, 1);
  a_.add("row_statistics", {B, H, T, kFullStatistics}, DType::f32, 0, 1);
  std::vector<std::string> inputs = read_;
  inputs.insert(inputs.end(), {"marked", "targets"});
  a_.expect_refused(inputs, {"output", "lse", "weights", "logits", "statistics", "row_statistics"}, [&] {
    const AttentionWants wants{.lse = true,
                               .weights = true,
                               .logits = LogitStage::capped,
                               .statistics = StatisticsSet::full,
                               .row_statistics = true,
                               .marked_keys = a_["marked"],
                               .target_keys = a_["targets"]};
    attend_into(context_, a_["q"], a_["k"], a_["v"], options(), wants,
                {a_["output"], a_["lse"], a_["weights"], a_["logits"], a_["statistics"], a_["row_statistics"]});
  });
}

TEST_F(Aliases, AttendPacked) {
  a_.add("q", {1, H, T, D}, DType::f32, -1, 1);
  a_.add("k", {1, G, S, D}, DType::f32, -1, 1);
  a_.add("cu_q", {2}, DType::i32, 0, 0);
  a_.add("cu_k", {2}, DType::i64, 0, 0);
  a_["cu_q"].as<std::int32_t>()[1] = T;
  a_["cu_k"].as<std::int64_t>()[1] = S;
  a_.add("output", {1, H, T, D}, DType::f32, 0, 1);
  a_.expect_refused({"cu_q", "cu_k"}, {"output"}, [&] {
    attend_into(context_, a_["q"], a_["k"], a_["k"], {.cu_q = a_["cu_q"], .cu_k = a_["cu_k"]}, {},
                {.output = a_["output"]});
  });
}

TEST_F(Aliases, AttendBackward) {
  add_attention();
  a_.add("dq", {B, H, T, D}, DType::f32, 0, 1);
  a_.add("dk", {B, G, S, D}, DType::f32, 0, 1);
  a_.add("dv", {B, G, S, E}, DType::f32, 0, 1);
  a_.add("dbias", {B, H, T, S}, DType::f32, 0, 1);
  a_.add("dsink_logit", {H}, DType::f32, 0, 1);
  a_.add("dgates", {B, H}, DType::f32, 0, 1);
  std::vector<std::string> inputs = read_;
  inputs.insert(inputs.end(), {"output", "lse", "doutput", "dlse", "dweights"});
  a_.expect_refused(inputs, {"dq", "dk", "dv", "dbias", "dsink_logit", "dgates"}, [&] {
    attend_backward_into(context_, a_["q"], a_["k"], a_["v"], options(), {a_["doutput"], a_["dlse"], a_["dweights"]},
                         {.bias = true, .sink_logit = true, .gates = true}, {a_["output"], a_["lse"]},
                         {a_["dq"], a_["dk"], a_["dv"], a_["dbias"], a_["dsink_logit"], a_["dgates"]});
  });
}

TEST_F(Aliases, Linear) {
  a_.add("x", {3, 5}, DType::f32, -1, 1);
  a_.add("weight", {4, 5}, DType::f32, -1, 1);
  a_.add("bias", {4}, DType::f32, -1, 1);
  a_.add("y", {3, 4}, DType::f32, -1, 1);
  a_.expect_refused({"x", "weight", "bias"}, {"y"},
                    [&] { linear_into(context_, a_["x"], a_["weight"], a_["bias"], a_["y"]); });
  a_.add("dx", {3, 5}, DType::f32, -1, 1);
  a_.add("dweight", {4, 5}, DType::f32, -1, 1);
  a_.add("dbias", {4}, DType::f32, -1, 1);
  a_.expect_refused({"x", "weight", "y"}, {"dx", "dweight", "dbias"}, [&] {
    linear_backward_into(context_, a_["x"], a_["weight"], a_["y"], {a_["dx"], a_["dweight"], a_["dbias"]});
  });
}

// The layer's results own their memory, so what they can share is what the caller passes from an earlier result.
class LayerAliases : public ::testing::Test {
 protected:
  static constexpr std::int64_t B = 2, T = 5, C = 8, H = 2;
  Context context_{2};
  const MultiHeadAttention layer_{{.width = C, .heads = H}, DType::f32, 3};
  Tensor x_ = Tensor::zeros({B, T, C}, DType::f32);
  MultiHeadWants wants_ = [] {
    MultiHeadWants wants = MultiHeadWants::training();
    wants.attention.weights = wants.attention.row_statistics = true;
    wants.attention.statistics = StatisticsSet::light;
    wants.attention.logits = LogitStage::biased;
    return wants;
  }();

  // Every use of a tensor as an input or option, each with its shape.
  struct Use {
    std::string name;
    Dims shape;
    DType dtype;
    std::function<void(const ConstTensorView&, MultiHeadInputs&, MultiHeadOptions&)> put;
  };
  static std::vector<Use> uses() {
    const auto attention = [](ConstTensorView AttentionOptions::*member) {
      return [member](const ConstTensorView& view, MultiHeadInputs&, MultiHeadOptions& options) {
        options.attention.*member = view;
      };
    };
    return {{"query", {B, T, C}, DType::f32, [](const auto& v, auto& inputs, auto&) { inputs.query = v; }},
            {"key", {B, T, C}, DType::f32, [](const auto& v, auto& inputs, auto&) { inputs.key = v; }},
            {"keep", {B, 1, 1, T}, DType::boolean, attention(&AttentionOptions::keep)},
            {"bias", {H, T, T}, DType::f32, attention(&AttentionOptions::bias)},
            {"alibi", {H}, DType::f32, attention(&AttentionOptions::alibi)},
            {"gates", {H}, DType::f32, attention(&AttentionOptions::gates)},
            {"sink_logit", {H}, DType::f32, attention(&AttentionOptions::sink_logit)},
            {"key_lengths", {B}, DType::i32, attention(&AttentionOptions::key_lengths)},
            {"key_start", {B}, DType::i32, attention(&AttentionOptions::key_start)},
            {"query_lengths", {B}, DType::i32, attention(&AttentionOptions::query_lengths)},
            {"positions", {T}, DType::i32, [](const auto& v, auto&, auto& options) {
               options.rotary = Rotary{};
               options.query_positions = v;
             }}};
  }

  static ConstTensorView seen_as(const ConstTensorView& memory, const Use& use) {
    return ConstTensorView(memory.data(), use.dtype, use.shape, contiguous_strides(use.shape));
  }
};

TEST_F(LayerAliases, ForwardRefusesItsOwnResults) {
  MultiHeadResults results = layer_.forward(context_, {.query = x_}, {}, wants_);
  const std::map<std::string, ConstTensorView> outputs{{"output", results.output},
                                                       {"heads", results.heads},
                                                       {"lse", results.lse},
                                                       {"weights", results.weights},
                                                       {"statistics", results.statistics},
                                                       {"row_statistics", results.row_statistics},
                                                       {"projections", results.projections.buffers[0]},
                                                       {"logits", results.logits}};
  // Wanted again or not: what is not wanted would be released.
  for (const MultiHeadWants& wants : {wants_, MultiHeadWants{}}) {
    for (const auto& [name, memory] : outputs) {
      for (const Use& use : uses()) {
        if (count_of(use.shape) * static_cast<std::int64_t>(size_of(use.dtype)) >
            memory.count() * static_cast<std::int64_t>(size_of(memory.dtype()))) {
          continue;
        }
        MultiHeadInputs inputs{.query = x_};
        MultiHeadOptions options;
        options.attention.align = Align::top_left;
        use.put(seen_as(memory, use), inputs, options);
        const void* before = results.output.view().data();
        try {
          layer_.forward_into(context_, inputs, options, wants, results);
          ADD_FAILURE() << use.name << " in the memory of " << name << " was taken";
          return;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::layout) << use.name << ", " << name << ": " << error.what();
        }
        EXPECT_EQ(results.output.view().data(), before);
        EXPECT_TRUE(results.weights.present() && results.projections.q.present()) << "something was released";
      }
    }
  }
}

TEST_F(LayerAliases, BackwardRefusesItsOwnGradients) {
  const MultiHeadResults forward = layer_.forward(context_, {.query = x_}, {}, MultiHeadWants::training());
  Tensor dy = Tensor::zeros({B, T, C}, DType::f32);
  MultiHeadGradients gradients = layer_.backward(context_, {.query = x_}, {}, forward, {.output = dy}, {.gates = true});
  const std::map<std::string, ConstTensorView> outputs{{"dquery", gradients.dquery},
                                                       {"dgates", gradients.dgates},
                                                       {"dout_proj", gradients.dparameters.out_proj_weight},
                                                       {"din_proj", gradients.dparameters.in_proj_weight}};
  for (const auto& [name, memory] : outputs) {
    std::vector<Use> all = uses();
    all.push_back({"upstream", {B, T, C}, DType::f32, {}});
    for (const Use& use : all) {
      if (count_of(use.shape) * static_cast<std::int64_t>(size_of(use.dtype)) >
              memory.count() * static_cast<std::int64_t>(size_of(memory.dtype())) ||
          use.name == "key") {
        continue;
      }
      MultiHeadInputs inputs{.query = x_};
      MultiHeadOptions options;
      options.attention.align = Align::top_left;
      if (use.put) use.put(seen_as(memory, use), inputs, options);
      const ConstTensorView upstream = use.put ? ConstTensorView(dy) : seen_as(memory, use);
      try {
        multihead_backward_into(context_, layer_.shape(), layer_.parameters(), inputs, options, forward,
                                {.output = upstream}, {}, gradients);
        ADD_FAILURE() << use.name << " in the memory of " << name << " was taken";
        return;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::layout) << use.name << ", " << name << ": " << error.what();
      }
      EXPECT_TRUE(gradients.dgates.present() && gradients.dquery.present()) << "something was released";
    }
  }
}

}  // namespace
}  // namespace polyhead::test
