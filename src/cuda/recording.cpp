// Recordings of calls as CUDA graphs.
#include <string>

#include "cuda/executor.h"

namespace polyhead::cuda {
namespace {

class Graph final : public Executor::Recording {
 public:
  Graph(CudaExecutor& executor, cudaGraph_t graph) : executor_(executor), moves_(executor.moves()) {
    check(cudaGraphInstantiate(&ready_, graph, 0), "cudaGraphInstantiate");
  }
  ~Graph() override { cudaGraphExecDestroy(ready_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  bool replay() override {
    const std::lock_guard turn(executor_.turn());
    if (executor_.moves() != moves_) return false;
    launch();
    return true;
  }
  void launch() {
    const auto entered = executor_.queue().enter();
    check(cudaGraphLaunch(ready_, executor_.stream()), "cudaGraphLaunch");
  }

 private:
  CudaExecutor& executor_;
  const int moves_;
  cudaGraphExec_t ready_ = nullptr;
};

// What a stream was given since it was told to capture; destroyed with this.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (!ended_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    ended_ = true;
    check(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

// The default stream cannot be captured, and one that its owner captures belongs to that graph.
bool CudaExecutor::records() const noexcept {
  if (stream() == nullptr || stream() == cudaStreamLegacy) return false;
  cudaStreamCaptureStatus status{};
  return cudaStreamIsCapturing(stream(), &status) == cudaSuccess && status == cudaStreamCaptureStatusNone;
}

std::unique_ptr<Executor::Recording> CudaExecutor::record(const std::function<void()>& work) {
  const std::lock_guard turn(turn_);
  if (!records()) {
    work();
    return nullptr;
  }
  const auto entered = queue_.enter();
  const int before = moves();
  Capture capture(stream());
  work();
  auto graph = std::make_unique<Graph>(*this, capture.end());
  graph->launch();
  if (moves() != before) return nullptr;  // what came before the move refers to the old place
  return graph;
}

}  // namespace polyhead::cuda
