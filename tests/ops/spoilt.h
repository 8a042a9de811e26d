// A call whose tensors are right, and the same call with each of them wrong in every way that a tensor can be. What is
// said then is held to a file, word for word, and nothing may have been written.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "polyhead/context.h"
#include "support/kept.h"
#include "support/random.h"
#include "support/said.h"

namespace polyhead::test {

// A tensor of the call, by the name that messages have for it.
struct Given {
  std::string name;
  Dims shape;
  DType dtype = DType::f32;
  std::vector<double> numbers{0.5};  // its elements, over and over
  bool owned = false;                // a Tensor, which has its own memory: row-major and on the host
};

// The tensors by name; absent if there is none.
class Views {
 public:
  TensorView operator[](const std::string& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? TensorView{} : found->second;
  }
  // For arguments that are owned: one of the same shape and type.
  Tensor owned(const std::string& name) const {
    const TensorView view = (*this)[name];
    return view.present() ? Tensor::zeros(view.shape(), view.dtype()) : Tensor();
  }
  void put(const std::string& name, const TensorView& view) { views_[name] = view; }

 private:
  std::map<std::string, TensorView> views_;
};

struct Call {
  std::string name;
  std::vector<Given> given;
  std::function<void(Context&, const Views&)> run;
  std::size_t trusted = 0;  // of the first: another call with the same check spoils them
};

class SpoiltCalls {
 public:
  // One line for everything that is refused, and one for what is not.
  static std::string messages_of(const std::vector<Call>& calls) {
    std::string text;
    for (const Call& call : calls) text += SpoiltCalls(call).messages();
    return text;
  }

 private:
  struct Wrong {
    std::string how;
    TensorView view;
    bool readable = true;
  };

  explicit SpoiltCalls(const Call& call) : call_(call) {
    for (const Given& one : call.given) {
      memory_.push_back(Tensor::zeros({2 * count_of(grown(one.shape)) + 1}, DType::f64));
      right_.put(one.name, filled(one, in(memory_.back(), one.dtype, one.shape)));
    }
  }

  std::string messages() {
    EXPECT_EQ(said([&] { call_.run(context_, right_); }), "accepted") << call_.name;
    std::string text;
    for (std::size_t n = call_.trusted; n < call_.given.size(); ++n) {
      const Given& one = call_.given[n];
      text += call_.name + ": " + one.name + " " + std::string(name_of(one.dtype)) + " " + to_string(one.shape) + "\n";
      std::string accepted;
      for (const Wrong& wrong : all_wrongs(one, memory_[n])) {
        Views views = right_;
        for (const Given& other : call_.given) filled(other, right_[other.name]);
        views.put(one.name, wrong.readable ? filled(one, wrong.view) : wrong.view);
        const std::vector<std::vector<std::byte>> before = bytes();
        const std::string words = said([&] { call_.run(context_, views); });
        if (words == "accepted") {
          accepted += (accepted.empty() ? "" : ", ") + wrong.how;
          continue;
        }
        EXPECT_EQ(before, bytes()) << call_.name << ", " << one.name << ": " << wrong.how << ": written, then refused";
        text += "  " + wrong.how + ": " + words + "\n";
      }
      if (!accepted.empty()) text += "  accepted: " + accepted + "\n";
    }
    return text;
  }

  static Dims grown(Dims shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) ++shape[axis];
    return shape;
  }
  static TensorView in(Tensor& memory, DType dtype, const Dims& shape) {
    return TensorView(memory.view().data(), dtype, shape, contiguous_strides(shape));
  }
  static TensorView filled(const Given& one, const TensorView& view) {
    std::size_t n = 0;
    fill_with(view, [&] { return one.numbers[n++ % one.numbers.size()]; });
    return view;
  }

  static std::vector<Wrong> all_wrongs(const Given& one, Tensor& memory) {
    std::vector<Wrong> all{{"absent", {}, false}};
    Dims fewer(one.shape.rank() - 1, 0), more(one.shape.rank() + 1, 1);
    for (int axis = 0; axis < one.shape.rank(); ++axis) more[axis + 1] = one.shape[axis];
    for (int axis = 1; axis < one.shape.rank(); ++axis) fewer[axis - 1] = one.shape[axis];
    all.push_back({"an axis less", in(memory, one.dtype, fewer)});
    all.push_back({"an axis more", in(memory, one.dtype, more)});
    for (int axis = 0; axis < one.shape.rank(); ++axis) {
      Dims longer = one.shape;
      ++longer[axis];
      all.push_back({"axis " + std::to_string(axis) + " longer", in(memory, one.dtype, longer)});
    }
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::boolean}) {
      if (dtype != one.dtype) all.push_back({std::string(name_of(dtype)), in(memory, dtype, one.shape)});
    }
    if (one.owned) return all;
    const Dims strides = contiguous_strides(one.shape);
    auto* data = static_cast<std::byte*>(memory.view().data());
    Dims apart = strides, stacked = strides;
    for (int axis = 0; axis < apart.rank(); ++axis) apart[axis] *= 2;
    stacked[0] = 0;
    all.push_back({"every other", TensorView(data, one.dtype, one.shape, apart)});
    all.push_back({"on one another", TensorView(data, one.dtype, one.shape, stacked)});
    all.push_back({"of a GPU", TensorView(data, one.dtype, one.shape, strides, {Device::Kind::cuda, 0}), false});
    all.push_back({"null", TensorView(nullptr, one.dtype, one.shape, strides), false});
    if (size_of(one.dtype) > 1) {
      all.push_back({"unaligned", TensorView(data + 1, one.dtype, one.shape, strides), false});
    }
    return all;
  }

  std::vector<std::vector<std::byte>> bytes() {
    std::vector<std::vector<std::byte>> all;
    for (Tensor& tensor : memory_) {
      const auto* data = static_cast<const std::byte*>(tensor.view().data());
      all.emplace_back(data, data + tensor.view().count() * static_cast<std::int64_t>(sizeof(double)));
    }
    return all;
  }

  const Call& call_;
  Context context_{1};
  std::vector<Tensor> memory_;
  Views right_;
};

inline void expect_kept_messages(const std::string& file, const std::string& found) {
  expect_kept(std::filesystem::path(POLYHEAD_ROOT) / "tests/fixtures/ops" / file, found);
}

}  // namespace polyhead::test
