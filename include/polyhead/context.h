// A context carries what calls share: the thread team and the scratch memory.
#pragma once

#include <memory>

namespace polyhead {

// Make one and keep it. No thread starts before the first call that needs it; between calls the team sleeps.
// Results have the same bits for any number of threads. Calls on one context take turns; for calls that run side by
// side, give each calling thread a context of its own. A context survives fork: the child starts a team of its own when
// needed.
class Context {
 public:
  explicit Context(int threads = 0);  // 0: one per processor that this process may use
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  int threads() const noexcept;

  struct Impl;
  Impl& impl() noexcept { return *impl_; }  // for the library's own rooms

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace polyhead
