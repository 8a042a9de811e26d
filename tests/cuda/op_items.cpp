// The other kernels of the table beside the CPU's: f64 on the CPU is exact, f32 (or 16 bits) on the CPU the yardstick.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "cuda/items.h"
#include "cuda/moved.h"
#include "kernels/table.h"
#include "support/compare.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

using kernels::Table;

// One run of an op: on some device, in some type. Inputs have the same numbers everywhere, as `stored` holds them.
class Stage {
 public:
  // What comes out in the type `dtype` is rounded to `rounded` in the end.
  Stage(Context& context, DType dtype, DType stored, const std::string& name, DType rounded)
      : context_(context), dtype_(dtype), stored_(stored), rounded_(rounded), random_(name) {}

  bool is_yardstick() const { return dtype_ == stored_ && context_.device() == Device{}; }
  // Of what is computed in: f32 for 16-bit tensors.
  DType wide() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }

  ConstTensorView normal(const Dims& shape, double spread = 1) {
    return filled(shape, stored_, dtype_, [&] { return spread * random_.normal(); });
  }
  ConstTensorView normal_wide(const Dims& shape) {
    return filled(shape, DType::f32, wide(), [&] { return random_.normal(); });
  }
  ConstTensorView uniform(const Dims& shape) {
    return filled(shape, stored_, dtype_, [&] { return random_.uniform(); });
  }
  ConstTensorView integers(const Dims& shape, std::int64_t low, std::int64_t end) {
    Tensor host = Tensor::empty(shape, DType::i32);
    test::fill_with(host.view(), [&] { return static_cast<double>(low + random_.below(end - low)); });
    return own(clone(context_, host));
  }
  // f32 from 1 on, whatever is computed in.
  ConstTensorView factors(const Dims& shape) {
    return filled(shape, DType::f32, DType::f32, [&] { return 1 + 3 * random_.uniform(); });
  }
  Tensor copied(const ConstTensorView& from) { return clone(context_, from); }
  // Memory to write to, NaN before; it is judged under this name.
  TensorView result(const std::string& name, const Dims& shape, DType dtype) {
    results_.emplace_back(name, clone(context_, poisoned(shape, dtype)));
    return results_.back().second.view();
  }
  TensorView result(const std::string& name, const Dims& shape) {
    to_round_.emplace_back(results_.size(), rounded_);
    return result(name, shape, dtype_);
  }
  // The same, beginning as a copy of something.
  TensorView changing(const std::string& name, const ConstTensorView& from) {
    results_.emplace_back(name, clone(context_, from));
    return results_.back().second.view();
  }
  // Memory for f64 sums of numbers that were computed in f32, by whose precision they are judged: one sum of the
  // yardstick may be better by luck.
  TensorView sums_of_narrow(const std::string& name, const Dims& shape) {
    if (dtype_ != DType::f64) to_round_.emplace_back(results_.size(), DType::f32);
    return result(name, shape, DType::f64);
  }

  template <class... Parameters, class... Arguments>
  void call(void (*Table::*kernel)(Executor&, Parameters...), const Arguments&... arguments) {
    Executor& executor = context_.executor();
    const std::lock_guard turn(executor.turn());
    (executor.kernels().*kernel)(executor, arguments...);
  }

  // Returns whether the device has this kernel, which then must take the problem.
  bool gemv(const kernels::GemvProblem& problem) {
    Executor& executor = context_.executor();
    if (executor.kernels().gemv == nullptr) return false;
    const std::lock_guard turn(executor.turn());
    if (!executor.kernels().gemv(executor, problem)) throw std::runtime_error("gemv does not take it");
    return true;
  }

  std::vector<std::pair<std::string, Tensor>> take() {
    for (auto& [name, tensor] : results_) tensor = to_host(context_, tensor);
    for (const auto& [n, dtype] : to_round_) results_[n].second = converted(results_[n].second, dtype);
    return std::move(results_);
  }

 private:
  static Tensor poisoned(const Dims& shape, DType dtype) {
    Tensor host = Tensor::empty(shape, dtype);
    std::memset(host.view().data(), 0xff, Moved::bytes_of(host));
    return host;
  }
  static Tensor converted(const ConstTensorView& host, DType dtype) {
    const std::vector<double> values = reference::Array<double>(host).values();
    Tensor result = Tensor::empty(host.shape(), dtype);
    std::size_t n = 0;
    test::fill_with(result.view(), [&] { return values[n++]; });
    return result;
  }
  template <class Make>
  ConstTensorView filled(const Dims& shape, DType stored, DType dtype, const Make& make) {
    Tensor made = Tensor::empty(shape, stored);
    test::fill_with(made.view(), make);
    return own(clone(context_, converted(made, dtype)));
  }
  ConstTensorView own(Tensor tensor) {
    memory_.push_back(std::move(tensor));
    return memory_.back().view();
  }

  Context& context_;
  const DType dtype_, stored_, rounded_;
  test::Random random_;
  std::vector<Tensor> memory_;
  std::vector<std::pair<std::string, Tensor>> results_;
  std::vector<std::pair<std::size_t, DType>> to_round_;  // results, and to which type
};

using Op = std::function<void(Stage&)>;

// C = A B + bias, one product after the other: what a plain product loses in its type.
void multiply_plainly(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& bias,
                      const TensorView& c) {
  const reference::Array<float> x(a), y(b), row(bias);
  std::int64_t n = 0;
  test::fill_with(c, [&] {
    const std::int64_t m = n / c.shape(1), column = n++ % c.shape(1);
    float sum = 0;
    for (std::int64_t k = 0; k < a.shape(1); ++k) sum += x(m, k) * y(k, column);
    return static_cast<double>(bias.present() ? sum + row(column) : sum);
  });
}

// The same as tensor cores add: sixteen products at a time, and what does not fit f32 is cut off.
void multiply_by_sixteens(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& bias,
                          const TensorView& c) {
  const reference::Array<double> x(a), y(b), row(bias);
  std::int64_t n = 0;
  test::fill_with(c, [&] {
    const std::int64_t m = n / c.shape(1), column = n++ % c.shape(1), K = a.shape(1);
    float sum = 0;
    for (std::int64_t begin = 0; begin < K; begin += 16) {
      auto exact = static_cast<double>(sum);
      for (std::int64_t k = begin; k < std::min(begin + 16, K); ++k) exact += x(m, k) * y(k, column);
      sum = static_cast<float>(exact);
      if (std::abs(static_cast<double>(sum)) > std::abs(exact)) sum = std::nextafter(sum, 0.0f);
    }
    return static_cast<double>(bias.present() ? sum + static_cast<float>(row(column)) : sum);
  });
}

// The yardstick is the CPU in the type of `plainly`, rounded to `dtype`.
std::string run_op(Context& gpu, const std::string& name, DType dtype, DType plainly, const Op& op) {
  Context cpu(1);
  const auto results = [&](Context& context, DType type) {
    Stage stage(context, type, dtype, name, type == DType::f64 ? type : dtype);
    op(stage);
    auto taken = stage.take();
    context.synchronise();
    return taken;
  };
  const auto exact = results(cpu, DType::f64), plain = results(cpu, plainly), got = results(gpu, dtype);
  for (std::size_t n = 0; n < got.size(); ++n) {
    const auto near = test::near_enough(got[n].first, got[n].second, exact[n].second, plain[n].second);
    if (!near) return near.message();
  }
  return {};
}

void add_products(std::vector<std::pair<std::string, Op>>& ops) {
  struct Size {
    std::int64_t M, N, K;
  };
  for (const auto& [M, N, K] : {Size{1, 1, 1},
                                {5, 7, 0},
                                {5, 0, 7},
                                {64, 64, 64},
                                {130, 70, 33},
                                {17, 384, 1536},
                                {257, 129, 65},
                                {1, 1000, 128},
                                {3, 35, 520},
                                {1000, 1, 24}}) {
    for (int variant = 0; variant < 8; ++variant) {
      const bool a_turned = variant & 1, b_turned = variant & 2, biased = variant & 4;
      const std::string name = "gemm_" + std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K) +
                               (a_turned ? "_at" : "") + (b_turned ? "_bt" : "") + (biased ? "_bias" : "");
      ops.emplace_back(name, [=, M = M, N = N, K = K](Stage& s) {
        const ConstTensorView a = a_turned ? s.normal({K, M}).transpose(0, 1) : s.normal({M, K});
        const ConstTensorView b = b_turned ? s.normal({N, K}).transpose(0, 1) : s.normal({K, N});
        const ConstTensorView bias = biased ? s.normal({N}) : ConstTensorView{},
                              wide_bias = biased ? s.normal_wide({N}) : ConstTensorView{};
        const TensorView c = s.result("c", {M, N}), sums = s.result("unrounded sums", {M, N}, s.wide());
        if (s.is_yardstick()) {
          multiply_plainly(a, b, bias, c);
          return size_of(a.dtype()) == 2 ? multiply_by_sixteens(a, b, wide_bias, sums)
                                         : multiply_plainly(a, b, wide_bias, sums);
        }
        s.call(&Table::gemm, kernels::GemmProblem{.a = a, .b = b, .bias = bias, .c = c});
        s.call(&Table::gemm, kernels::GemmProblem{.a = a, .b = b, .bias = wide_bias, .c = sums});
      });
    }
    ops.emplace_back("column_sums_" + std::to_string(M) + "x" + std::to_string(N), [=, M = M, N = N](Stage& s) {
      const ConstTensorView x = s.normal({M, N});
      s.call(&Table::column_sums, x, s.result("sums", {N}, s.wide()), TensorView{});
      s.call(&Table::column_sums, x, s.result("sums in the type of x", {N}), TensorView{});
    });
  }
}

// What else a product can do: add to something else; give the GELU beside itself.
void add_product_extras(std::vector<std::pair<std::string, Op>>& ops) {
  for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{130, 70, 33}, {256, 384, 128}, {2, 70, 64}}) {
    for (const bool biased : {false, true}) {
      const std::string name = std::to_string(M) + "x" + std::to_string(N) + (biased ? "_bias" : "");
      ops.emplace_back("gemm_plus_" + name, [=, M = M, N = N, K = K](Stage& s) {
        const ConstTensorView a = s.normal({M, K}), b = s.normal({N, K}).transpose(0, 1), plus = s.normal_wide({M, N}),
                              bias = biased ? s.normal_wide({N}) : ConstTensorView{};
        const TensorView c = s.result("c", {M, N}, s.wide());
        s.call(&Table::gemm, kernels::GemmProblem{.a = a, .b = b, .bias = bias, .c = c, .plus = plus});
      });
      ops.emplace_back("gemm_gelu_" + name, [=, M = M, N = N, K = K](Stage& s) {
        const ConstTensorView a = s.normal({M, K}, 0.2), b = s.normal({N, K}).transpose(0, 1),
                              bias = biased ? s.normal({N}) : ConstTensorView{};
        const TensorView before = s.result("before", {M, N}), c = s.result("c", {M, N});
        s.call(&Table::gemm, kernels::GemmProblem{.a = a, .b = b, .bias = bias, .c = c, .before_gelu = before});
      });
    }
  }
}

// Few rows, with a norm or a gate before the product and something added to it, by one kernel and by several.
void add_few_rows(std::vector<std::pair<std::string, Op>>& ops) {
  using Input = kernels::GemvProblem::Input;
  for (const auto& [M, N, K] : {std::array<std::int64_t, 3>{1, 70, 576}, {4, 33, 1544}, {3, 8200, 8}, {1, 8201, 264}}) {
    for (const Input input : {Input::plain, Input::rms_norm, Input::silu_gate, Input::gelu_gate}) {
      const char* const words[] = {"plain", "norm", "silu", "gelu"};
      const std::string name = std::string("gemv_") + words[static_cast<int>(input)] + "_" + std::to_string(M) + "x" +
                               std::to_string(N) + "x" + std::to_string(K);
      ops.emplace_back(name, [=, M = M, N = N, K = K](Stage& s) {
        const bool norm = input == Input::rms_norm, gated = input == Input::silu_gate || input == Input::gelu_gate;
        const Dims shape{M, gated ? 2 * K : K};
        const ConstTensorView x = norm ? s.normal_wide(shape) : s.normal(shape), gamma = s.normal_wide({K}),
                              weight = s.normal({N, K}, 0.1), bias = s.normal_wide({N}), plus = s.normal_wide({M, N});
        const TensorView y = s.result("y", {M, N}, s.wide());
        if (s.gemv({input, x, norm ? gamma : ConstTensorView{}, 1e-5, weight, bias, plus, y})) return;
        Tensor made = s.copied(x.slice(1, 0, K));
        if (norm)
          s.call(&Table::normalise,
                 kernels::NormProblem{.x = x, .gamma = gamma, .beta = {}, .y = made, .mean_rstd = {}});
        if (gated)
          s.call(&Table::gate, input == Input::silu_gate ? kernels::Gate::silu : kernels::Gate::gelu, x, made.view());
        s.call(&Table::gemm,
               kernels::GemmProblem{.a = made, .b = weight.transpose(0, 1), .bias = bias, .c = y, .plus = plus});
      });
    }
  }
}

void add_elementwise(std::vector<std::pair<std::string, Op>>& ops) {
  using kernels::Elementwise;
  for (const Elementwise op :
       {Elementwise::gelu, Elementwise::gelu_backward, Elementwise::add, Elementwise::erf_gelu,
        Elementwise::erf_gelu_backward, Elementwise::scale, Elementwise::softcap, Elementwise::softcap_backward}) {
    for (const std::int64_t columns : {129, 128}) {  // one by one, and eight at a time
      ops.emplace_back(std::string(name_of(op)) + "_" + std::to_string(columns), [=](Stage& s) {
        const Dims shape{37, columns};
        const ConstTensorView a = s.normal(shape, 4);
        s.call(&Table::elementwise,
               kernels::ElementwiseProblem{op, a, is_binary(op) ? s.normal(shape) : ConstTensorView{},
                                           s.result("y", shape), 2.5});
      });
    }
  }
  // With the sums of columns: of a few slices of rows, and of more rows than a slice has.
  for (const Elementwise op :
       {Elementwise::gelu_backward, Elementwise::erf_gelu_backward, Elementwise::softcap_backward}) {
    for (const Dims& shape : {Dims{700, 132}, Dims{37, 70}, Dims{10000, 4}}) {
      ops.emplace_back(std::string(name_of(op)) + "_sums_" + std::to_string(shape[1]), [=](Stage& s) {
        const ConstTensorView a = s.normal(shape, 4), b = s.normal(shape);
        s.call(
            &Table::elementwise,
            kernels::ElementwiseProblem{
                .op = op, .a = a, .b = b, .y = s.result("y", shape), .sums = s.result("sums", {shape[1]}, s.wide())});
      });
    }
  }
  for (const kernels::Gate kind : {kernels::Gate::silu, kernels::Gate::gelu}) {
    const std::string name = kind == kernels::Gate::silu ? "silu_gate" : "gelu_gate";
    ops.emplace_back(name, [=](Stage& s) {
      s.call(&Table::gate, kind, s.normal({19, 2 * 45}, 4), s.result("y", {19, 45}));
    });
    ops.emplace_back(name + "_backward", [=](Stage& s) {
      const ConstTensorView x = s.normal({19, 2 * 45}, 4), dy = s.normal({19, 45});
      s.call(&Table::gate_backward, kind, x, dy, s.result("dx", {19, 90}));
    });
  }
  ops.emplace_back("add_row", [](Stage& s) {
    const ConstTensorView x = s.normal({21, 70}), row = s.normal_wide({70});
    s.call(&Table::add_row, x, row, s.result("y", {21, 70}));
  });
  ops.emplace_back("add_to_stream", [](Stage& s) {
    const ConstTensorView stream = s.normal_wide({37, 128}), x = s.normal({37, 128});
    s.call(&Table::elementwise,
           kernels::ElementwiseProblem{Elementwise::add, stream, x, s.result("y", {37, 128}, s.wide())});
  });
}

void add_norms(std::vector<std::pair<std::string, Op>>& ops) {
  for (const auto& [M, C] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {33, 384}, {300, 65}, {300, 132}, {100, 1000}, {7, 2000}}) {
    for (const bool centred : {false, true}) {
      const std::string size = std::to_string(M) + "x" + std::to_string(C) + (centred ? "" : "_rms");
      ops.emplace_back("normalise_" + size, [=, M = M, C = C](Stage& s) {
        const ConstTensorView x = s.normal_wide({M, C}), narrow = s.normal({M, C}), gamma = s.normal_wide({C}),
                              beta = centred ? s.normal_wide({C}) : ConstTensorView{};
        const TensorView mean_rstd = s.result("mean_rstd", {M, 2}, s.wide());
        s.call(&Table::normalise,
               kernels::NormProblem{
                   .x = x, .gamma = gamma, .beta = beta, .y = s.result("y", {M, C}), .mean_rstd = mean_rstd});
        s.call(&Table::normalise,
               kernels::NormProblem{
                   .x = narrow, .gamma = gamma, .beta = beta, .y = s.result("of narrow", {M, C}), .mean_rstd = {}});
      });
      ops.emplace_back("normalise_backward_" + size, [=, M = M, C = C](Stage& s) {
        const ConstTensorView x = s.normal_wide({M, C}), gamma = s.normal_wide({C}), dy = s.normal({M, C}),
                              plus = s.normal_wide({M, C});
        const TensorView mean_rstd = s.result("mean_rstd", {M, 2}, s.wide()), y = s.result("y", {M, C});
        s.call(
            &Table::normalise,
            kernels::NormProblem{
                .x = x, .gamma = gamma, .beta = centred ? gamma : ConstTensorView{}, .y = y, .mean_rstd = mean_rstd});
        s.call(&Table::normalise_backward,
               kernels::NormGradientProblem{.x = x,
                                            .gamma = gamma,
                                            .mean_rstd = mean_rstd,
                                            .dy = dy,
                                            .plus = M > 30 ? plus : ConstTensorView{},
                                            .centred = centred,
                                            .dx = s.result("dx", {M, C}, s.wide()),
                                            .dgamma = s.result("dgamma", {C}, s.wide()),
                                            .dbeta = centred ? s.result("dbeta", {C}, s.wide()) : TensorView{}});
      });
    }
  }
}

// Rows that are parts of longer ones: heads of q within [B*T,(H+2G)*D].
void add_norms_of_heads(std::vector<std::pair<std::string, Op>>& ops) {
  ops.emplace_back("normalise_heads", [](Stage& s) {
    const ConstTensorView x = s.normal({17, 5, 24}).slice(1, 1, 4), gamma = s.normal_wide({24}),
                          dy = s.normal({17, 4, 24}).slice(1, 0, 3);
    const TensorView mean_rstd = s.result("mean_rstd", {51, 2}, s.wide());
    s.call(&Table::normalise,
           kernels::NormProblem{
               .x = x, .gamma = gamma, .beta = {}, .y = s.result("y", {17, 3, 24}), .mean_rstd = mean_rstd});
    s.call(&Table::normalise_backward, kernels::NormGradientProblem{.x = x,
                                                                    .gamma = gamma,
                                                                    .mean_rstd = mean_rstd,
                                                                    .dy = dy,
                                                                    .plus = {},
                                                                    .centred = false,
                                                                    .dx = s.result("dx", {17, 3, 24}),
                                                                    .dgamma = s.result("dgamma", {24}, s.wide()),
                                                                    .dbeta = {}});
  });
}

void add_moves(std::vector<std::pair<std::string, Op>>& ops) {
  ops.emplace_back("dropout", [](Stage& s) {
    const ConstTensorView x = s.normal({3, 17, 77});
    s.call(&Table::drop, kernels::DropoutProblem{x, s.result("y", {3, 17, 77}), {.p = 0.3, .seed = 12345}});
  });
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    for (const bool backwards : {false, true}) {
      const std::string name = std::string("rotary") + (layout == RotaryLayout::half ? "_half" : "_interleaved") +
                               (backwards ? "_backwards" : "");
      ops.emplace_back(name, [=](Stage& s) {
        const ConstTensorView x = s.normal({2, 3, 41, 24}), positions = s.integers({2, 41}, 0, 3000),
                              factors = s.factors({8});
        s.call(&Table::rotate, kernels::RotaryProblem{.x = x,
                                                      .y = s.result("y", {2, 3, 41, 24}),
                                                      .positions = backwards ? ConstTensorView{} : positions,
                                                      .layout = layout,
                                                      .dim = 16,
                                                      .base = 10000,
                                                      .scaling = {.factor = backwards ? 4.0 : 1.0, .context = 500},
                                                      .factors = backwards ? ConstTensorView{} : factors,
                                                      .backwards = backwards});
      });
    }
  }
  for (const auto& [tokens, dim] : {std::pair<std::int64_t, std::int64_t>{2, 16}, {70, 24}, {3, 0}}) {
    const std::string name = "append_" + std::to_string(tokens) + (dim > 0 ? "_rotary_" + std::to_string(dim) : "");
    ops.emplace_back(name, [=, tokens = tokens, dim = dim](Stage& s) {
      constexpr std::int64_t B = 3, H = 4, G = 2, D = 24, E = 20, kRoom = 100;
      const ConstTensorView rows = s.integers({B}, 0, kRoom - tokens), positions = s.integers({B, tokens}, 0, 3000);
      const TensorView q = s.changing("q", s.normal({B, tokens, H, D})).transpose(1, 2),
                       keys = s.changing("keys", s.normal({B, G, kRoom, D})),
                       values = s.changing("values", s.normal({B, G, kRoom, E})),
                       narrow = s.changing("keys of k in f32", s.normal({B, G, kRoom, D}));
      Tensor k = s.copied(s.normal({B, G, tokens, D})), wide = s.copied(s.normal_wide({B, G, tokens, D}));
      const ConstTensorView v = s.normal({B, G, tokens, E});
      const kernels::RotaryProblem rotary{.x = {}, .y = {}, .positions = positions, .dim = dim};
      s.call(&Table::append, kernels::AppendProblem{q, k, v, keys, values, rows, rotary});
      s.call(&Table::append, kernels::AppendProblem{q, wide, v, narrow, values, rows, rotary});
    });
  }
  ops.emplace_back("copy", [](Stage& s) {
    const ConstTensorView x = s.normal({4, 5, 6, 7});
    s.call(&Table::copy, x.transpose(1, 2).slice(3, 1, 6), s.result("y", {4, 6, 5, 5}));
    s.call(&Table::copy, x, s.result("z", {4, 5, 6, 7}));
    s.call(&Table::copy, x, s.result("wide", {4, 5, 6, 7}, s.wide()));
    const ConstTensorView rows = s.normal({3, 4, 24, 16});  // whole groups of eight, and the same one off
    s.call(&Table::copy, rows.transpose(1, 2), s.result("wide rows", {3, 24, 4, 16}, s.wide()));
    s.call(&Table::copy, rows.slice(3, 1, 9), s.result("wide rows, one off", {3, 4, 24, 8}, s.wide()));
    const ConstTensorView numbers = s.normal_wide({5, 48});
    s.call(&Table::copy, numbers, s.result("narrow rows", {5, 48}));
  });
}

// More tensors than one launch takes, of less than a piece, one and several.
void add_rounding(std::vector<std::pair<std::string, Op>>& ops) {
  ops.emplace_back("round", [](Stage& s) {
    std::vector<ConstTensorView> from;
    std::vector<TensorView> to;
    for (std::int64_t n = 0; n < 60; ++n) {
      const Dims shape{n % 7 == 0 ? 9001 : n % 7 == 1 ? 4096 : 5 * n + 1};
      from.push_back(s.normal_wide(shape));
      to.push_back(s.result("y " + std::to_string(n), shape));
    }
    s.call(&Table::round, std::span<const ConstTensorView>(from), std::span<const TensorView>(to));
  });
  for (const Dims& shape : {Dims{700, 132}, Dims{37, 70}}) {
    ops.emplace_back("column_sums_rounded_" + std::to_string(shape[1]), [=](Stage& s) {
      s.call(&Table::column_sums, s.normal_wide(shape), s.result("sums", {shape[1]}, s.wide()),
             s.result("rounded", shape));
    });
  }
}

void add_tables(std::vector<std::pair<std::string, Op>>& ops) {
  for (const bool placed : {false, true}) {
    ops.emplace_back(placed ? "embed_positions" : "embed", [=](Stage& s) {
      for (const std::int64_t C : {33, 600}) {  // part of what a warp takes, and more
        const ConstTensorView table = s.normal({50, C}), indices = s.integers({4, 20}, 0, 50);
        s.call(&Table::embed, kernels::EmbeddingProblem{.table = table,
                                                        .indices = indices,
                                                        .positions = placed ? s.normal({30, C}) : ConstTensorView{},
                                                        .y = s.result("y " + std::to_string(C), {4, 20, C})});
      }
    });
  }
  for (const std::int64_t entries : {50, 5000}) {  // in slices of the rows, and all at once
    ops.emplace_back("embed_backward_" + std::to_string(entries), [=](Stage& s) {
      const ConstTensorView dy = s.normal({40, 20, 33}), indices = s.integers({40, 20}, 0, 9),
                            before = s.normal({entries, 33});
      s.call(&Table::embed_backward, kernels::EmbeddingGradientProblem{dy, indices, s.changing("dtable", before)});
    });
  }
  for (const bool lengths : {false, true}) {
    ops.emplace_back(lengths ? "pool_lengths" : "pool", [=](Stage& s) {
      const ConstTensorView x = s.normal({6, 29, 21}), dy = s.normal({6, 21});
      const ConstTensorView n = lengths ? s.integers({6}, 1, 30) : ConstTensorView{};
      s.call(&Table::pool, x, n, s.result("y", {6, 21}));
      s.call(&Table::pool_backward, dy, n, s.result("dx", {6, 29, 21}));
    });
  }
  for (const std::int64_t V : {3, 77, 5000}) {
    // Several groups of rows, and one group of more rows than a block has threads.
    for (const auto& [rows, together] : {std::pair<std::int64_t, std::int64_t>{24, 6}, {300, 300}}) {
      const std::string name = (rows == together ? "cross_entropy_of_many_" : "cross_entropy_") + std::to_string(V);
      ops.emplace_back(name, [=, rows = rows, together = together](Stage& s) {
        const ConstTensorView logits = s.normal({rows, V}, 3), targets = s.integers({rows}, -1, V);
        s.call(&Table::cross_entropy,
               kernels::CrossEntropyProblem{.logits = logits,
                                            .targets = targets,
                                            .rows_together = together,
                                            .shares = s.result("shares", {rows}),
                                            .losses = s.result("losses", {rows}),
                                            .totals = s.sums_of_narrow("totals", {2}),
                                            .dlogits = s.result("dlogits", {rows, V}),
                                            .target_scores = s.result("target_scores", {rows, 2})});
      });
    }
  }
  // One is large, and two are empty, among them the last of a hundred.
  const auto size_of_tensor = [](std::int64_t n, std::int64_t large) {
    return n == 7 ? large : n == 9 || n == 99 ? 0 : 1 + 37 * n;
  };
  for (const std::int64_t count : {1, 100}) {  // tensors: in one launch, and in several
    ops.emplace_back("adamw_" + std::to_string(count), [=](Stage& s) {
      std::vector<kernels::AdamWTensor> tensors;
      for (std::int64_t n = 0; n < count; ++n) {
        const Dims shape{size_of_tensor(n, 9000)};
        const ConstTensorView w = s.normal(shape), m = s.normal(shape, 0.1), v = s.uniform(shape), g = s.normal(shape);
        const std::string number = " " + std::to_string(n);
        tensors.push_back({s.changing("weight" + number, w), s.changing("first" + number, m),
                           s.changing("second" + number, v), g, n % 3 != 1});
      }
      s.call(&Table::adamw, kernels::AdamWProblem{.tensors = tensors, .gradient_factor = 0.5, .step = 3});
    });
    ops.emplace_back("sums_of_squares_" + std::to_string(count), [=](Stage& s) {
      std::vector<ConstTensorView> tensors;
      for (std::int64_t n = 0; n < count; ++n) tensors.push_back(s.normal({size_of_tensor(n, 300000)}));
      s.call(&Table::sums_of_squares, std::span<const ConstTensorView>(tensors), s.result("sums", {count}, DType::f64));
    });
  }
}

}  // namespace

std::vector<Item> op_items() {
  // Those that the CPU has in 16 bits, those that only a GPU has, those that none has, and those of 16 bits alone.
  std::vector<std::pair<std::string, Op>> narrow, rounded, f32_only, halves_only;
  add_products(narrow);
  add_moves(narrow);
  add_product_extras(rounded);
  add_few_rows(rounded);
  add_elementwise(rounded);
  add_norms(rounded);
  add_norms_of_heads(rounded);
  add_tables(f32_only);
  add_rounding(halves_only);
  std::vector<Item> items;
  const auto add = [&](const auto& ops, DType dtype, DType plainly) {
    for (const auto& [name, op] : ops) {
      const std::string full = name + "_" + std::string(name_of(dtype));
      items.push_back({"ops/" + full, [=, op = op](Context& gpu) { return run_op(gpu, full, dtype, plainly, op); }});
    }
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    add(narrow, dtype, dtype);
    add(rounded, dtype, DType::f32);
  }
  add(f32_only, DType::f32, DType::f32);
  for (const DType dtype : {DType::f16, DType::bf16}) add(halves_only, dtype, dtype);
  return items;
}

}  // namespace polyhead::test::gpu
