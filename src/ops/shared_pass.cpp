#include "ops/shared_pass.h"

#include <algorithm>

namespace polyhead::ops {
namespace {

constexpr std::int64_t kPiece = 4'000'000;  // bytes of gradients that are gathered at once, if not one alone

std::int64_t bytes_of(const TensorView& view) {
  return view.count() * static_cast<std::int64_t>(size_of(view.dtype()));
}

}  // namespace

// Around a ring: each rank passes on what it got last, until all have everything.
void SharedPass::gather(const Call& call, const std::function<Views(int rank)>& views_of) {
  const int size = ranks_.size(), rank = ranks_.rank();
  if (size == 1) return;
  std::vector<Views> views;
  std::vector<std::int64_t> begins{0};
  for (int n = 0; n < size; ++n) {
    views.push_back(views_of(n));
    begins.push_back(begins.back());
    for (const TensorView& view : views.back()) begins.back() += bytes_of(view);
  }
  buffer_.resize(std::max(buffer_.size(), static_cast<std::size_t>(begins.back())));
  const auto part_of = [&](int whose) {
    const auto n = static_cast<std::size_t>((whose % size + size) % size);
    return std::span(buffer_.data() + begins[n], buffer_.data() + begins[n + 1]);
  };
  // copy(view, its place in the buffer) for a rank's views.
  const auto for_each = [&](int whose, const auto& copy) {
    std::byte* at = part_of(whose).data();
    for (const TensorView& view : views[static_cast<std::size_t>(whose)]) {
      if (view.count() == 0) continue;
      copy(view, TensorView(at, view.dtype(), view.shape(), contiguous_strides(view.shape()), view.device()));
      at += bytes_of(view);
    }
  };
  for_each(rank, [&](const TensorView& view, const TensorView& place) { call(&Table::copy, view, place); });
  for (int step = 0; step + 1 < size; ++step) {
    ranks_.exchange(part_of(rank - step), (rank + 1) % size, part_of(rank - step - 1), (rank + size - 1) % size);
  }
  for (int whose = 0; whose < size; ++whose) {
    if (whose == rank) continue;
    for_each(whose, [&](const TensorView& view, const TensorView& place) { call(&Table::copy, place, view); });
  }
}

void SharedPass::gather_columns(const Call& call, const TensorView& all) {
  const int last = all.rank() - 1;
  gather(call, [&](int rank) {
    const Some columns = of(rank, all.shape(last));
    return Views{all.slice(last, columns.first, columns.last)};
  });
}

void SharedPass::complete(Context& context, std::span<const TensorView> gradients) {
  const Call call(context);
  for (std::size_t first = 0, last = 0; first < gradients.size(); first = last) {
    std::int64_t bytes = 0;
    while (last < gradients.size() && (bytes == 0 || bytes + bytes_of(gradients[last]) <= kPiece)) {
      bytes += bytes_of(gradients[last++]);
    }
    gather(call, [&](int rank) {
      Views rows;
      for (const TensorView& one : gradients.subspan(first, last - first)) {
        const Some some = of(rank, one.shape(0));
        rows.push_back(one.slice(0, some.first, some.last));
      }
      return rows;
    });
  }
}

}  // namespace polyhead::ops
