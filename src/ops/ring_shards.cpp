#include "ops/ring_shards.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include "core/hash.h"
#include "kernels/bad_value.h"
#include "ops/call.h"
#include "ops/resolve.h"

namespace polyhead::ops {
namespace {

constexpr const char* kRingOp = "ring_attend";
constexpr Op kOp{kRingOp, Device{}};

void refuse_options(const AttentionOptions& options, const AttentionWants& wants) {
  struct Refused {
    bool present;
    const char *name, *why;
  };
  const bool packed = options.cu_q.present() || options.cu_k.present();
  constexpr const char* kNarrow = "since a rank has some of its columns only; leave it out, or gather the sequence";
  constexpr const char* kEach =
      "since they count from each sequence's begin, and a shard has one number for all; leave "
      "it out, or pad the batch and give key_lengths";
  const Refused refused[] = {{options.keep.present(), "keep", kNarrow},
                             {options.bias.present(), "bias", kNarrow},
                             {options.key_start.present(), "key_start",
                              "since it moves every sequence's first key; pad on the right, and give key_lengths"},
                             {packed && options.dropout.p > 0, "dropout of packed sequences", kEach},
                             {packed && options.window.always_first > 0, "always_first of packed sequences", kEach},
                             {wants.weights, "weights", "since no rank has a row of them; compute them from lse"},
                             {wants.logits != LogitStage::none, "logits", "since no rank has a row of them"}};
  for (const auto& [present, name, why] : refused) {
    if (!present) continue;
    throw Error(ErrorCode::unsupported, kRingOp, std::string(name) + ": expected none around a ring, " + why);
  }
}

// Of a small tensor, by which ranks see that they have the same.
std::string mark_of(Context& context, const ConstTensorView& x) {
  if (!x.present()) return "none";
  const Tensor numbers = clone(context, x);  // whatever their strides
  const auto* bytes = static_cast<const unsigned char*>(numbers.view().data());
  return describe(x) + " " + std::to_string(fnv1a(std::span(bytes, numbers.bytes())));
}

std::string text_of(Context& context, const AttentionOptions& o) {
  char text[640];
  const auto wide = [](std::int64_t number) { return static_cast<long long>(number); };
  std::snprintf(
      text, sizeof text,
      "scale %d %a softcap %a align %d first_position %d %lld causal %d window %lld %lld %lld dropout %a seed "
      "%llu origin %lld %lld %lld %lld",
      o.scale ? 1 : 0, o.scale.value_or(0), o.softcap, static_cast<int>(o.align), o.first_position ? 1 : 0,
      wide(o.first_position.value_or(0)), o.causal ? 1 : 0, wide(o.window.left), wide(o.window.right),
      wide(o.window.always_first), o.dropout.p, static_cast<unsigned long long>(o.dropout.seed),
      wide(o.dropout.origin.sequence), wide(o.dropout.origin.head), wide(o.dropout.origin.row),
      wide(o.dropout.origin.key));
  std::string all = text;
  for (const auto& [name, tensor] :
       {std::pair{"alibi", o.alibi}, std::pair{"sink_logit", o.sink_logit}, std::pair{"gates", o.gates},
        std::pair{"first_positions", o.first_positions}, std::pair{"key_lengths", o.key_lengths},
        std::pair{"query_lengths", o.query_lengths}, std::pair{"cu_q", o.cu_q}, std::pair{"cu_k", o.cu_k}}) {
    all += std::string(" ") + name + " " + mark_of(context, tensor);
  }
  return all;
}

std::string text_of(const AttentionWants& w) {
  return std::to_string(static_cast<int>(w.statistics)) + (w.row_statistics ? " of rows" : "") +
         (w.marked_keys.present() ? " with marked keys" : "") + (w.target_keys.present() ? " with targets" : "");
}

// What this rank sees by itself.
void check_own(Context& context, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
               const AttentionOptions& options, const AttentionWants& wants) {
  if (context.device() != Device{}) {
    throw Error(ErrorCode::unsupported, kRingOp,
                "expected a context of the CPU, found one of " + to_string(context.device()));
  }
  refuse_options(options, wants);
  for (const auto& [name, x] : {std::pair{"q", q}, std::pair{"k", k}, std::pair{"v", v}}) {
    const Argument argument{kOp, name, x};
    if (x.rank() != 4) argument.refuse(ErrorCode::shape, "four axes");
    argument.expect_memory();
    argument.expect_last_stride_one();
  }
  if (v.shape(2) != k.shape(2)) Argument{kOp, "v", v}.refuse(ErrorCode::shape, "as many rows as k " + describe(k));
  if ((wants.marked_keys.present() || wants.target_keys.present()) && wants.statistics != StatisticsSet::full) {
    throw Error(ErrorCode::value, kOp,
                "marked_keys and target_keys belong to the full set of statistics, which is not wanted");
  }
  if (wants.marked_keys.present()) {
    Argument{kOp, "marked_keys", wants.marked_keys}.expect_input({q.shape(0), k.shape(2)}, DType::boolean);
  }
  if (wants.target_keys.present()) {
    Argument{kOp, "target_keys", wants.target_keys}.expect_input({q.shape(0), q.shape(2), 4}, DType::i32);
  }
}

void expect_targets(const ConstTensorView& targets, std::int64_t keys) {
  for (std::int64_t b = 0; b < targets.shape(0); ++b) {
    for (std::int64_t t = 0; t < targets.shape(1); ++t) {
      for (std::int64_t slot = 0; slot < 4; ++slot) {
        const std::int32_t key =
            targets.as<std::int32_t>()[b * targets.stride(0) + t * targets.stride(1) + slot * targets.stride(2)];
        if (key >= -1 && key < keys) continue;
        throw kernels::error_of(
            kOp, {.kind = kernels::BadValue::Kind::target_keys, .place = {b, t, slot}, .found = key, .high = keys});
      }
    }
  }
}

// Of x with so many rows, for checks that read none.
ConstTensorView with_rows(const Tensor& memory, const ConstTensorView& x, std::int64_t rows) {
  return {memory.view().data(), x.dtype(), {x.shape(0), x.shape(1), rows, x.shape(3)}, {0, 0, 0, 1}};
}

// The ranges of all chunks, in their order.
std::vector<RowRange> chunks_of_all(const std::vector<std::int64_t>& counts, RingOrder order) {
  std::vector<std::int64_t> sizes = counts;
  if (order == RingOrder::halves) {
    for (std::int64_t& size : sizes) size -= size / 2;
    for (std::size_t rank = counts.size(); rank-- > 0;) sizes.push_back(counts[rank] / 2);
  }
  std::vector<RowRange> chunks;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    chunks.push_back({begin, begin + size});
    begin += size;
  }
  return chunks;
}

RowRange common(const RowRange& a, const RowRange& b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }
// Counted from `begin`, as far as they lie in a chunk of so many rows.
std::int64_t within(std::int64_t number, const RowRange& chunk) {
  return std::clamp<std::int64_t>(number - chunk.begin, 0, chunk.count());
}

template <class Number>
Tensor integers(std::int64_t count, const Number& number_of) {
  Tensor numbers = Tensor::empty({count}, DType::i64);
  for (std::int64_t n = 0; n < count; ++n) numbers.as<std::int64_t>()[n] = number_of(n);
  return numbers;
}

}  // namespace

std::vector<std::int64_t> evenly(std::int64_t rows, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rows * (rank + 1) / ranks - rows * rank / ranks);
  return counts;
}

std::vector<RowRange> rows_on(int rank, const std::vector<std::int64_t>& counts, RingOrder order) {
  const std::vector<RowRange> chunks = chunks_of_all(counts, order);
  const auto place = static_cast<std::size_t>(rank);
  if (order == RingOrder::in_turn) return {chunks[place]};
  return {chunks[place], chunks[chunks.size() - 1 - place]};
}

RingShards::RingShards(Context& context, const Ring& ring, const ConstTensorView& q, const ConstTensorView& k,
                       const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants)
    : rank_(ring.ranks.rank()),
      ranks_(ring.ranks.size()),
      chunks_each_(ring.order == RingOrder::halves ? 2 : 1),
      sink_(options.sink_logit.present()),
      options_(options),
      wants_(wants) {
  together(ring.ranks, [&] { check_own(context, q, k, v, options, wants); });
  const auto rest = [](const ConstTensorView& x) { return describe(x.slice(2, 0, 0)); };
  expect_agreement(ring.ranks, kRingOp,
                   {{"shape of q, k and v apart from their rows", rest(q) + ", " + rest(k) + ", " + rest(v)},
                    {"set of options", text_of(context, options)},
                    {"set of wanted results", text_of(wants)},
                    {"order of rows", ring.order == RingOrder::halves ? "halves" : "in turn"}});
  std::vector<std::int64_t> queries, keys;
  for (const std::string& text : ring.ranks.gather(std::to_string(q.shape(2)) + " " + std::to_string(k.shape(2)))) {
    queries.push_back(std::stoll(text));
    keys.push_back(std::stoll(text.substr(text.find(' '))));
  }
  queries_ = chunks_of_all(queries, ring.order);
  keys_ = chunks_of_all(keys, ring.order);

  // As attend checks the call with the whole sequence, on all ranks alike; targets and marks are each rank's own.
  AttentionWants whole = wants;
  whole.marked_keys = whole.target_keys = {};
  const Tensor row = Tensor::zeros({std::max({q.shape(3), k.shape(3), v.shape(3), std::int64_t{1}})}, DType::f64);
  const std::int64_t all_queries = queries_.back().end, all_keys = keys_.back().end;
  const kernels::AttentionProblem problem = resolve(kOp, with_rows(row, q, all_queries), with_rows(row, k, all_keys),
                                                    with_rows(row, v, all_keys), options, whole);
  run(context, &Table::check_attention, kOp, problem);
  sequences_ = problem.sequences;
  if (wants.target_keys.present()) together(ring.ranks, [&] { expect_targets(wants.target_keys, all_keys); });
}

std::vector<int> RingShards::chunks_of(int rank) const {
  if (chunks_each_ == 1) return {rank};
  return {rank, 2 * ranks_ - 1 - rank};
}

bool RingShards::sees(int queries, int keys) const {
  for (const kernels::Sequence& s : sequences_) {
    const RowRange q = common(queries_[index(queries)], {s.query_begin, s.query_begin + s.queries});
    const RowRange k = common(keys_[index(keys)], {s.key_begin, s.key_begin + s.keys});
    if (q.count() <= 0 || k.count() <= 0) continue;
    const kernels::PositionMask<std::int64_t> mask(kernels::MaskOptions::of(options_), s);
    const auto seen = mask.keys_of_some(q.begin - s.query_begin, q.end - 1 - s.query_begin);
    if (seen.has_any({k.begin - s.key_begin, k.end - s.key_begin})) return true;
  }
  return false;
}

bool RingShards::rank_sees(int rank, int keys) const {
  const std::vector<int> own = chunks_of(rank);
  return std::any_of(own.begin(), own.end(), [&](int queries) { return sees(queries, keys); });
}

std::vector<RingShards::Batch> RingShards::batches_in(int queries) const {
  const RowRange& chunk = queries_[index(queries)];
  if (!sequences_.packed) return {{0, sequences_.count, {0, chunk.count()}}};
  std::vector<Batch> batches;
  for (std::int64_t n = 0; n < sequences_.count; ++n) {
    const kernels::Sequence s = sequences_[n];
    const RowRange rows{within(s.query_begin, chunk), within(s.query_begin + s.queries, chunk)};
    if (rows.count() > 0) batches.push_back({n, n + 1, rows});
  }
  return batches;
}

int RingShards::next_place(int keys, int place) const {
  for (int next = place + 1; next < ranks_; ++next) {
    if (rank_sees(rank_at(next, keys), keys)) return next;
  }
  return 0;
}

int RingShards::previous_place(int keys, int place) const {
  int previous = place - 1;
  while (previous > 0 && !rank_sees(rank_at(previous, keys), keys)) --previous;
  return std::max(previous, 0);
}

RingShards::Call RingShards::call(int queries, int keys, const ConstTensorView& marked_keys) const {
  const RowRange &q = queries_[index(queries)], &k = keys_[index(keys)];
  Call call{options_, wants_, {}};
  AttentionOptions& o = call.options;
  o.align = Align::unset;
  set_sequences(call, q, k);
  o.window.always_first = std::max<std::int64_t>(o.window.always_first - k.begin, 0);
  o.dropout.origin.row += q.begin;
  o.dropout.origin.key += k.begin;
  if (!takes_sink(keys)) o.sink_logit = {};
  call.wants.lse = true;
  call.wants.row_statistics = wants_.row_statistics || wants_.statistics != StatisticsSet::none;
  call.wants.marked_keys = marked_keys;
  if (wants_.target_keys.present()) set_targets(call, queries, k);
  return call;
}

// Lengths, offsets and positions of what lies in both chunks.
void RingShards::set_sequences(Call& call, const RowRange& q, const RowRange& k) const {
  AttentionOptions& o = call.options;
  const kernels::Sequences& all = sequences_;
  const auto keep = [&](Tensor numbers) {
    call.memory.push_back(std::move(numbers));
    return call.memory.back().view();
  };
  // Of the sequence's rows, how many come before the chunk.
  const auto before = [](std::int64_t begin, std::int64_t count, const RowRange& chunk) {
    return std::clamp<std::int64_t>(chunk.begin - begin, 0, count);
  };
  const bool alike =
      !all.packed && !all.first_position.present() && !o.key_lengths.present() && !o.query_lengths.present();
  if (alike) {
    o.first_position = (all.count > 0 ? all[0].offset : 0) + q.begin - k.begin;
    return;
  }
  o.first_position.reset();
  o.first_positions = keep(integers(all.count, [&](std::int64_t n) {
    const kernels::Sequence s = all[n];
    if (!all.packed) return s.offset + q.begin - k.begin;
    return s.offset + before(s.query_begin, s.queries, q) - before(s.key_begin, s.keys, k);
  }));
  if (o.key_lengths.present()) {
    o.key_lengths = keep(integers(all.count, [&](std::int64_t n) { return within(all[n].keys, k); }));
  }
  if (o.query_lengths.present()) {
    o.query_lengths = keep(integers(all.count, [&](std::int64_t n) { return within(all[n].queries, q); }));
  }
  if (!all.packed) return;
  o.cu_q = keep(integers(all.count + 1, [&](std::int64_t n) { return within(all.cu_q[n], q); }));
  o.cu_k = keep(integers(all.count + 1, [&](std::int64_t n) { return within(all.cu_k[n], k); }));
}

void RingShards::set_targets(Call& call, int queries, const RowRange& k) const {
  const ConstTensorView own = queries_in(wants_.target_keys, 1, queries);
  Tensor targets = Tensor::empty(own.shape(), DType::i32);
  std::int32_t* to = targets.as<std::int32_t>();
  for (std::int64_t b = 0; b < own.shape(0); ++b) {
    for (std::int64_t t = 0; t < own.shape(1); ++t) {
      for (std::int64_t slot = 0; slot < 4; ++slot) {
        const std::int32_t key = own.as<std::int32_t>()[b * own.stride(0) + t * own.stride(1) + slot * own.stride(2)];
        *to++ = key >= k.begin && key < k.end ? key - static_cast<std::int32_t>(k.begin) : -1;
      }
    }
  }
  call.memory.push_back(std::move(targets));
  call.wants.target_keys = call.memory.back().view();
}

}  // namespace polyhead::ops
