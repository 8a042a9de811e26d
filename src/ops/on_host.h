// A tensor where the host can read it.
#pragma once

#include "polyhead/context.h"

namespace polyhead {

// The tensor itself if it lies on the host, else a copy of what it holds now.
class OnHost {
 public:
  OnHost(Context& context, const ConstTensorView& tensor)
      : copy_(tensor.device() == Device{} ? Tensor() : to_host(context, tensor)),
        view_(copy_.present() ? ConstTensorView(copy_) : tensor) {}
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;

  const ConstTensorView& view() const noexcept { return view_; }
  template <class T>
  const T* as() const {
    return view_.as<T>();
  }

 private:
  Tensor copy_;
  ConstTensorView view_;
};

}  // namespace polyhead
