#include "polyhead/context.h"

#include <utility>

#include "core/executor.h"

namespace polyhead {

Context::Context(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Device Context::device() const noexcept { return executor_ ? executor_->device() : Device{}; }
int Context::threads() const noexcept { return executor_ ? executor_->threads() : 0; }
const std::shared_ptr<Allocator>& Context::allocator() const noexcept {
  return executor_ ? executor_->allocator() : host_allocator();
}
void Context::release_memory() { allocator()->trim(); }
void Context::set_precision(Precision precision) { executor().precision = precision; }
Precision Context::precision() const noexcept { return executor_ ? executor_->precision : Precision::f32; }
void Context::synchronise() { executor().synchronise(); }

Executor& Context::executor() { return const_cast<Executor&>(std::as_const(*this).executor()); }
const Executor& Context::executor() const {
  if (!executor_) {
    throw Error(ErrorCode::value, "context", "this context was moved from; use the one that it was moved to");
  }
  return *executor_;
}

}  // namespace polyhead
