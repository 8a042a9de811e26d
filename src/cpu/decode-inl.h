// Attention of few queries over many keys, as in decoding. All query rows that share a kv head walk over its keys
// together, so that K and V are read once, and the keys are cut into chunks, so that one sequence fills all threads: an
// item computes every row's state over its chunk, and a second step merges the chunks in their order. Chunks lie on a
// grid from the sequence's first key. A row's result has the same bits for any number of threads and whichever rows
// share its kv head.
#if defined(POLYHEAD_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POLYHEAD_CPU_DECODE_INL_H_
#undef POLYHEAD_CPU_DECODE_INL_H_
#else
#define POLYHEAD_CPU_DECODE_INL_H_
#endif

#include "cpu/carver.h"
#include "cpu/head-inl.h"
#include "cpu/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace polyhead::cpu::HWY_NAMESPACE {

// Keys per chunk: one softmax without rescaling, and K and V of a chunk stay in L2 for further slabs of rows.
inline constexpr std::int64_t kChunk = 512;
// Rows that pass over a chunk together: their scores are [kSlab][kChunk].
inline constexpr std::size_t kSlab = 16;
inline constexpr std::size_t kScoresStride = kChunk + 16;  // room for whole vectors, and not a power of two

// The chunks of one sequence and kv head are items [first, first + chunks).
struct Span {
  std::int64_t sequence, kv_head, first, chunks;
};
struct ChunkItem {
  std::int64_t span;
  kernels::KeyRange keys;
};

struct DecodePlan {
  std::vector<Span> spans;
  std::vector<ChunkItem> items;
  std::size_t rows = 0;  // the most that share a kv head
  std::size_t members = 1;

  explicit DecodePlan(const kernels::AttentionProblem& problem) {
    for (std::int64_t n = 0; n < problem.sequences.count; ++n) {
      const kernels::Sequence sequence = problem.sequences[n];
      if (sequence.rows == 0 || problem.heads == 0) continue;
      rows = std::max(rows, static_cast<std::size_t>(sequence.queries * (problem.heads / problem.kv_heads)));
      const std::vector<kernels::KeyRange> chunks = chunks_of(problem.mask_of(sequence), sequence);
      for (std::int64_t g = 0; g < problem.kv_heads; ++g) {
        const auto span = static_cast<std::int64_t>(spans.size());
        spans.push_back({n, g, static_cast<std::int64_t>(items.size()), static_cast<std::int64_t>(chunks.size())});
        for (const kernels::KeyRange& keys : chunks) items.push_back({span, keys});
      }
    }
  }

 private:
  // The chunks in which some row sees a key; an empty one if there are none, so that all rows get a result.
  static std::vector<kernels::KeyRange> chunks_of(const kernels::PositionMask<std::int64_t>& mask,
                                                  const kernels::Sequence& sequence) {
    std::vector<kernels::KeyRange> chunks;
    const kernels::KeySet<std::int64_t> seen = mask.keys_of_some(0, sequence.queries - 1);
    for (std::int64_t begin = 0; begin < sequence.keys && sequence.queries > 0; begin += kChunk) {
      const kernels::KeyRange keys{begin, std::min(begin + kChunk, sequence.keys)};
      if (seen.has_any(keys)) chunks.push_back(keys);
    }
    if (chunks.empty()) chunks.push_back({0, 0});
    return chunks;
  }
};

// The scratch of one call, carved out of one allocation. Everything is aligned to 64 bytes.
struct DecodeWorkspace {
  std::size_t padded_D, padded_E;
  float *q, *s;            // per member: [kSlab][padded D] scaled, [kSlab][kScoresStride] logits, then weights
  float *max, *sum, *out;  // per item: row states m and l [rows], unnormalised output [rows][padded E]

  DecodeWorkspace(Carver& carver, const kernels::AttentionProblem& problem, const DecodePlan& plan)
      : padded_D(padded<float>(static_cast<std::size_t>(problem.head_dim))),
        padded_E(padded<float>(static_cast<std::size_t>(problem.value_dim))) {
    q = carver.take<float>(plan.members * kSlab * padded_D);
    s = carver.take<float>(plan.members * kSlab * kScoresStride);
    for (float** state : {&max, &sum}) *state = carver.take<float>(plan.items.size() * plan.rows);
    out = carver.take<float>(plan.items.size() * plan.rows * padded_E);
  }
};

// m and l of a row of n logits, a whole number of vectors; s -> e^(s-m) in place.
inline void softmax_row(float* s, std::size_t n, float& max, float& sum) {
  const Tag<float> d;
  Vec<float> top = hn::Set(d, -kInfinity<float>), total = hn::Zero(d);
  for (std::size_t j = 0; j < n; j += kLanes<float>) top = hn::Max(top, hn::Load(d, s + j));
  top = hn::MaxOfLanes(d, top);
  max = hn::GetLane(top);
  top = above_infinity<float>(top);
  for (std::size_t j = 0; j < n; j += kLanes<float>) {
    const Vec<float> e = exp_nonpositive<float>(hn::Sub(hn::Load(d, s + j), top));
    hn::Store(e, d, s + j);
    total = hn::Add(total, e);
  }
  sum = hn::GetLane(hn::SumOfLanes(d, total));
}

// visit(range) for the keys of a chunk that a row sees, or that some rows see.
template <class Visit>
void for_parts(const kernels::KeySet<std::int64_t>& seen, kernels::KeyRange keys, const Visit& visit) {
  const auto [first, rest] = seen.parts(keys);
  if (!first.empty()) visit(first);
  if (!rest.empty()) visit(rest);
}

// One chunk of keys for all rows that share the kv head. S is the storage type of K and V.
template <class S>
class Chunk {
 public:
  Chunk(const kernels::AttentionProblem& problem, const DecodeWorkspace& workspace, const DecodePlan& plan,
        std::int64_t item, int member)
      : problem_(problem),
        w_(workspace),
        keys_(plan.items[static_cast<std::size_t>(item)].keys),
        span_(plan.spans[static_cast<std::size_t>(plan.items[static_cast<std::size_t>(item)].span)]),
        first_state_(static_cast<std::size_t>(item) * plan.rows),
        q_(w_.q + static_cast<std::size_t>(member) * kSlab * w_.padded_D),
        s_(w_.s + static_cast<std::size_t>(member) * kSlab * kScoresStride) {}

  // Heads whose gate is 0 come last, and only if their lse is wanted.
  void run() {
    for (const bool open : {true, false}) {
      if (!open && !problem_.lse.present()) return;
      const std::int64_t shared = problem_.heads / problem_.kv_heads;
      for (std::int64_t i = 0; i < shared; ++i) {
        const Head<float> head(problem_, span_.sequence, span_.kv_head * shared + i);
        if ((head.gate != 0) != open) continue;
        for (std::int64_t t = 0; t < head.sequence.queries; ++t) {
          add_row(head, t, first_state_ + static_cast<std::size_t>(i * head.sequence.queries + t));
          if (rows_ == kSlab) attend_slab(head, open);
        }
      }
      const Head<float> any(problem_, span_.sequence, span_.kv_head * shared);
      if (rows_ > 0) attend_slab(any, open);
    }
  }

 private:
  struct Row {
    std::int64_t query, position;
    float slope;
    std::size_t state;
  };

  // Adds q_factor * q to the slab, with 0 behind its columns.
  void add_row(const Head<float>& head, std::int64_t t, std::size_t state) {
    const Tag<float> d;
    float* q = q_ + rows_ * w_.padded_D;
    widen(head.q.row(t), head.q.dtype, head.D, q);
    std::fill(q + head.D, q + w_.padded_D, 0.0f);
    const Vec<float> factor = hn::Set(d, head.q_factor);
    for (std::size_t c = 0; c < w_.padded_D; c += kLanes<float>)
      hn::Store(hn::Mul(factor, hn::Load(d, q + c)), d, q + c);
    row_[rows_] = {t, t + head.sequence.offset, head.slope, state};
    out_[rows_++] = w_.out + state * w_.padded_E;
  }

  // `head` is any head of the span: only what they have in common is read from it.
  void attend_slab(const Head<float>& head, bool values) {
    const kernels::KeySet<std::int64_t> seen = head.mask.keys_of_some(0, head.sequence.queries - 1);
    for_parts(seen, keys_, [&](kernels::KeyRange range) {
      stream_scores<S>(stream(head.k, range, head.D), range.end - range.begin, q_, w_.padded_D, rows_,
                       s_ + (range.begin - keys_.begin), kScoresStride);
    });
    const std::size_t n = padded<float>(static_cast<std::size_t>(keys_.end - keys_.begin));
    for (std::size_t r = 0; r < rows_; ++r) {
      float* s = s_ + r * kScoresStride;
      if (head.softcap > 0) apply_softcap(s, n, head.softcap);
      if (row_[r].slope != 0) add_alibi(s, n, row_[r]);
      hide(head.mask.keys_of(row_[r].query), n, s);
      softmax_row(s, n, w_.max[row_[r].state], w_.sum[row_[r].state]);
      if (values) std::fill(out_[r], out_[r] + w_.padded_E, 0.0f);
    }
    if (values) {
      for_parts(seen, keys_, [&](kernels::KeyRange range) {
        stream_values<S>(stream(head.v, range, head.E), range.end - range.begin, s_ + (range.begin - keys_.begin),
                         kScoresStride, rows_, out_);
      });
      if (head.sequence.queries > 1 && !outputs_finite()) add_values_seen(head, seen);
    }
    rows_ = 0;
  }
  bool outputs_finite() const {
    return std::all_of(out_, out_ + rows_, [&](const float* out) { return all_finite(out, 0, 1, w_.padded_E); });
  }
  // Recomputes the output where values hold NaN or infinity, which weights of 0 have spread to queries that do not see
  // them.
  void add_values_seen(const Head<float>& head, const kernels::KeySet<std::int64_t>& seen) const {
    for (std::size_t r = 0; r < rows_; ++r) {
      std::fill(out_[r], out_[r] + w_.padded_E, 0.0f);
      for_parts(seen, keys_, [&](kernels::KeyRange range) {
        const Stream<S> v = stream(head.v, range, head.E);
        for (std::int64_t j = 0; j < range.end - range.begin; ++j) {
          const float* p = s_ + r * kScoresStride + (range.begin - keys_.begin) + j;
          if (*p != 0) stream_values<S>({v.row(j), v.stride, v.columns}, 1, p, kScoresStride, 1, out_ + r);
        }
      });
    }
  }
  static Stream<S> stream(const Rows& rows, kernels::KeyRange range, std::size_t columns) {
    return {reinterpret_cast<const S*>(rows.row(range.begin)), rows.stride, columns};
  }

  static void apply_softcap(float* s, std::size_t n, float c) {
    const Tag<float> d;
    for (std::size_t j = 0; j < n; j += kLanes<float>) {
      hn::Store(hn::Mul(hn::Set(d, c), tanh_of<float>(hn::Load(d, s + j)).value), d, s + j);
    }
  }

  // s <- s - slope * |p - j|.
  void add_alibi(float* s, std::size_t n, const Row& row) const {
    const Tag<float> d;
    for (std::size_t j = 0; j < n; j += kLanes<float>) {
      const Vec<float> key =
          count_from(d, static_cast<float>(keys_.begin + static_cast<std::int64_t>(j) - row.position));
      hn::Store(hn::NegMulAdd(hn::Set(d, row.slope), hn::Abs(key), hn::Load(d, s + j)), d, s + j);
    }
  }

  // s [n] <- -inf for every key that a row does not see, and behind the last key. Some were never computed.
  void hide(const kernels::KeySet<std::int64_t>& seen, std::size_t n, float* s) const {
    std::int64_t from = 0;
    for_parts(seen, keys_, [&](kernels::KeyRange range) {
      std::fill(s + from, s + (range.begin - keys_.begin), -kInfinity<float>);
      from = range.end - keys_.begin;
    });
    std::fill(s + from, s + n, -kInfinity<float>);
  }

  const kernels::AttentionProblem& problem_;
  const DecodeWorkspace& w_;
  const kernels::KeyRange keys_;
  const Span& span_;
  const std::size_t first_state_;
  float *const q_, *const s_;
  Row row_[kSlab];
  float* out_[kSlab];
  std::size_t rows_ = 0;
};

// Merges the chunks of a span in their order and writes its rows' output and lse.
class SpanMerge {
 public:
  SpanMerge(const kernels::AttentionProblem& problem, const DecodeWorkspace& workspace, const DecodePlan& plan,
            const Span& span)
      : problem_(problem), w_(workspace), plan_(plan), span_(span) {}

  void run() const {
    const std::int64_t shared = problem_.heads / problem_.kv_heads;
    for (std::int64_t i = 0; i < shared; ++i) {
      const Head<float> head(problem_, span_.sequence, span_.kv_head * shared + i);
      for (std::int64_t t = 0; t < head.sequence.rows; ++t) {
        if (t < head.sequence.queries) {
          finish(head, t, static_cast<std::size_t>(i * head.sequence.queries + t));
        } else {
          clear(head, t);
          store_lse(head, t, -kInfinity<float>);
        }
      }
    }
  }

 private:
  std::size_t state(std::int64_t chunk, std::size_t row) const {
    return static_cast<std::size_t>(span_.first + chunk) * plan_.rows + row;
  }

  // m <- max m_c, l <- sum e^(m_c - m) l_c, and the output like l; the sink is one more logit in l.
  void finish(const Head<float>& head, std::int64_t t, std::size_t row) const {
    if (head.gate == 0 && !problem_.lse.present()) return clear(head, t);
    float max = head.sink;
    for (std::int64_t c = 0; c < span_.chunks; ++c) max = std::max(max, w_.max[state(c, row)]);
    const float top = std::max(max, std::numeric_limits<float>::lowest());  // never -inf
    float sum = std::exp(head.sink - top);
    for (std::int64_t c = 0; c < span_.chunks; ++c) {
      const std::size_t at = state(c, row);
      sum += std::exp(w_.max[at] - top) * w_.sum[at];
    }
    store_lse(head, t, sum == 0 ? -kInfinity<float> : top + std::log(sum));
    if (head.gate == 0 || sum == 0) return clear(head, t);
    merge_output(row, top, static_cast<float>(head.gate) / sum);
    narrow(w_.out + state(0, row) * w_.padded_E, head.E, output_row(head, t), problem_.output.dtype());
  }

  // out of the first chunk <- norm * sum_c e^(m_c - top) out_c.
  void merge_output(std::size_t row, float top, float norm) const {
    const Tag<float> d;
    float* to = w_.out + state(0, row) * w_.padded_E;
    for (std::int64_t c = 0; c < span_.chunks; ++c) {
      const std::size_t at = state(c, row);
      const Vec<float> factor = hn::Set(d, norm * std::exp(w_.max[at] - top));
      for (std::size_t e = 0; e < w_.padded_E; e += kLanes<float>) {
        const Vec<float> more = hn::Mul(factor, hn::Load(d, w_.out + at * w_.padded_E + e));
        hn::Store(c == 0 ? more : hn::Add(hn::Load(d, to + e), more), d, to + e);
      }
    }
  }

  std::byte* output_row(const Head<float>& head, std::int64_t t) const {
    const TensorView& o = problem_.output;
    const std::int64_t at = head.sequence.batch * o.stride(0) + head.h * o.stride(1) + head.tensor_row(t) * o.stride(2);
    return static_cast<std::byte*>(o.data()) + at * static_cast<std::int64_t>(size_of(o.dtype()));
  }
  void clear(const Head<float>& head, std::int64_t t) const {
    std::memset(output_row(head, t), 0, head.E * size_of(problem_.output.dtype()));
  }
  void store_lse(const Head<float>& head, std::int64_t t, float value) const {
    const TensorView& lse = problem_.lse;
    if (!lse.present()) return;
    static_cast<float*>(
        lse.data())[head.sequence.batch * lse.stride(0) + head.h * lse.stride(1) + head.tensor_row(t) * lse.stride(2)] =
        value;
  }

  const kernels::AttentionProblem& problem_;
  const DecodeWorkspace& w_;
  const DecodePlan& plan_;
  const Span& span_;
};

}  // namespace polyhead::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
