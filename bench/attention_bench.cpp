// Our side of the benchmark as a server: one request per line on stdin, one line of JSON back; asleep in between.
//
//   time CASE WARM CALLS   {"ns": median of CALLS calls after WARM unmeasured ones, "min": least, "visible": scores}
//   output CASE PATH       writes the results to PATH, f32 and raw: the output [B,H,T,D], or dq, dk, dv
//   memory CASE            one call: {"ns": time, "extra": peak bytes beyond inputs and outputs}; for a fresh process
//   explain CASE           {"path": what the library says of the call}
//   gemm M,N,K WARM CALLS  y = x W^T + b, x [M,K] and W [N,K] packed beforehand: {"ns": median, "min": least}
//   sgemm M,N,K CALLS      the yardstick, y = x W^T: {"ns": median, "min": least}
//   sgemm N CALLS          the yardstick, C = A B of size N: {"ns": median, "min": least}
//   read BYTES CALLS       the other yardstick, one sum over the memory on all threads: {"ns": median, "min": least}
//   fma COUNT CALLS        and one of multiply-adds in registers on all threads: {"ns": median, "min": least}
//   losses CASE STEPS      of training from its beginning: {"losses": [...]}
//   memory MODEL           {"peak": bytes of the process so far}, for a case of models.h
//   threads N              from now on
//   info                   versions
//   release                forgets all prepared cases
//
// usage: polyhead_bench THREADS. CASE as in cases.h, layer.h, models.h and training.h; peers.py speaks the same words.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "cpu/executor.h"
#include "layer.h"
#include "linear.h"
#include "models.h"
#include "polyhead/polyhead.h"
#include "registers.h"
#include "training.h"

#ifdef POLYHEAD_BENCH_OPENBLAS
#include <cblas.h>
#endif

namespace polyhead::bench {
namespace {

using Json = nlohmann::json;

#ifdef __clang__
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

std::int64_t nanoseconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

Json sample(int warm, int calls, const std::function<void()>& call) {
  if (calls < 1) throw std::invalid_argument("expected one call or more");
  for (int i = 0; i < warm; ++i) call();
  std::vector<std::int64_t> times(static_cast<std::size_t>(calls));
  for (auto& time : times) time = nanoseconds(call);
  std::sort(times.begin(), times.end());
  return {{"ns", times[times.size() / 2]}, {"min", times.front()}};
}

// Bytes of a field of /proc/self/status.
std::int64_t status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  throw std::runtime_error("no " + field + " in /proc/self/status");
}

Json sgemm(int size, int calls) {
#ifdef POLYHEAD_BENCH_OPENBLAS
  Tensor a = Tensor::empty({size, size}, DType::f32), b = Tensor::empty({size, size}, DType::f32);
  Tensor c = Tensor::zeros({size, size}, DType::f32);
  fill_uniform(a, 1);
  fill_uniform(b, 2);
  return sample(1, calls, [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0f, a.as<float>(), size, b.as<float>(),
                size, 0.0f, c.as<float>(), size);
  });
#else
  static_cast<void>(size + calls);
  throw std::runtime_error("built without OpenBLAS");
#endif
}

// Reads with its own threads, each one stretch of memory, which is allocated as for tensors.
Json read(std::int64_t bytes, int threads, int calls) {
  Tensor tensor = Tensor::empty({bytes / 8}, DType::f64);
  const std::span memory(static_cast<std::uint64_t*>(tensor.view().data()), static_cast<std::size_t>(bytes / 8));
  std::fill(memory.begin(), memory.end(), 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);  // a cache line each
  const auto share = [&](std::size_t t) {
    const std::size_t begin = memory.size() * t / static_cast<std::size_t>(threads);
    const std::size_t end = memory.size() * (t + 1) / static_cast<std::size_t>(threads);
    sums[t * 8] = std::accumulate(memory.data() + begin, memory.data() + end, std::uint64_t{0});
  };
  const Json reply = sample(1, calls, [&] {
    std::vector<std::thread> others;
    for (std::size_t t = 1; t < static_cast<std::size_t>(threads); ++t) others.emplace_back(share, t);
    share(0);
    for (std::thread& other : others) other.join();
  });
  if (std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) != memory.size()) throw std::logic_error("wrong sum");
  return reply;
}

Json versions() {
  const Info library = info();
  Json found{{"polyhead", library.version}, {"polyhead SIMD", library.target}, {"compiler", kCompiler}};
#ifdef POLYHEAD_BENCH_OPENBLAS
  found["OpenBLAS"] = openblas_get_config();
#endif
  return found;
}

class Server {
 public:
  explicit Server(int threads) : context_(threads) {}

  Json answer(const std::string& line) {
    std::istringstream words(line);
    std::string command, name;
    words >> command;
    if (command == "info") return versions();
    if (command == "release") return release();
    if (command == "threads") return use_threads(number(words));
    words >> name;
    if (name.starts_with("layer:")) return layer(command, name, words);
    if (name.starts_with("train:")) return training(command, name, words);
    if (name.starts_with("model:")) return real_model(command, name, words);
    if (command == "time") return time(find(name), words);
    if (command == "gemm") return gemm(find_linear(name), words);
    if (command == "sgemm" && name.find(',') != std::string::npos) return yardstick(find_linear(name), words);
    if (command == "sgemm") return sgemm(std::stoi(name), number(words));
    if (command == "read") return read(std::stoll(name), context_.threads(), number(words));
    if (command == "fma") {
      return sample(1, number(words), [&] {
        multiply_adds(static_cast<cpu::CpuExecutor&>(context_.executor()).team(), std::stoll(name));
      });
    }
    if (command == "memory") return memory(find(name));
    if (command == "output") return output(find(name), words);
    if (command == "explain") return explain(find(name));
    throw std::invalid_argument("no command " + command);
  }

 private:
  static int number(std::istream& words) {
    int value = -1;
    if (!(words >> value) || value < 0) throw std::invalid_argument("expected a count");
    return value;
  }

  Json release() {
    cases_.clear();
    linears_.clear();
    layers_.clear();
    runs_.clear();
    models_.clear();
    return Json::object();
  }

  Json use_threads(int threads) {
    context_ = Context(threads);
    return Json::object();
  }

  const Case& find(const std::string& name) {
    auto& slot = cases_[name];
    if (!slot) {
      slot = make_case(name);
      slot->prepare(context_);
    }
    return *slot;
  }

  Json time(const Case& c, std::istream& words) {
    const int warm = number(words), calls = number(words);
    Json reply = sample(warm, calls, [&] { c.call(context_); });
    reply["visible"] = c.visible;
    return reply;
  }

  Linear& find_linear(const std::string& name) {
    auto& slot = linears_[name];
    if (!slot) slot = make_linear(context_, name);
    return *slot;
  }
  Json gemm(Linear& linear, std::istream& words) {
    const int warm = number(words), calls = number(words);
    return sample(warm, calls, [&] { linear.call(context_); });
  }
  static Json yardstick(Linear& linear, std::istream& words) {
    return sample(1, number(words), [&] { linear.call_blas(); });
  }

  Json memory(const Case& c) {
    const std::int64_t before = status("VmRSS");
    const std::int64_t took = nanoseconds([&] { c.call(context_); });
    return {{"ns", took}, {"extra", std::max<std::int64_t>(0, status("VmHWM") - before)}};
  }

  Json layer(const std::string& command, const std::string& name, std::istream& words) {
    auto& slot = layers_[name];
    if (!slot) slot = std::make_unique<LayerCase>(context_, name);
    if (command == "time") {
      const int warm = number(words), calls = number(words);
      return sample(warm, calls, [&] { slot->call(context_); });
    }
    if (command != "output") throw std::invalid_argument("a layer can be timed and its output written");
    slot->call(context_);
    return write(slot->results(), words);
  }

  struct Rounding {
    Context& context;
    Rounding(Context& its, bool rounds) : context(its) {
      if (rounds) context.set_precision(Precision::bf16);
    }
    ~Rounding() { context.set_precision(Precision::f32); }
  };

  Json training(const std::string& command, const std::string& name, std::istream& words) {
    const test::TrainingSizes sizes = training_sizes(name);
    const Rounding rounding(context_, is_rounded(name));
    if (command == "losses") {
      return {{"losses", test::TrainingRun(context_, sizes, DType::f32).losses(number(words))}};
    }
    if (command != "time") throw std::invalid_argument("training can be timed and its losses given");
    auto& slot = runs_[name];
    if (!slot) slot = std::make_unique<test::TrainingRun>(context_, sizes, DType::f32);
    const int warm = number(words), calls = number(words);
    return sample(warm, calls, [&] { slot->step(); });
  }

  Json real_model(const std::string& command, const std::string& name, std::istream& words) {
    if (command == "memory") return {{"peak", status("VmHWM")}};
    auto& slot = models_[name];
    if (!slot) slot = std::make_unique<ModelCase>(context_, name);
    if (command == "output") return write({&slot->result(context_)}, words);
    if (command != "time") throw std::invalid_argument("a model can be timed and its output written");
    const int warm = number(words), calls = number(words);
    return sample(warm, calls, [&] { slot->call(context_); });
  }

  Json output(const Case& c, std::istream& words) {
    c.call(context_);
    return write(c.results(), words);
  }
  static Json write(const std::vector<const Tensor*>& results, std::istream& words) {
    std::string path;
    words >> path;
    std::ofstream file(path, std::ios::binary);
    for (const Tensor* result : results) {
      if (result->dtype() == DType::bf16) {
        const std::vector<float> wide(result->as<bfloat16>(), result->as<bfloat16>() + count_of(result->shape()));
        file.write(reinterpret_cast<const char*>(wide.data()), count_of(result->shape()) * std::int64_t{4});
        continue;
      }
      file.write(reinterpret_cast<const char*>(result->as<float>()), count_of(result->shape()) * std::int64_t{4});
    }
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
    return Json::object();
  }

  Json explain(const Case& c) {
    const auto [k, v] = c.cache ? std::pair(c.cache->keys(), c.cache->values()) : std::pair(c.k.view(), c.v.view());
    return {{"path", polyhead::explain(context_, c.q, k, v, c.options, c.wants)}};
  }

  Context context_;
  std::map<std::string, std::unique_ptr<Case>> cases_;
  std::map<std::string, std::unique_ptr<Linear>> linears_;
  std::map<std::string, std::unique_ptr<LayerCase>> layers_;
  std::map<std::string, std::unique_ptr<test::TrainingRun>> runs_;
  std::map<std::string, std::unique_ptr<ModelCase>> models_;
};

int serve(int threads) {
  Server server(threads);
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = server.answer(line);
    } catch (const std::exception& error) {
      reply = {{"error_text", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace polyhead::bench

int main(int argc, char** argv) {
  try {
    return polyhead::bench::serve(argc > 1 ? std::stoi(argv[1]) : 0);
  } catch (const std::exception& error) {
    std::cerr << "polyhead_bench: " << error.what() << '\n';
    return 2;
  }
}
