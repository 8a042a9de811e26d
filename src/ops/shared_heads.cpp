#include "ops/shared_heads.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "ops/dropout.h"
#include "polyhead/linear.h"

namespace polyhead::ops {
namespace {

constexpr const char* kSharedOp = "multihead_on_ranks";

ConstTensorView rows(const ConstTensorView& x, std::int64_t begin, std::int64_t end) {
  return x.present() ? x.slice(0, begin, end) : x;
}

// Heads [begin, end) of an option with this axis for all heads; itself if it has one for all, or none.
ConstTensorView heads_of_option(const ConstTensorView& x, int axis, std::int64_t heads, std::int64_t begin,
                                std::int64_t end) {
  return x.present() && axis >= 0 && x.shape(axis) == heads ? x.slice(axis, begin, end) : x;
}

AttentionOptions options_of(const AttentionOptions& whole, std::int64_t heads, std::int64_t begin, std::int64_t end) {
  AttentionOptions o = whole;
  for (ConstTensorView* x : {&o.alibi, &o.sink_logit, &o.gates}) {
    *x = heads_of_option(*x, x->present() ? x->rank() - 1 : 0, heads, begin, end);
  }
  for (ConstTensorView* x : {&o.keep, &o.bias}) {  // broadcastable to [B,H,T,S]
    *x = heads_of_option(*x, x->present() ? x->rank() - 3 : 0, heads, begin, end);
  }
  o.dropout.origin.head += begin;
  return o;
}

// [..,N] of all ranks from their columns [..,n], in the order of the ranks.
Tensor gathered(Context& context, Ranks& ranks, const Tensor& mine, std::int64_t columns,
                const std::function<std::pair<std::int64_t, std::int64_t>(int)>& columns_of) {
  const Dims outer{mine.shape()[0], mine.shape()[1], columns};
  Tensor all = Tensor::empty(outer, mine.dtype());
  const auto bytes = static_cast<std::size_t>(mine.view().count()) * size_of(mine.dtype());
  const std::vector<std::string> texts = ranks.gather({static_cast<const char*>(mine.view().data()), bytes});
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto [begin, end] = columns_of(rank);
    if (begin == end) continue;
    Tensor part = Tensor::empty({outer[0], outer[1], end - begin}, mine.dtype());
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    std::memcpy(part.view().data(), text.data(), text.size());
    copy(context, part, all.view().slice(2, begin, end));
  }
  return all;
}

void check(Context& context, const MultiHeadShape& shape, const MultiHeadOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::unsupported, kSharedOp, what); };
  if (context.device() != Device{})
    refuse("expected a context of the CPU, found one of " + to_string(context.device()));
  if (shape.qk_norm) refuse("qk_norm: expected none on ranks");
  if (options.rotary) refuse("rotary: expected none on ranks");
  if (!shape.packed()) refuse("expected keys and values as wide as the queries: self-attention");
}

// Heads [first_head, last_head) side by side, [B,T,h*D]; a call for each kv head.
Tensor own_heads(Context& context, const MultiHeadShape& shape, const HeadShare& share, const SharedWeights& weights,
                 const ConstTensorView& x, const AttentionOptions& options) {
  const std::int64_t D = shape.head_dim, each = shape.heads / shape.kv_heads, mine = share.last_head - share.first_head;
  Tensor heads = Tensor::empty({x.shape(0), x.shape(1), mine * D}, x.dtype());
  if (mine == 0) return heads;
  const Tensor q = linear(context, x, weights.q, weights.q_bias), k = linear(context, x, weights.k, weights.k_bias),
               v = linear(context, x, weights.v, weights.v_bias);
  const auto part = [&](auto& all, std::int64_t begin, std::int64_t end) {  // as [B,end-begin,T,D]
    return all.view().slice(2, begin * D, end * D).split(2, end - begin).transpose(1, 2);
  };
  for (std::int64_t g = share.first_kv; g < share.last_kv; ++g) {
    const std::int64_t begin = std::max(share.first_head, g * each), end = std::min(share.last_head, (g + 1) * each);
    const std::int64_t at = g - share.first_kv;
    const auto queries = [&](auto& all) { return part(all, begin - share.first_head, end - share.first_head); };
    attend_into(context, queries(q), part(k, at, at + 1), part(v, at, at + 1),
                options_of(options, shape.heads, begin, end), {}, {.output = queries(heads)});
  }
  return heads;
}

}  // namespace

HeadShare share_of(const MultiHeadShape& given, int rank, int size) {
  const MultiHeadShape shape = given.resolved();
  const std::int64_t each = shape.heads / shape.kv_heads;
  HeadShare share{.first_head = shape.heads * rank / size,
                  .last_head = shape.heads * (rank + 1) / size,
                  .first_column = shape.width * rank / size,
                  .last_column = shape.width * (rank + 1) / size};
  share.first_kv = share.first_head / each;
  share.last_kv = share.first_head == share.last_head ? share.first_kv : (share.last_head - 1) / each + 1;
  return share;
}

SharedWeights weights_of(const MultiHeadShape& given, const MultiHeadViews& whole, const HeadShare& share) {
  const MultiHeadShape shape = given.resolved();
  const std::int64_t D = shape.head_dim, k = shape.heads * D, v = k + shape.kv_heads * D;
  const auto q_rows = [&](const ConstTensorView& x) { return rows(x, share.first_head * D, share.last_head * D); };
  const auto kv_rows = [&](const ConstTensorView& x, std::int64_t begin) {
    return rows(x, begin + share.first_kv * D, begin + share.last_kv * D);
  };
  const ConstTensorView &in = whole.in_proj_weight, &bias = whole.in_proj_bias;
  return {.q = q_rows(in),
          .k = kv_rows(in, k),
          .v = kv_rows(in, v),
          .out = rows(whole.out_proj_weight, share.first_column, share.last_column),
          .q_bias = q_rows(bias),
          .k_bias = kv_rows(bias, k),
          .v_bias = kv_rows(bias, v),
          .out_bias = rows(whole.out_proj_bias, share.first_column, share.last_column)};
}

Tensor multihead_on_ranks(Context& context, Ranks& ranks, const MultiHeadShape& given, const SharedWeights& weights,
                          const ConstTensorView& x, const MultiHeadOptions& options) {
  const MultiHeadShape shape = given.resolved();
  check(context, shape, options);
  const auto share = [&](int rank) { return share_of(shape, rank, ranks.size()); };
  const HeadShare mine = share(ranks.rank());
  const Tensor own = own_heads(context, shape, mine, weights, x, options.attention);
  const Tensor heads = gathered(context, ranks, own, shape.heads * shape.head_dim, [&](int rank) {
    return std::pair(share(rank).first_head * shape.head_dim, share(rank).last_head * shape.head_dim);
  });
  Tensor columns = Tensor::empty({x.shape(0), x.shape(1), mine.last_column - mine.first_column}, x.dtype());
  if (mine.first_column < mine.last_column) linear_into(context, heads, weights.out, weights.out_bias, columns);
  Tensor output = gathered(context, ranks, columns, shape.width,
                           [&](int rank) { return std::pair(share(rank).first_column, share(rank).last_column); });
  if (options.output_dropout.p > 0) drop(context, output, options.output_dropout, output);
  return output;
}

}  // namespace polyhead::ops
