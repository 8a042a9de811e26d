#include "polyhead/context.h"

#include "core/executor.h"

namespace polyhead {

Context::Context(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

Device Context::device() const noexcept { return executor_->device(); }
int Context::threads() const noexcept { return executor_->threads(); }
const std::shared_ptr<Allocator>& Context::allocator() const noexcept { return executor_->allocator(); }
void Context::release_memory() { executor_->allocator()->trim(); }
void Context::synchronise() { executor_->synchronise(); }

}  // namespace polyhead
