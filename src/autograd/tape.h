// A tape over ops: every op of a forward pass leaves a step behind, and backward() takes the steps in reverse.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/linear.h"
#include "polyhead/context.h"
#include "polyhead/tensor.h"

namespace polyhead::autograd {

// A tensor that is learnt.
struct Parameter {
  std::string name;
  Tensor value;
};

// A gradient per parameter, f32 if that has 16 bits, on the device of its value; made when it is first asked for and
// kept from step to step.
class Gradients {
 public:
  Tensor& of(const Parameter& parameter);  // zeros at first

 private:
  std::map<const Parameter*, Tensor> tensors_;
};

// A tensor on a tape; valid until the tape is cleared.
struct Variable {
  std::size_t index = 0;
};

// Memory that is handed out again after every step of training: a step asks for the same sizes as the one before.
class Pool {
 public:
  explicit Pool(std::shared_ptr<Allocator> memory) : memory_(std::move(memory)) {}
  TensorView take(const Dims& shape, DType dtype);
  void take_back(const TensorView& taken);  // one piece, before the others
  void take_back_all();

  // How many pieces are taken, by type and number of elements; take_back_since returns to that, except for the piece
  // that begins at `but`.
  using Mark = std::map<std::pair<DType, std::int64_t>, std::size_t>;
  Mark mark() const;
  void take_back_since(const Mark& mark, const void* but);

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
  // Without `recording` there is no backward pass, and nothing is kept for it.
  explicit Tape(Context& context, bool recording = true)
      : context_(context), recording_(recording), pool_(context.allocator()) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() noexcept { return context_; }
  bool recording() const noexcept { return recording_; }

  // From now on each weight is packed for products when it is first used: for passes of few tokens over parameters that
  // do not change as long as the tape lives. Costs as much memory as the weights again.
  void pack_weights(ops::Products products = ops::Products::exact) noexcept { products_ = products; }
  // A weight [N,K], packed; null if it is absent, or if the tape packs none.
  const kernels::PackedMatrix* packed(const ConstTensorView& weight);

  // From now on no gradient goes to parameters: for gradients of gates, at half the cost and without the memory of the
  // parameters'.
  void freeze_parameters() noexcept { frozen_ = true; }
  bool learns() const noexcept { return recording_ && !frozen_; }

  // From now on the ranks of this pass share layers and products. After backward each has its rows of the gradients of
  // weights alone, until SharedPass::complete.
  void share(ops::SharedPass* pass) noexcept { shared_ = pass; }
  ops::SharedPass* shared() const noexcept { return shared_; }

  Variable constant(const ConstTensorView& value);  // no gradient goes there
  Variable parameter(const Parameter& parameter);   // the same variable every time
  Variable result(const TensorView& value);         // of an op

  const ConstTensorView& value(Variable x) const { return nodes_[x.index].value; }
  // To change the result of an op in place; only on a tape that does not record.
  TensorView writable(Variable x) const { return nodes_[x.index].result; }
  bool needs_gradient(Variable x) const { return nodes_[x.index].needs_gradient; }
  // Of a parameter, complete after backward; absent if nothing arrived. Gradients of results are gone by then: earlier
  // ops have reused their memory.
  const TensorView& gradient(Variable x) const { return nodes_[x.index].gradient; }

  // The type of what the ops of a block hand to each other, next to a residual stream of this type: of 16 bits if the
  // stream is f32, the context's precision allows it and its kernels mix types. f16 has no room for gradients, so with
  // it a pass that is recorded stays f32.
  DType inner_type(DType stream) const;
  // x in this float type: itself, or a copy that lives until the tape is cleared.
  ConstTensorView as(const ConstTensorView& x, DType dtype);
  // The same for a variable's value; if the pass is recorded, or by copy_parameters, it is copied only once.
  ConstTensorView value_as(Variable x, DType dtype);

  // Makes those copies in 16 bits for many f32 parameters at once, so that value_as finds them.
  void copy_parameters(std::span<const Parameter* const> parameters, DType dtype);

  // x on the context's device: itself, or a copy that lives until the tape is cleared. An absent x stays absent.
  ConstTensorView here(const ConstTensorView& x);

  // Memory for an op's output or for what it keeps until backward, and back again if it is needed no longer.
  TensorView take(const Dims& shape, DType dtype) { return pool_.take(shape, dtype); }
  void give_back(const TensorView& taken) { pool_.take_back(taken); }

  // On a tape that does not record: memory taken since the mark is handed out again, except that of x. Other variables
  // made since then must not be read any more.
  Pool::Mark mark() const { return pool_.mark(); }
  void recycle(const Pool::Mark& since, Variable x) { pool_.take_back_since(since, value(x).data()); }

  // An op's backward step: called with the gradient of its result, if any arrived.
  void on_backward(Variable result, std::function<void(const TensorView& gradient)> step);

  // Within such a step, or to start the backward pass: a gradient for x. If x has one already, the two are added.
  // write(into) writes it.
  void send(Variable x, const std::function<void(const TensorView& into)>& write);
  // write(into, plus) writes it plus `plus`, which may be absent, or `into` itself.
  void send_onto(Variable x, const std::function<void(const TensorView& into, const ConstTensorView& plus)>& write);
  // add(into) adds it to `into`, which is zeros at first.
  void send_added(Variable x, const std::function<void(const TensorView& into)>& add);
  // Memory in which to write a gradient for x, to be sent with send_shared before any other: x's own if x is a
  // parameter that nothing has arrived at.
  TensorView place_for(Variable x);
  // `gradient` itself, which must not be changed from now on and may be sent to several variables.
  void send_shared(Variable x, const TensorView& gradient);

  // Parameters that nothing arrives at get 0, unless they are frozen.
  void backward();
  // Forgets all variables and keeps the memory.
  void clear();

  // Of the parameters, complete after backward.
  Gradients& gradients() noexcept { return gradients_; }

  // What an op keeps besides tensors, by the address of its owner; made when it is first asked for, and kept by
  // clear().
  template <class State>
  State& state(const void* owner) {
    std::shared_ptr<void>& place = states_[owner];
    if (place == nullptr) place = std::make_shared<State>();
    return *static_cast<State*>(place.get());
  }
  template <class State>
  const State& state(const void* owner) const {
    return *static_cast<const State*>(states_.at(owner).get());
  }

 private:
  struct Node {
    ConstTensorView value;
    TensorView result;     // the same, if an op made it
    TensorView gradient;   // absent until something arrives
    ConstTensorView copy;  // of the value in another type, if one was asked for
    const Parameter* parameter = nullptr;
    bool needs_gradient = false;
    bool shared = false;  // the gradient's memory is not this node's alone
  };
  struct Step {
    std::size_t result;
    std::function<void(const TensorView&)> run;
  };
  TensorView memory_for(const Node& node);
  void release(const TensorView& gradient);  // one variable is done with it

  Context& context_;
  bool recording_;
  std::optional<ops::Products> products_;  // for which weights are packed
  std::map<const void*, kernels::PackedMatrix> packed_;
  bool frozen_ = false;
  ops::SharedPass* shared_ = nullptr;
  Pool pool_;
  Gradients gradients_;
  std::map<const void*, std::shared_ptr<void>> states_;
  std::vector<Node> nodes_;
  std::map<const Parameter*, std::size_t> parameters_;
  std::vector<Step> steps_;
  struct Held {
    TensorView memory;
    int holders = 0;  // variables whose gradient lies there
  };
  std::map<const void*, Held> held_;  // pieces of the pool that hold gradients, by address
};

}  // namespace polyhead::autograd
