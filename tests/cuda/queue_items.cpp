// What a GPU owes besides: errors in values that come when somebody waits, calls that a graph can hold, tensors that
// outlive their context, streams of the caller, two at once, more than the memory holds, rounded products, more tiles
// than multiprocessors with idle ones among them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "cuda/executor.h"
#include "cuda/items.h"
#include "polyhead/attention.h"
#include "polyhead/linear.h"
#include "support/random.h"

namespace polyhead::test::gpu {
namespace {

Tensor random_tensor(Context& context, const Dims& shape, DType dtype, std::uint64_t seed) {
  Tensor host = Tensor::empty(shape, dtype);
  test::Random random(seed);
  test::fill_normal(host.view(), random);
  return clone(context, host);
}

std::string host_tensors_are_refused(Context& context) {
  const Tensor q = random_tensor(context, {1, 2, 5, 8}, DType::f32, 1), host = Tensor::zeros({1, 2, 5, 8}, DType::f32);
  try {
    attend(context, q, host, q);
    return "a tensor of the host was accepted";
  } catch (const Error&) {
    return {};
  }
}

// After a first call the same call can be captured, and its replay reads what the inputs hold then. A pass over 100
// queries, or a step of decoding.
std::string calls_can_be_captured(Context& context, std::int64_t queries) {
  const Dims shape{1, 2, queries, 64}, keys{1, 2, 600, 64};
  Tensor q = random_tensor(context, shape, DType::bf16, 1), k = random_tensor(context, keys, DType::bf16, 2);
  const Tensor dout = random_tensor(context, shape, DType::bf16, 3),
               other = random_tensor(context, shape, DType::bf16, 4);
  Tensor output = Tensor::empty(shape, DType::bf16, context.allocator());
  const AttentionOptions options{.align = Align::bottom_right, .causal = true};
  const auto call = [&] {
    attend_into(context, q, k, k, options, {}, {.output = output});
    attend_backward(context, q, k, k, options, {.output = dout});
  };
  call();
  auto& executor = static_cast<cuda::CudaExecutor&>(context.executor());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cuda::check(cudaStreamBeginCapture(executor.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  call();
  cuda::check(cudaStreamEndCapture(executor.stream(), &graph), "cudaStreamEndCapture");
  cuda::check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  copy(context, other, q);
  cuda::check(cudaGraphLaunch(ready, executor.stream()), "cudaGraphLaunch");
  const Tensor replayed = to_host(context, output);
  attend_into(context, q, k, k, options, {}, {.output = output});
  const Tensor called = to_host(context, output);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  const auto bytes = static_cast<std::size_t>(called.view().count()) * 2;
  return std::memcmp(replayed.view().data(), called.view().data(), bytes) == 0 ? "" : "a replay has other bits";
}

std::string is_same(Context& context, const ConstTensorView& got, const ConstTensorView& wanted,
                    const std::string& what) {
  const Tensor a = to_host(context, got), b = to_host(context, wanted);
  return std::memcmp(a.view().data(), b.view().data(), static_cast<std::size_t>(a.view().count()) * 2) == 0
             ? ""
             : what + " has other bits\n";
}

// Every other head is closed: its tiles lie among those that are computed.
std::string closed_heads_are_skipped(Context& context) {
  const std::int64_t H = 64;
  const Tensor q = random_tensor(context, {1, H, 1100, 64}, DType::bf16, 1);
  Tensor open = Tensor::zeros({H}, DType::f32);
  for (std::int64_t h = 0; h < H; h += 2) open.as<float>()[h] = 1;
  const Tensor gates = clone(context, open), zeros = clone(context, Tensor::zeros({1, 1, 1100, 64}, DType::bf16));
  const Attention all = attend(context, q, q, q), some = attend(context, q, q, q, {.gates = gates});
  std::string wrong;
  for (std::int64_t h = 0; h < H; ++h) {
    const ConstTensorView wanted = h % 2 == 0 ? ConstTensorView(all.output.view().slice(1, h, h + 1)) : zeros.view();
    wrong += is_same(context, some.output.view().slice(1, h, h + 1), wanted, "head " + std::to_string(h));
  }
  return wrong;
}

// Packed sequences, some of them empty, and each by itself.
std::string packed_sequences_are_alone(Context& context) {
  const std::int64_t H = 32;
  const std::vector<std::int32_t> ends{0, 0, 1300, 1300, 1300, 1317, 3000};
  const Tensor q = random_tensor(context, {1, H, ends.back(), 64}, DType::bf16, 1);
  Tensor host = Tensor::empty({static_cast<std::int64_t>(ends.size())}, DType::i32);
  std::copy(ends.begin(), ends.end(), host.as<std::int32_t>());
  const Tensor cu = clone(context, host);
  const Attention packed = attend(context, q, q, q, {.cu_q = cu, .cu_k = cu});
  std::string wrong;
  for (std::size_t n = 0; n + 1 < ends.size(); ++n) {
    if (ends[n + 1] == ends[n]) continue;
    const ConstTensorView own = q.view().slice(2, ends[n], ends[n + 1]);
    const Attention alone = attend(context, own, own, own);
    wrong += is_same(context, packed.output.view().slice(2, ends[n], ends[n + 1]), alone.output,
                     "sequence " + std::to_string(n));
  }
  return wrong;
}

std::string tensors_outlive_contexts(Context&) {
  Tensor kept;
  {
    Context shortlived(Device{Device::Kind::cuda, 0});
    kept = random_tensor(shortlived, {3, 4}, DType::f32, 1);
  }
  Tensor host = Tensor::empty({3, 4}, DType::f32);
  kept.allocator()->copy_out(host.view().data(), kept.view().data(), 48);
  return std::isfinite(host.as<float>()[11]) ? "" : "not what was written";
}

// Work is in the caller's order without anybody waiting, and the stream is still the caller's afterwards.
std::string work_is_in_the_callers_stream(Context& own, cudaStream_t stream) {
  const Dims shape{1, 2, 300, 64};
  const Tensor x = random_tensor(own, shape, DType::bf16, 1);
  const Attention expected = attend(own, x, x, x, {.causal = true});
  own.synchronise();
  const auto bytes = static_cast<std::size_t>(x.view().count()) * 2;
  Tensor found = Tensor::empty(shape, DType::bf16);
  {
    Context context(Device{Device::Kind::cuda, 0}, stream);
    const Tensor q = Tensor::zeros(shape, DType::bf16, context.allocator());
    cuda::check(cudaMemcpyAsync(const_cast<void*>(q.view().data()), x.view().data(), bytes, cudaMemcpyDefault, stream),
                "cudaMemcpyAsync");
    const Attention result = attend(context, q, q, q, {.causal = true});
    cuda::check(cudaMemcpyAsync(found.view().data(), result.output.view().data(), bytes, cudaMemcpyDefault, stream),
                "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  if (cudaStreamQuery(stream) != cudaSuccess) return "the stream went with the context";
  return is_same(own, found, expected.output, "the output");
}

std::string streams_are_the_callers(Context& own) {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  const std::string wrong = work_is_in_the_callers_stream(own, stream) + work_is_in_the_callers_stream(own, nullptr);
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return wrong;
}

// Output and dq of a causal call with statistics, which uses workspaces, in bits.
std::vector<std::byte> bits_of_a_call(Context& context, std::uint64_t seed) {
  const Tensor x = random_tensor(context, {2, 4, 333, 64}, DType::bf16, seed);
  const Attention forward =
      attend(context, x, x, x, {.causal = true}, {.lse = true, .statistics = StatisticsSet::full});
  const AttentionGradients gradients =
      attend_backward(context, x, x, x, {.causal = true}, {.output = x}, {}, {forward.output, forward.lse});
  std::vector<std::byte> bits;
  for (const Tensor* tensor : {&forward.output, &forward.statistics, &gradients.dq, &gradients.dk}) {
    const Tensor host = to_host(context, *tensor);
    const auto* data = static_cast<const std::byte*>(host.view().data());
    bits.insert(bits.end(), data, data + host.view().count() * static_cast<std::int64_t>(size_of(host.dtype())));
  }
  return bits;
}

// Two threads, each with a context and its stream, beside each other.
std::string two_streams_at_once(Context& own) {
  constexpr int kCalls = 40;
  std::string wrong[2];
  std::vector<std::thread> threads;
  for (const std::uint64_t n : {0, 1}) {
    threads.emplace_back([&wrong, n, expected = bits_of_a_call(own, n)] {
      try {
        Context context(Device{Device::Kind::cuda, 0});
        for (int call = 0; call < kCalls && wrong[n].empty(); ++call) {
          if (bits_of_a_call(context, n) != expected) wrong[n] = "call " + std::to_string(call) + " has other bits\n";
        }
      } catch (const std::exception& error) {
        wrong[n] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong[0] + wrong[1];
}

// What does not fit is an error that says so, nothing was written, and the context goes on as if nothing had been.
std::string too_much_is_refused(Context& context) {
  constexpr std::int64_t kLong = std::int64_t{1} << 20;  // weights of 4 TiB
  const std::vector<std::byte> before = bits_of_a_call(context, 7);
  const Tensor x = random_tensor(context, {1, 1, kLong, 8}, DType::f32, 1);
  const auto refused = [](const std::string& what, const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::memory && std::strstr(error.what(), "bytes of memory") != nullptr) return {};
      return what + ": " + error.what() + "\n";
    }
    return what + " was accepted\n";
  };
  std::string wrong = refused("a tensor",
                              [&] {
                                Tensor::empty({kLong, kLong}, DType::f32, context.allocator());
                              }) +
                      refused("weights", [&] { attend(context, x, x, x, {}, {.weights = true}); });
  if (bits_of_a_call(context, 7) != before) wrong += "a call afterwards has other bits\n";
  return wrong;
}

// |a - b| / |b|, both f32.
double distance(Context& context, const ConstTensorView& a, const ConstTensorView& b) {
  const Tensor x = to_host(context, a), y = to_host(context, b);
  double off = 0, size = 0;
  for (std::int64_t n = 0; n < x.view().count(); ++n) {
    const double d = static_cast<double>(x.as<float>()[n]) - static_cast<double>(y.as<float>()[n]);
    off += d * d;
    size += static_cast<double>(y.as<float>()[n]) * static_cast<double>(y.as<float>()[n]);
  }
  return std::sqrt(off / size);
}

// Operands of f32 products are rounded when it was asked for, as far as was asked for, and not otherwise.
std::string products_round_when_told(Context& context) {
  const Tensor q = random_tensor(context, {1, 2, 300, 64}, DType::f32, 1),
               dy = random_tensor(context, {1, 2, 300, 64}, DType::f32, 2);
  struct Found {
    Tensor product, output, dk;
  };
  const auto found_with = [&](Precision operands) {
    context.set_precision(operands);
    Attention forward = attend(context, q, q, q, {.causal = true}, {.lse = true});
    AttentionGradients gradients =
        attend_backward(context, q, q, q, {.causal = true}, {.output = dy}, {}, {forward.output, forward.lse});
    Found found{linear(context, q, dy.view().reshape({600, 64})), std::move(forward.output), std::move(gradients.dk)};
    context.set_precision(Precision::f32);
    return found;
  };
  const Found exact = found_with(Precision::f32), tf32 = found_with(Precision::tf32),
              bf16 = found_with(Precision::bf16);
  std::string wrong;
  const auto expect = [&](const char* what, const Tensor& got, const Tensor& wanted, double least, double most) {
    const double off = distance(context, got, wanted);
    if (!(off >= least && off <= most)) wrong += std::string(what) + " is off by " + std::to_string(off) + "\n";
  };
  auto& executor = static_cast<cuda::CudaExecutor&>(context.executor());
  const bool library = executor.cublas() != nullptr, hopper = executor.queue().why_not_hopper().empty();
  expect("a product in tf32", tf32.product, exact.product, library ? 1e-6 : 0, 1e-3);
  expect("attention in tf32", tf32.output, exact.output, 1e-5, 1e-3);
  expect("dk in tf32", tf32.dk, exact.dk, 1e-5, 3e-3);
  expect("a product in bf16", bf16.product, exact.product, library ? 1e-6 : 0, 1e-3);
  expect("attention in bf16", bf16.output, exact.output, hopper ? 5e-4 : 1e-5, 1e-2);
  expect("dk in bf16", bf16.dk, exact.dk, hopper ? 5e-4 : 1e-5, 3e-2);
  expect("f32 afterwards", found_with(Precision::f32).output, exact.output, 0, 0);
  return wrong;
}

}  // namespace

std::vector<Item> queue_items() {
  return {{"queue/host_tensors_are_refused", host_tensors_are_refused},
          {"queue/calls_can_be_captured", [](Context& context) { return calls_can_be_captured(context, 100); }},
          {"queue/decoding_can_be_captured", [](Context& context) { return calls_can_be_captured(context, 1); }},
          {"queue/closed_heads_are_skipped", closed_heads_are_skipped},
          {"queue/packed_sequences_are_alone", packed_sequences_are_alone},
          {"queue/products_round_when_told", products_round_when_told},
          {"queue/tensors_outlive_contexts", tensors_outlive_contexts},
          {"queue/streams_are_the_callers", streams_are_the_callers},
          {"queue/two_streams_at_once", two_streams_at_once},
          {"queue/too_much_is_refused", too_much_is_refused}};
}

}  // namespace polyhead::test::gpu
