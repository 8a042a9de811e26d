// A tape over ops: every op of a forward pass leaves a step behind, and backward() takes the steps in reverse.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::autograd {

// A tensor that is learnt. The gradient is that of the last Tape::backward, and lies where the value does.
struct Parameter {
  std::string name;
  Tensor value, gradient;

  Parameter(std::string its_name, Tensor its_value)
      : name(std::move(its_name)),
        value(std::move(its_value)),
        gradient(Tensor::zeros(value.shape(), value.dtype(), value.allocator())) {}
};

// A tensor on a tape; good until the tape is cleared.
struct Variable {
  std::size_t index = 0;
};

// Memory that is handed out again after every step of training: a step asks for the same sizes as the one before.
class Pool {
 public:
  explicit Pool(std::shared_ptr<Allocator> memory) : memory_(std::move(memory)) {}
  TensorView take(const Dims& shape, DType dtype);
  void take_back_all();

 private:
  struct Shelf {
    std::vector<Tensor> pieces;
    std::size_t used = 0;
  };
  std::shared_ptr<Allocator> memory_;
  std::map<std::pair<DType, std::int64_t>, Shelf> shelves_;  // by type and number of elements
};

class Tape {
 public:
  // Without `recording` there is no way back, and nothing is kept for it.
  explicit Tape(Context& context, bool recording = true)
      : context_(context), recording_(recording), pool_(context.allocator()) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() noexcept { return context_; }
  bool recording() const noexcept { return recording_; }

  Variable constant(const ConstTensorView& value);  // no gradient goes there
  Variable parameter(Parameter& parameter);         // the same variable every time
  Variable result(const TensorView& value);         // of an op

  const ConstTensorView& value(Variable x) const { return nodes_[x.index].value; }
  bool needs_gradient(Variable x) const { return nodes_[x.index].needs_gradient; }
  // Complete after backward; absent if nothing arrived.
  const TensorView& gradient(Variable x) const { return nodes_[x.index].gradient; }

  // x on the context's device: itself, or a copy that lives until the tape is cleared. What is absent stays so.
  ConstTensorView here(const ConstTensorView& x);

  // Memory for an op's output or for what it keeps until backward.
  TensorView take(const Dims& shape, DType dtype) { return pool_.take(shape, dtype); }

  // An op's way back: called with the gradient of its result, if any arrived.
  void on_backward(Variable result, std::function<void(const TensorView& gradient)> step);

  // Within such a step, or to begin with: a gradient for x. If one is there already, the two are added.
  // write(into) makes it.
  void send(Variable x, const std::function<void(const TensorView& into)>& write);
  // write(into, plus) makes it and adds plus, which may be absent, or `into` itself.
  void send_onto(Variable x, const std::function<void(const TensorView& into, const ConstTensorView& plus)>& write);
  // add(into) adds it to what is there, zeros at first.
  void send_added(Variable x, const std::function<void(const TensorView& into)>& add);
  // It lies in `gradient`, which is left alone from now on and may be sent to several.
  void send_shared(Variable x, const TensorView& gradient);

  // Parameters that nothing arrives at get 0.
  void backward();
  // Forgets all variables and keeps the memory.
  void clear();

 private:
  struct Node {
    ConstTensorView value;
    TensorView gradient;  // absent until something arrives
    Parameter* parameter = nullptr;
    bool needs_gradient = false;
    bool shared = false;  // the gradient's memory is somebody else's, too
  };
  struct Step {
    std::size_t result;
    std::function<void(const TensorView&)> run;
  };
  TensorView memory_for(const Node& node);

  Context& context_;
  bool recording_;
  Pool pool_;
  std::vector<Node> nodes_;
  std::map<const Parameter*, std::size_t> parameters_;
  std::vector<Step> steps_;
};

}  // namespace polyhead::autograd
