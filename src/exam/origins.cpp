#include "exam/origins.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/numbers.h"
#include "exam/page.h"
#include "polyhead/error.h"

namespace polyhead::exam {
namespace {

constexpr double kAlike = 0.5;  // the cosine of weights that come from the same; that of others is about 0

[[noreturn]] void refuse(const model::Transformer& one, const model::Transformer& other, const std::string& why) {
  throw Error(ErrorCode::input, "compare",
              "two models are compared head by head: expected the second to have the kind, layers and heads of the "
              "first, or one of them to be what is left of the other after pruning (" +
                  in_a_sentence(one) + "), found " + in_a_sentence(other) + why);
}

bool same_shape(const model::Config& a, const model::Config& b) {
  return a.kind == b.kind && std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
                                        [](const auto& x, const auto& y) { return x.heads == y.heads; });
}

// What the heads of a layer read with, f32: the rows of head h of q's projection begin at h * head_dim * width.
Tensor queries_of(Context& context, const model::Transformer& model, std::size_t layer) {
  const auto& parameters = model.attention_parameters(layer);
  const autograd::Parameter* of = parameters.in_proj_weight != nullptr ? parameters.in_proj_weight  //
                                                                       : parameters.q_proj_weight;
  return of == nullptr ? Tensor() : widened(to_host(context, of->value));
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(std::max(aa * bb, 1e-300));
}

}  // namespace

Origins::Origins(Context& context, const model::Transformer& first, const model::Transformer& second) {
  const model::Config &a = first.config(), &b = second.config();
  if (same_shape(a, b)) return;
  smaller_ = a.head_count() <= b.head_count() ? 0 : 1;
  small_ = smaller_ == 0 ? a : b;
  const model::Transformer &small = smaller_ == 0 ? first : second, &whole = smaller_ == 0 ? second : first;
  if (a.kind != b.kind || a.layers.size() != b.layers.size() || a.width != b.width || a.head_dim != b.head_dim) {
    refuse(first, second, "");
  }
  const auto size = static_cast<std::size_t>(a.head_dim * a.width);
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    const std::int64_t left = small.config().layers[layer].heads, all = whole.config().layers[layer].heads;
    if (left > all) refuse(first, second, "");
    if (left == 0) continue;
    const Tensor mine = queries_of(context, small, layer), theirs = queries_of(context, whole, layer);
    const auto rows = [&](const Tensor& of, std::int64_t head) {
      return std::span(of.as<float>() + static_cast<std::size_t>(head) * size, size);
    };
    // Pruning keeps the order.
    for (std::int64_t head = 0, next = 0; head < left; ++head, ++next) {
      while (next < all && cosine(rows(mine, head), rows(theirs, next)) < kAlike) ++next;
      if (next == all) {
        refuse(first, second,
               "; head " + to_string(HeadId{layer, head}) + " of the smaller one comes from none of the other's");
      }
      of_.push_back({layer, next});
    }
  }
}

GateList Origins::own(const GateList& gates, std::size_t which) const {
  if (of_.empty() || which != smaller_) return gates;
  const std::vector<HeadId> mine = model::all_heads(small_);
  GateList own;
  for (const auto& [id, value] : gates) {
    const auto found = std::find(of_.begin(), of_.end(), id);
    if (found != of_.end()) own.emplace_back(mine[static_cast<std::size_t>(found - of_.begin())], value);
  }
  return own;
}

void Origins::tell(report::Model& model, std::size_t which) const {
  if (of_.empty() || which != smaller_) return;
  for (std::size_t n = 0; n < of_.size(); ++n) {
    model.heads[n].origin = {static_cast<int>(of_[n].layer), static_cast<int>(of_[n].head)};
  }
}

}  // namespace polyhead::exam
