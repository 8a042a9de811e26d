// Outputs that are somebody else's memory: every pair of an input or option with an output, and of two outputs, of
// every public op is refused, and nothing has been written by then.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "polyhead/cache.h"
#include "polyhead/layer.h"
#include "polyhead/linear.h"
#include "polyhead/rotary.h"
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

// In place is allowed, but not one step further.
TEST_F(Aliases, Rotate) {
  a_.add("x", {B, H, T, D}, DType::f32, -1, 1);
  a_.add("positions", {B, T}, DType::i32, 0, 9);
  a_.add("y", {B, H, T, D}, DType::f32, -1, 1);
  a_.expect_refused({"positions"}, {"y"}, [&] { rotate_into(context_, a_["x"], {}, a_["positions"], a_["y"]); });
  a_.expect_refused({"positions"}, {"y"},
                    [&] { rotate_backward_into(context_, a_["x"], {}, a_["positions"], a_["y"]); });
  const TensorView x = a_["x"], front = x.slice(2, 0, T - 1), back = x.slice(2, 1, T);
  EXPECT_THROW(rotate_into(context_, front, {}, {}, back), Error);
  EXPECT_THROW(rotate_into(context_, back, {}, {}, front), Error);
  EXPECT_THROW(rotate_backward_into(context_, front, {}, {}, back), Error);
  EXPECT_NO_THROW(rotate_into(context_, x, {}, {}, x));
}

TEST_F(Aliases, Copy) {
  a_.add("from", {3, 5}, DType::f32, -1, 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    a_.add("to", {3, 5}, dtype, -1, 1);
    a_.expect_refused({"from"}, {"to"}, [&] { copy(context_, a_["from"], a_["to"]); });
  }
}

TEST_F(Aliases, MergeStatistics) {
  a_.add("more", {B, H, kLightStatistics}, DType::f32, 0, 1);
  for (const DType dtype : {DType::f32, DType::f64}) {
    a_.add("into", {B, H, kLightStatistics}, dtype, 0, 1);
    a_.expect_refused({"more"}, {"into"}, [&] { merge_statistics(a_["into"], a_["more"]); });
  }
}

// A cache owns its memory; what is appended to it or made from it must lie elsewhere.
TEST_F(Aliases, Cache) {
  KvCache cache(context_, {.batch = B, .kv_heads = G, .capacity = 4 * T, .head_dim = D, .value_dim = D});
  add_attention();
  a_.add("new", {B, G, T, D}, DType::f32, -1, 1);
  cache.append(context_, a_["new"], a_["new"]);
  for (const ConstTensorView& own : {cache.keys(), cache.values()}) {
    EXPECT_THROW(cache.append(context_, own, a_["new"]), Error);
    EXPECT_THROW(cache.append(context_, a_["new"], own), Error);
    const TensorView output(const_cast<void*>(own.data()), DType::f32, {B, H, T, D}, contiguous_strides({B, H, T, D}));
    EXPECT_THROW(attend_into(context_, a_["q"], cache, {}, {}, {.output = output}), Error);
  }
  EXPECT_EQ(cache.length(), T);
  const ConstTensorView kept = cache.keys(), given = a_["new"];
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t g = 0; g < G; ++g) {
      EXPECT_EQ(std::memcmp(kept.slice(0, b, b + 1).slice(1, g, g + 1).data(),
                            given.slice(0, b, b + 1).slice(1, g, g + 1).data(), T * D * sizeof(float)),
                0);
    }
  }
}

// The layer's results own their memory, so what they can share is what the caller passes from an earlier result.
class LayerAliases : public ::testing::Test {
 protected:
  static constexpr std::int64_t B = 1, T = 16, C = 8, H = 2, K = 6, V = 4;

  // A call, as a use of some memory completes it.
  struct Call {
    MultiHeadShape shape;
    MultiHeadViews parameters;
    MultiHeadInputs inputs;
    MultiHeadOptions options;
    MultiHeadWants wants;
    UpstreamGradients upstream;
  };
  // Every use of a tensor as a parameter, an input or an option, each with its shape.
  struct Use {
    std::string name;
    Dims shape;
    DType dtype;
    std::function<void(const ConstTensorView&, Call&)> put;

    std::int64_t bytes() const { return count_of(shape) * static_cast<std::int64_t>(size_of(dtype)); }
    ConstTensorView in(const ConstTensorView& memory) const {
      return ConstTensorView(memory.data(), dtype, shape, contiguous_strides(shape));
    }
  };
  using Memory = std::map<std::string, ConstTensorView>;

  LayerAliases() {
    wants_.attention.weights = wants_.attention.row_statistics = true;
    wants_.attention.statistics = StatisticsSet::full;
    wants_.attention.logits = LogitStage::biased;
    ends_.as<std::int32_t>()[1] = T;
  }

  Call call() const {
    Call made{layer_.shape(), layer_.parameters(), {.query = x_}, {}, wants_, {.output = x_}};
    made.options.attention.align = Align::top_left;
    return made;
  }
  void make_cross(Call& call) const {
    call.shape = cross_.shape();
    call.parameters = cross_.parameters();
    call.inputs = {.query = x_, .key = key_, .value = value_};
  }

  std::vector<Use> uses() const {
    const auto attention = [](ConstTensorView AttentionOptions::*member) {
      return [member](const ConstTensorView& view, Call& call) { call.options.attention.*member = view; };
    };
    const auto packed = [this](ConstTensorView AttentionOptions::*member) {
      return [this, member](const ConstTensorView& view, Call& call) {
        call.options.attention.cu_q = call.options.attention.cu_k = ends_;
        call.options.attention.*member = view;
      };
    };
    const auto parameter = [](ConstTensorView MultiHeadViews::*member) {
      return [member](const ConstTensorView& view, Call& call) { call.parameters.*member = view; };
    };
    const auto cross_parameter = [this](ConstTensorView MultiHeadViews::*member) {
      return [this, member](const ConstTensorView& view, Call& call) {
        make_cross(call);
        call.parameters.*member = view;
      };
    };
    const auto rotated = [](ConstTensorView MultiHeadOptions::*member) {
      return [member](const ConstTensorView& view, Call& call) {
        call.options.rotary = Rotary{};
        call.options.*member = view;
      };
    };
    return {
        {"query", {B, T, C}, DType::f32, [](const auto& v, Call& c) { c.inputs.query = v; }},
        {"key", {B, T, C}, DType::f32, [](const auto& v, Call& c) { c.inputs.key = v; }},
        {"value", {B, T, V}, DType::f32, [this](const auto& v, Call& c) { make_cross(c), c.inputs.value = v; }},
        {"in_proj_weight", {3 * C, C}, DType::f32, parameter(&MultiHeadViews::in_proj_weight)},
        {"in_proj_bias", {3 * C}, DType::f32, parameter(&MultiHeadViews::in_proj_bias)},
        {"out_proj_weight", {C, C}, DType::f32, parameter(&MultiHeadViews::out_proj_weight)},
        {"out_proj_bias", {C}, DType::f32, parameter(&MultiHeadViews::out_proj_bias)},
        {"q_proj_weight", {C, C}, DType::f32, cross_parameter(&MultiHeadViews::q_proj_weight)},
        {"k_proj_weight", {C, K}, DType::f32, cross_parameter(&MultiHeadViews::k_proj_weight)},
        {"v_proj_weight", {C, V}, DType::f32, cross_parameter(&MultiHeadViews::v_proj_weight)},
        {"keep", {B, 1, 1, T}, DType::boolean, attention(&AttentionOptions::keep)},
        {"bias", {T, T}, DType::f32, attention(&AttentionOptions::bias)},
        {"alibi", {B, H}, DType::f32, attention(&AttentionOptions::alibi)},
        {"gates", {H}, DType::f32, attention(&AttentionOptions::gates)},
        {"sink_logit", {H}, DType::f32, attention(&AttentionOptions::sink_logit)},
        {"key_lengths", {B}, DType::i32, attention(&AttentionOptions::key_lengths)},
        {"key_start", {B}, DType::i64, attention(&AttentionOptions::key_start)},
        {"query_lengths", {B}, DType::i32, attention(&AttentionOptions::query_lengths)},
        {"first_positions",
         {B},
         DType::i64,
         [](const auto& v, Call& c) {
           c.options.attention.align = Align::unset;
           c.options.attention.first_positions = v;
         }},
        {"cu_q", {2}, DType::i32, packed(&AttentionOptions::cu_q)},
        {"cu_k", {2}, DType::i64, packed(&AttentionOptions::cu_k)},
        {"query_positions", {T}, DType::i32, rotated(&MultiHeadOptions::query_positions)},
        {"key_positions", {B, T}, DType::i32, rotated(&MultiHeadOptions::key_positions)},
        {"factors", {C / H / 2}, DType::f32, [](const auto& v, Call& c) { c.options.rotary = Rotary{.factors = v}; }}};
  }

  // call(made, use, memory) for every use that fits into every memory; it must be refused.
  void expect_refused(const std::vector<Use>& uses, const Memory& memories, const std::function<void(Call&)>& run,
                      const std::function<void()>& expect_whole) const {
    std::map<std::string, int> tried;
    for (const Use& use : uses) {
      for (const auto& [name, memory] : memories) {
        if (use.bytes() > memory.count() * static_cast<std::int64_t>(size_of(memory.dtype()))) continue;
        Call made = call();
        use.put(use.in(memory), made);
        ++tried[use.name];
        try {
          run(made);
          FAIL() << use.name << " in the memory of " << name << " was taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::layout) << use.name << ", " << name << ": " << error.what();
        }
        expect_whole();
      }
      EXPECT_GT(tried[use.name], 0) << use.name << " fits nowhere";
    }
  }

  Context context_{2};
  const MultiHeadAttention layer_{{.width = C, .heads = H}, DType::f32, 3};
  const MultiHeadAttention cross_{{.width = C, .heads = H, .key_width = K, .value_width = V}, DType::f32, 4};
  Tensor x_ = Tensor::zeros({B, T, C}, DType::f32), key_ = Tensor::zeros({B, T, K}, DType::f32),
         value_ = Tensor::zeros({B, T, V}, DType::f32), ends_ = Tensor::zeros({2}, DType::i32);
  MultiHeadWants wants_ = MultiHeadWants::training();
};

TEST_F(LayerAliases, ForwardRefusesItsOwnResults) {
  MultiHeadResults results = layer_.forward(context_, {.query = x_}, {}, wants_);
  const Memory memories{{"output", results.output},
                        {"heads", results.heads},
                        {"lse", results.lse},
                        {"weights", results.weights},
                        {"statistics", results.statistics},
                        {"row_statistics", results.row_statistics},
                        {"projections", results.projections.buffers[0]},
                        {"logits", results.logits}};
  std::vector<Use> all = uses();
  all.push_back({"marked_keys", {B, T}, DType::boolean, [](const auto& v, Call& c) {
                   c.wants.attention.statistics = StatisticsSet::full;
                   c.wants.attention.marked_keys = v;
                 }});
  all.push_back({"target_keys", {B, T, 4}, DType::i32, [](const auto& v, Call& c) {
                   c.wants.attention.statistics = StatisticsSet::full;
                   c.wants.attention.target_keys = v;
                 }});
  const void* before = results.output.view().data();
  const auto expect_whole = [&] {
    EXPECT_EQ(results.output.view().data(), before);
    EXPECT_TRUE(results.weights.present() && results.projections.q.present()) << "something was released";
  };
  // Wanted again or not: what is not wanted would be released.
  for (const MultiHeadWants& wants : {wants_, MultiHeadWants{}}) {
    wants_ = wants;
    expect_refused(
        all, memories,
        [&](Call& c) { multihead_into(context_, c.shape, c.parameters, c.inputs, c.options, c.wants, results); },
        expect_whole);
  }
}

TEST_F(LayerAliases, BackwardRefusesItsOwnGradients) {
  Tensor bias = Tensor::zeros({T, T}, DType::f32), sinks = Tensor::zeros({H}, DType::f32);
  const AttentionOptions biased{.bias = bias, .sink_logit = sinks};
  const MultiHeadWants wants = MultiHeadWants::training();
  const MultiHeadResults forward = layer_.forward(context_, {.query = x_}, {}, wants);
  const MultiHeadInputs crossing{.query = x_, .key = key_, .value = value_};
  const MultiHeadResults crossed = cross_.forward(context_, crossing, {}, wants);
  const MultiHeadResults keyed = layer_.forward(context_, {.query = x_, .key = x_}, {}, wants);
  MultiHeadGradients gradients = layer_.backward(context_, {.query = x_}, {.attention = biased},
                                                 layer_.forward(context_, {.query = x_}, {.attention = biased}, wants),
                                                 {.output = x_}, {.bias = true, .sink_logit = true, .gates = true});
  const Memory memories{{"dquery", gradients.dquery},
                        {"dbias", gradients.dbias},
                        {"dsink_logit", gradients.dsink_logit},
                        {"dgates", gradients.dgates},
                        {"din_proj_weight", gradients.dparameters.in_proj_weight},
                        {"din_proj_bias", gradients.dparameters.in_proj_bias},
                        {"dout_proj_weight", gradients.dparameters.out_proj_weight},
                        {"dout_proj_bias", gradients.dparameters.out_proj_bias}};
  std::vector<Use> all = uses();
  all.push_back({"upstream", {B, T, C}, DType::f32, [](const auto& v, Call& c) { c.upstream.output = v; }});
  all.push_back({"upstream lse", {B, H, T}, DType::f32, [](const auto& v, Call& c) { c.upstream.lse = v; }});
  expect_refused(
      all, memories,
      [&](Call& c) {
        const bool cross = !c.shape.packed();
        multihead_backward_into(context_, c.shape, c.parameters, c.inputs, c.options,
                                cross                    ? crossed
                                : c.inputs.key.present() ? keyed
                                                         : forward,
                                c.upstream, {}, gradients);
      },
      [&] { EXPECT_TRUE(gradients.dgates.present() && gradients.dquery.present()) << "something was released"; });
}

}  // namespace
}  // namespace polyhead::test
