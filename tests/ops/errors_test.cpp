// Bad input: a typed error that says what was expected and found, and nothing written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "polyhead/polyhead.h"

namespace polyhead::test {
namespace {

constexpr float kUntouched = -77;

// A small call that is right; every test spoils one thing.
struct AttendCall {
  Tensor q = filled({2, 4, 6, 8}), k = filled({2, 2, 5, 8}), v = Tensor::zeros({2, 2, 5, 3}, DType::f32);
  Tensor output = filled({2, 4, 6, 3});
  ConstTensorView q_view = q, k_view = k, v_view = v;
  AttentionOptions options;
  AttentionWants wants;
  AttentionOutputs outputs{.output = output};
  Context context{1};

  static Tensor filled(const Dims& shape, DType dtype = DType::f32) {
    Tensor tensor = Tensor::zeros(shape, dtype);
    if (dtype == DType::f32) std::fill_n(tensor.as<float>(), tensor.view().count(), kUntouched);
    return tensor;
  }
  void run() { attend_into(context, q_view, k_view, v_view, options, wants, outputs); }
};

// Expects the code, the op and every one of the words in the message.
void expect_error(const std::function<void()>& run, ErrorCode code, const std::string& op,
                  const std::vector<std::string>& words) {
  try {
    run();
    ADD_FAILURE() << "nothing was refused; expected words: " << ::testing::PrintToString(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    const std::string what = error.what();
    EXPECT_EQ(what.rfind("[" + op + "] ", 0), 0u) << what;
    for (const std::string& word : words)
      EXPECT_NE(what.find(word), std::string::npos) << word << " is not in: " << what;
  }
}

// And the output as it was.
void expect_refused(const std::function<void(AttendCall&)>& spoil, ErrorCode code,
                    const std::vector<std::string>& words) {
  AttendCall call;
  spoil(call);
  expect_error([&] { call.run(); }, code, "attend", words);
  for (std::int64_t i = 0; i < call.output.view().count(); ++i) {
    ASSERT_EQ(call.output.as<float>()[i], kUntouched) << "written to at " << i;
  }
}

template <class T>
Tensor tensor_of(const Dims& shape, DType dtype, const std::vector<T>& values) {
  Tensor tensor = Tensor::zeros(shape, dtype);
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

TEST(Errors, TheCallItselfIsRight) {
  AttendCall call;
  EXPECT_NO_THROW(call.run());
  EXPECT_NE(call.output.as<float>()[0], kUntouched);
}

TEST(Errors, ShapesThatDoNotFit) {
  expect_refused(
      [](AttendCall& c) {
        c.q_view = ConstTensorView(c.q.as<float>(), {2, 24, 8});
      },
      ErrorCode::shape, {"q: expected four axes", "[2,24,8]"});
  expect_refused(
      [](AttendCall& c) {
        c.k_view = ConstTensorView(c.k.as<float>(), {2, 2, 10, 4});
      },
      ErrorCode::shape, {"k: expected [2,G,S,8]", "[2,4,6,8]", "found f32 [2,2,10,4]"});
  expect_refused(
      [](AttendCall& c) {
        c.k_view = ConstTensorView(c.k.as<float>(), {1, 4, 5, 8});
      },
      ErrorCode::shape, {"k:"});
  expect_refused(
      [](AttendCall& c) {
        c.v_view = ConstTensorView(c.v.as<float>(), {2, 2, 3, 5});
      },
      ErrorCode::shape, {"v: expected [2,2,5,E]", "[2,2,3,5]"});
  expect_refused([](AttendCall& c) { c.q_view = ConstTensorView(); }, ErrorCode::shape, {"q:", "nothing"});
}

TEST(Errors, HeadsThatDoNotDivide) {
  expect_refused(
      [](AttendCall& c) {
        c.q_view = ConstTensorView(c.q.as<float>(), {2, 3, 6, 8});
      },
      ErrorCode::shape, {"divides the 3 query heads", "[2,2,5,8]"});
  expect_refused(
      [](AttendCall& c) {
        c.k_view = c.k_view.slice(1, 0, 0);
        c.v_view = c.v_view.slice(1, 0, 0);
      },
      ErrorCode::shape, {"divides the 4 query heads"});
}

TEST(Errors, TypesThatDoNotFit) {
  const Tensor i32 = Tensor::zeros({2, 4, 6, 8}, DType::i32), half = Tensor::zeros({2, 2, 5, 8}, DType::f16);
  expect_refused([&](AttendCall& c) { c.q_view = i32; }, ErrorCode::dtype,
                 {"q: expected f32, f16, bf16 or f64", "i32"});
  // 16-bit keys want 16-bit values, and only f32 queries read them.
  expect_refused([&](AttendCall& c) { c.k_view = half; }, ErrorCode::dtype, {"v: expected f16", "f32"});
  const Tensor wide = Tensor::zeros({2, 2, 5, 8}, DType::f64), half_queries = Tensor::zeros({2, 4, 6, 8}, DType::f16);
  expect_refused([&](AttendCall& c) { c.k_view = wide; }, ErrorCode::dtype, {"k: expected f32, f16 or bf16", "f64"});
  expect_refused([&](AttendCall& c) { c.q_view = half_queries; }, ErrorCode::dtype, {"k: expected f16", "f32"});
  const Tensor mask = Tensor::zeros({6, 5}, DType::f32), flags = Tensor::zeros({6, 5}, DType::boolean);
  expect_refused([&](AttendCall& c) { c.options.keep = mask; }, ErrorCode::dtype, {"keep: expected bool"});
  expect_refused([&](AttendCall& c) { c.options.bias = flags; }, ErrorCode::dtype,
                 {"bias: expected a float type", "keep"});
  const Tensor gates = Tensor::zeros({4}, DType::f64);
  expect_refused([&](AttendCall& c) { c.options.gates = gates; }, ErrorCode::dtype, {"gates: expected f32"});
}

TEST(Errors, MemoryThatCannotServe) {
  expect_refused(
      [](AttendCall& c) {
        c.k_view = ConstTensorView(nullptr, DType::f32, {2, 2, 5, 8}, {80, 40, 8, 1});
      },
      ErrorCode::layout, {"k:", "null"});
  expect_refused(
      [](AttendCall& c) {
        const auto* odd = reinterpret_cast<const char*>(c.q.as<float>()) + 1;
        c.q_view = ConstTensorView(odd, DType::f32, {2, 4, 3, 8}, {192, 48, 8, 1});
      },
      ErrorCode::layout, {"q:", "aligned to 4 bytes"});
  expect_refused([](AttendCall& c) { c.q_view = c.q_view.transpose(2, 3); }, ErrorCode::layout,
                 {"q:", "last stride of 1"});
  expect_refused(
      [](AttendCall& c) {
        c.q_view = ConstTensorView(c.q.as<float>(), DType::f32, {2, 4, 6, 8}, {kUnlimited / 2, 48, 8, 1});
      },
      ErrorCode::layout, {"q:", "64 bits"});
  expect_refused(
      [](AttendCall& c) {
        c.q_view = ConstTensorView(c.q.as<float>(), DType::f32, c.q.shape(), contiguous_strides(c.q.shape()),
                                   {Device::Kind::cuda, 0});
      },
      ErrorCode::device, {"q:", "host"});
}

TEST(Errors, SizesThatOverflow) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(ConstTensorView(static_cast<const float*>(nullptr), {huge, huge, 1, 1}), Error);
  expect_refused(
      [&](AttendCall& c) {
        c.q_view = ConstTensorView(c.q.as<float>(), DType::f32, {2, 4, huge, 0}, {0, 0, 0, 1});
      },
      ErrorCode::shape, {"q:", "2^31"});
}

TEST(Errors, OutputsThatCannotBeWritten) {
  expect_refused([](AttendCall& c) { c.outputs.output = TensorView(); }, ErrorCode::shape,
                 {"output: expected [2,4,6,3]"});
  expect_refused([](AttendCall& c) { c.outputs.output = c.output.view().slice(2, 0, 5); }, ErrorCode::shape,
                 {"output: expected [2,4,6,3]", "[2,4,5,3]"});
  expect_refused(
      [](AttendCall& c) {
        c.outputs.output = TensorView(c.output.as<float>(), DType::f32, {2, 4, 6, 3}, {72, 18, 0, 1});
      },
      ErrorCode::layout, {"output:", "a place of its own"});
  expect_refused(
      [](AttendCall& c) {
        c.outputs.output = TensorView(c.q.as<float>(), DType::f32, {2, 4, 6, 3}, {192, 48, 8, 1});
      },
      ErrorCode::layout, {"output:", "apart from the inputs"});
  expect_refused(
      [](AttendCall& c) {
        c.wants.lse = true;
        c.outputs.lse = TensorView(c.output.as<float>(), {2, 4, 6});
      },
      ErrorCode::layout, {"lse:", "the other outputs"});
  expect_refused([](AttendCall& c) { c.wants.lse = true; }, ErrorCode::shape, {"lse: expected [2,4,6]", "nothing"});
  const auto lse = std::make_shared<Tensor>(Tensor::zeros({2, 4, 6}, DType::f32));
  expect_refused([&](AttendCall& c) { c.outputs.lse = *lse; }, ErrorCode::value, {"lse", "wants does not ask for it"});
}

TEST(Errors, NumbersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_refused([&](AttendCall& c) { c.options.scale = nan; }, ErrorCode::value, {"scale", "nan"});
  expect_refused([&](AttendCall& c) { c.options.scale = std::numeric_limits<double>::infinity(); }, ErrorCode::value,
                 {"scale", "inf"});
  expect_refused([&](AttendCall& c) { c.options.softcap = -1; }, ErrorCode::value, {"softcap", "-1"});
  expect_refused([&](AttendCall& c) { c.options.softcap = nan; }, ErrorCode::value, {"softcap"});
  for (const double p : {-0.1, 1.0, nan}) {
    expect_refused([&](AttendCall& c) { c.options.dropout.p = p; }, ErrorCode::value, {"dropout", "0 <= p < 1"});
  }
  for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    expect_refused([&](AttendCall& c) { c.options.dropout.origin.key = first; }, ErrorCode::value,
                   {"dropout", "an origin of 0 to 4294967295", std::to_string(first)});
  }
  expect_refused([&](AttendCall& c) { c.options.softcap = 1e-40; }, ErrorCode::value, {"softcap"});
  expect_refused([&](AttendCall& c) { c.options.scale = 1e300; }, ErrorCode::value, {"scale", "f32"});
  expect_refused([](AttendCall& c) { c.options.window.left = -1; }, ErrorCode::value, {"window", "-1"});
  expect_refused([](AttendCall& c) { c.options.window.always_first = -2; }, ErrorCode::value, {"window", "-2"});
}

TEST(Errors, MasksThatDoNotBroadcast) {
  const Tensor keep = Tensor::zeros({2, 1, 1, 6}, DType::boolean);
  expect_refused([&](AttendCall& c) { c.options.keep = keep; }, ErrorCode::shape,
                 {"keep: expected a shape that broadcasts to [2,4,6,5]", "found bool [2,1,1,6]"});
  const Tensor bias = Tensor::zeros({1, 1, 1, 6, 5}, DType::f32);
  expect_refused([&](AttendCall& c) { c.options.bias = bias; }, ErrorCode::shape, {"bias:", "[1,1,1,6,5]"});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Tensor infinite = Tensor::zeros({6, 5}, dtype);
    const float inf = std::numeric_limits<float>::infinity();
    if (dtype == DType::f64) infinite.as<double>()[17] = inf;
    if (dtype == DType::f32) infinite.as<float>()[17] = inf;
    if (dtype == DType::f16) infinite.as<float16>()[17] = float16(inf);
    if (dtype == DType::bf16) infinite.as<bfloat16>()[17] = bfloat16(inf);
    expect_refused([&](AttendCall& c) { c.options.bias = infinite; }, ErrorCode::value, {"bias", "+inf"});
  }
}

TEST(Errors, PositionsWithoutAlignment) {
  const std::vector<std::string> words{"align", "top_left", "bottom_right"};
  expect_refused([](AttendCall& c) { c.options.causal = true; }, ErrorCode::value, words);
  expect_refused([](AttendCall& c) { c.options.window.left = 3; }, ErrorCode::value, words);
  expect_refused([](AttendCall& c) { c.options.window.right = 3; }, ErrorCode::value, words);
  expect_refused([](AttendCall& c) { c.wants.statistics = StatisticsSet::light; }, ErrorCode::value, words);
  const Tensor slopes = Tensor::zeros({4}, DType::f32);
  expect_refused([&](AttendCall& c) { c.options.alibi = slopes; }, ErrorCode::value, words);
}

TEST(Errors, LengthsOutOfRange) {
  const Tensor long_keys = tensor_of<std::int32_t>({2}, DType::i32, {5, 6});
  const Tensor negative = tensor_of<std::int32_t>({2}, DType::i32, {-1, 5});
  const Tensor starts = tensor_of<std::int32_t>({2}, DType::i32, {0, 4}),
               ends = tensor_of<std::int32_t>({2}, DType::i32, {5, 3});
  const Tensor three = Tensor::zeros({3}, DType::i32);
  expect_refused([&](AttendCall& c) { c.options.key_lengths = long_keys; }, ErrorCode::value,
                 {"key_lengths[1]", "0 to 5", "found 6"});
  expect_refused([&](AttendCall& c) { c.options.query_lengths = negative; }, ErrorCode::value,
                 {"query_lengths[0]", "found -1"});
  expect_refused(
      [&](AttendCall& c) {
        c.options.key_start = starts;
        c.options.key_lengths = ends;
      },
      ErrorCode::value, {"key_start[1]", "0 to 3", "found 4"});
  expect_refused([&](AttendCall& c) { c.options.key_lengths = three; }, ErrorCode::shape,
                 {"key_lengths: expected [2]", "[3]"});
}

// One packed batch: q [1,4,6,8], k [1,2,5,8].
void pack(AttendCall& c, const Tensor& cu_q, const Tensor& cu_k) {
  c.q_view = c.q_view.slice(0, 0, 1);
  c.k_view = c.k_view.slice(0, 0, 1);
  c.v_view = c.v_view.slice(0, 0, 1);
  c.outputs.output = c.output.view().slice(0, 0, 1);
  c.options.cu_q = cu_q;
  c.options.cu_k = cu_k;
}

TEST(Errors, PackingThatDoesNotFit) {
  const Tensor q_offsets = tensor_of<std::int32_t>({3}, DType::i32, {0, 2, 6}),
               k_offsets = tensor_of<std::int32_t>({3}, DType::i32, {0, 3, 5});
  {
    AttendCall call;
    pack(call, q_offsets, k_offsets);
    EXPECT_NO_THROW(call.run());
  }
  const Tensor falling = tensor_of<std::int32_t>({4}, DType::i32, {0, 4, 3, 6}),
               short_of = tensor_of<std::int32_t>({3}, DType::i32, {0, 2, 5});
  const Tensor four = tensor_of<std::int32_t>({4}, DType::i32, {0, 1, 3, 5});
  expect_refused([&](AttendCall& c) { pack(c, falling, four); }, ErrorCode::value,
                 {"cu_q", "must not decrease", "4", "3"});
  expect_refused([&](AttendCall& c) { pack(c, short_of, k_offsets); }, ErrorCode::value, {"cu_q", "0 to 6", "0 to 5"});
  expect_refused([&](AttendCall& c) { pack(c, q_offsets, four); }, ErrorCode::shape,
                 {"cu_q", "cu_k", "number of sequences"});
  expect_refused([&](AttendCall& c) { c.options.cu_q = q_offsets; }, ErrorCode::value, {"both cu_q and cu_k"});
  expect_refused(
      [&](AttendCall& c) {
        c.options.cu_q = q_offsets;
        c.options.cu_k = k_offsets;
      },
      ErrorCode::shape, {"packed", "[1,H,total,D]"});
  const Tensor keep = Tensor::zeros({6, 5}, DType::boolean), lengths = Tensor::zeros({1}, DType::i32);
  expect_refused(
      [&](AttendCall& c) {
        pack(c, q_offsets, k_offsets);
        c.options.keep = keep;
      },
      ErrorCode::unsupported, {"neither keep nor bias"});
  expect_refused(
      [&](AttendCall& c) {
        pack(c, q_offsets, k_offsets);
        c.options.key_lengths = lengths;
      },
      ErrorCode::value, {"cu_q and cu_k"});
}

TEST(Errors, WantsThatDoNotFit) {
  expect_refused(
      [](AttendCall& c) {
        c.wants.row_statistics = true;
        c.options.align = Align::top_left;
      },
      ErrorCode::value, {"light or full"});
  expect_refused([](AttendCall& c) { c.wants.weight_heads = {0}; }, ErrorCode::value, {"weight_heads"});
  for (const std::vector<std::int32_t>& heads : {std::vector<std::int32_t>{4}, {-1}, {1, 1}}) {
    expect_refused(
        [&](AttendCall& c) {
          c.wants.weights = true;
          c.wants.weight_heads = heads;
        },
        ErrorCode::value, {"weight_heads", "0 to 3", "each once"});
  }
  const Tensor marked = Tensor::zeros({2, 5}, DType::boolean),
               targets = tensor_of<std::int32_t>({2, 6, 4}, DType::i32, std::vector<std::int32_t>(48, 5));
  expect_refused([&](AttendCall& c) { c.wants.marked_keys = marked; }, ErrorCode::value, {"full set"});
  expect_refused(
      [&](AttendCall& c) {
        c.options.align = Align::top_left;
        c.wants.statistics = StatisticsSet::full;
        c.wants.target_keys = targets;
      },
      ErrorCode::value, {"target_keys[0,0,0]", "below 5", "found 5"});
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// 128 TiB, more than a process has addresses for. (A sanitizer ends the process where the system only says no.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Errors, MoreMemoryThanThereIs) {
  constexpr std::int64_t kRows = std::int64_t{1} << 30, kColumns = 1 << 15;
  Context context(1);
  const Tensor one = Tensor::zeros({1, 1, 1, 1}, DType::f32), v = Tensor::zeros({1, 1, 1, kColumns}, DType::f32);
  const ConstTensorView q(one.as<float>(), DType::f32, {1, 1, kRows, 1}, {0, 0, 0, 1});
  EXPECT_EQ(code_of([&] { attend(context, q, one, v); }), ErrorCode::memory);
  EXPECT_EQ(code_of([&] { Tensor::empty({kRows, kColumns}, DType::f32); }), ErrorCode::memory);
}
#endif

// What lies just within a limit is no error: memory that touches, a cache that is full, and one that is emptied.
TEST(Errors, EndWhereTheLimitIs) {
  Context context(1);
  Tensor room = Tensor::zeros({2, 1, 1, 3, 4}, DType::f32);
  const Tensor held = Tensor::zeros({1, 1, 3, 4}, DType::f32);
  const ConstTensorView q(room.as<float>(), DType::f32, {1, 1, 3, 4}, {12, 12, 4, 1});
  const TensorView output(room.as<float>() + 12, DType::f32, {1, 1, 3, 4}, {12, 12, 4, 1});
  EXPECT_NO_THROW(attend_into(context, q, held, held, {}, {}, {.output = output}));
  const TensorView before(room.as<float>(), DType::f32, {1, 1, 3, 4}, {12, 12, 4, 1});
  EXPECT_NO_THROW(attend_into(context, output, held, held, {}, {}, {.output = before}));
  KvCache cache(context, {.batch = 1, .kv_heads = 1, .capacity = 3, .head_dim = 4, .value_dim = 4}, DType::f32);
  EXPECT_NO_THROW(cache.append(context, held, held));
  EXPECT_NO_THROW(cache.set_key_start(context, tensor_of<std::int32_t>({1}, DType::i32, {3})));
  EXPECT_NO_THROW(cache.rollback(3));
}

TEST(Errors, AContextThatWasMovedFrom) {
  AttendCall call;
  const Context kept = std::move(call.context);
  EXPECT_EQ(kept.threads(), 1);
  EXPECT_EQ(call.context.threads(), 0);
  EXPECT_EQ(call.context.device(), Device{});
  call.context.release_memory();
  EXPECT_EQ(code_of([&] { call.run(); }), ErrorCode::value);
  EXPECT_EQ(code_of([&] { call.context.synchronise(); }), ErrorCode::value);
}

TEST(Errors, ThreadsOutOfRange) {
  EXPECT_THROW(Context(-1), Error);
  EXPECT_THROW(Context(100000), Error);
}

TEST(Errors, StatisticsThatDoNotMerge) {
  Tensor light = Tensor::zeros({2, 4, kLightStatistics}, DType::f32),
         full = Tensor::zeros({2, 4, kFullStatistics}, DType::f32);
  EXPECT_THROW(merge_statistics(light, full), Error);
  EXPECT_THROW(merge_statistics(Tensor::zeros({2, 4, 3}, DType::f32).view(), light), Error);
}

TEST(Errors, GradientsThatDoNotFit) {
  AttendCall c;
  const Tensor wrong = Tensor::zeros({2, 4, 6, 8}, DType::f32);
  const auto refused = [&](const UpstreamGradients& upstream, ErrorCode code, const std::string& words) {
    expect_error([&] { attend_backward(c.context, c.q_view, c.k_view, c.v_view, c.options, upstream); }, code,
                 "attend_backward", {words});
  };
  refused({.output = wrong}, ErrorCode::shape, "doutput: expected");
  refused({}, ErrorCode::shape, "doutput: expected");
  const Tensor flags = Tensor::zeros({2, 4, 6, 5}, DType::boolean);
  refused({.output = c.output, .weights = flags}, ErrorCode::dtype, "dweights: expected");
  refused({.output = c.output, .lse = flags}, ErrorCode::dtype, "dlse: expected");
  EXPECT_THROW(
      attend_backward(c.context, c.q_view, c.k_view, c.v_view, c.options, {.output = c.output}, {.bias = true}), Error);
  const auto with = [&](const ForwardResults& forward, const GradientWants& wants = {}) {
    attend_backward(c.context, c.q_view, c.k_view, c.v_view, c.options, {.output = c.output}, wants, forward);
  };
  const Tensor lse = Tensor::zeros({c.q_view.shape(0), c.q_view.shape(1), c.q_view.shape(2)}, DType::f32);
  const Tensor short_lse = Tensor::zeros({c.q_view.shape(0), c.q_view.shape(1), 1}, DType::f32);
  EXPECT_NO_THROW(with({c.output, lse}));
  for (const ForwardResults& half : {ForwardResults{c.output, {}}, ForwardResults{{}, lse}}) {
    expect_error([&] { with(half); }, ErrorCode::value, "attend_backward", {"expected output and lse", "together"});
  }
  EXPECT_THROW(with({c.output, short_lse}), Error);
  // Results of more keys: given, and without gradients of weights.
  EXPECT_NO_THROW(with({c.output, lse, true}));
  expect_error([&] { with({.merged = true}); }, ErrorCode::value, "attend_backward", {"merged", "found neither"});
  const Tensor all_weights =
      Tensor::zeros({c.q_view.shape(0), c.q_view.shape(1), c.q_view.shape(2), c.k_view.shape(2)}, DType::f32);
  expect_error(
      [&] {
        attend_backward(c.context, c.q_view, c.k_view, c.v_view, c.options,
                        {.output = c.output, .weights = all_weights}, {}, {c.output, lse, true});
      },
      ErrorCode::unsupported, "attend_backward", {"merged", "dweights"});
  EXPECT_THROW(with({}, {.sink_logit = true}), Error);
  // Outputs: missing, unwanted, of another shape, or the memory of an input.
  Tensor dq = Tensor::zeros(c.q_view.shape(), DType::f32), dk = Tensor::zeros(c.k_view.shape(), DType::f32),
         dv = Tensor::zeros(c.v_view.shape(), DType::f32), dgates = Tensor::zeros({1, 1}, DType::f32);
  const auto into = [&](const AttentionGradientOutputs& outputs, const GradientWants& wants = {}) {
    attend_backward_into(c.context, c.q_view, c.k_view, c.v_view, c.options, {.output = c.output}, wants, {}, outputs);
  };
  EXPECT_NO_THROW(into({.dq = dq, .dk = dk, .dv = dv}));
  EXPECT_THROW(into({.dq = dq, .dk = dk}), Error);
  EXPECT_THROW(into({.dq = dq, .dk = dk, .dv = dv, .dgates = dgates}), Error);
  EXPECT_THROW(into({.dq = dq, .dk = dk, .dv = dv}, {.gates = true}), Error);
  EXPECT_THROW(into({.dq = dq, .dk = dk, .dv = dk}), Error);
}

}  // namespace
}  // namespace polyhead::test
