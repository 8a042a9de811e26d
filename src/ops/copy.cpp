// copy, clone, to_host: between layouts, storage types and devices.
#include "core/row_major.h"
#include "ops/call.h"
#include "ops/check.h"
#include "polyhead/context.h"

namespace polyhead {
namespace {

std::size_t bytes_of(const ConstTensorView& view) {
  return static_cast<std::size_t>(view.count()) * size_of(view.dtype());
}

bool convertible(DType from, DType to) {
  const auto half = [](DType dtype) { return is_float(dtype) && size_of(dtype) == 2; };
  return from == to || (from == DType::f32 && half(to)) || (half(from) && to == DType::f32);
}

// The view, or a row-major copy of it on its own device.
ConstTensorView packed(Context& context, const ConstTensorView& view, Tensor& memory) {
  if (is_row_major(view)) return view;
  if (view.device() == context.device()) return memory = clone(context, view);
  Context host(1);
  return memory = clone(host, view);
}

}  // namespace

void copy(Context& context, const ConstTensorView& from, const TensorView& to) {
  const Device here = context.device();
  const auto device_of = [&](const ConstTensorView& view) { return view.device() == Device{} ? Device{} : here; };
  const ops::Argument source{{"copy", device_of(from)}, "from", from}, target{{"copy", device_of(to)}, "to", to};
  if (!from.present()) source.refuse(ErrorCode::shape, "a tensor");
  if (!to.present()) target.refuse(ErrorCode::shape, to_string(from.shape()));
  target.expect_shape(from.shape());
  if (!convertible(from.dtype(), to.dtype())) {
    target.refuse(ErrorCode::dtype, std::string(name_of(from.dtype())) + ", or f32 and a 16-bit float type");
  }
  source.expect_memory();
  target.expect_memory();
  target.expect_writable_strides();
  if (ops::overlap(from, to)) target.refuse(ErrorCode::layout, "memory apart from where it comes from");
  if (from.count() == 0) return;
  if (from.device() == here && to.device() == here) return ops::run(context, &kernels::Table::copy, from, to);
  if (from.device() == to.device()) {  // both on the host, and the context is not
    Context host(1);
    return copy(host, from, to);
  }
  // Bytes travel between row-major tensors of one type; layout and type are changed before or after, on either device.
  Tensor memory, landing;
  const ConstTensorView bytes = packed(context, from, memory);
  if (!is_row_major(to) || from.dtype() != to.dtype()) {
    landing = Tensor::empty(from.shape(), from.dtype(), to.device() == here ? context.allocator() : host_allocator());
  }
  const TensorView into = landing.present() ? landing.view() : to;
  to.device() == here ? context.allocator()->copy_in(into.data(), bytes.data(), bytes_of(bytes))
                      : context.allocator()->copy_out(into.data(), bytes.data(), bytes_of(bytes));
  if (landing.present()) copy(context, landing, to);
}

Tensor clone(Context& context, const ConstTensorView& from) {
  Tensor to = Tensor::empty(from.shape(), from.dtype(), context.allocator());
  copy(context, from, to);
  return to;
}

Tensor to_host(Context& context, const ConstTensorView& from) {
  Tensor to = Tensor::empty(from.shape(), from.dtype());
  copy(context, from, to);
  return to;
}

}  // namespace polyhead
