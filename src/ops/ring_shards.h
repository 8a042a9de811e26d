// Who has which rows of a sequence around a ring, who sees which of its keys, and what a call with some of them is made
// with: everything counts from the whole sequence.
#pragma once

#include <vector>

#include "kernels/mask.h"
#include "kernels/sequences.h"
#include "ops/ring.h"

namespace polyhead::ops {

// The sequence is cut into chunks, as many for each rank; a rank's queries and its keys of a chunk may be more or
// fewer.
class RingShards {
 public:
  // Checks everything, on all ranks.
  RingShards(Context& context, const Ring& ring, const ConstTensorView& q, const ConstTensorView& k,
             const ConstTensorView& v, const AttentionOptions& options, const AttentionWants& wants);

  int ranks() const { return ranks_; }
  int here() const { return rank_; }
  // Of a rank, in the order of its tensors.
  std::vector<int> chunks_of(int rank) const;
  int owner(int chunk) const { return chunk < ranks_ ? chunk : 2 * ranks_ - 1 - chunk; }
  std::int64_t query_count(int chunk) const { return queries_[index(chunk)].count(); }
  std::int64_t key_count(int chunk) const { return keys_[index(chunk)].count(); }
  // Rows of this rank's tensors, along this axis, that belong to a chunk of its own.
  template <class View>
  View queries_in(const View& x, int axis, int chunk) const {
    return rows(queries_, x, axis, chunk);
  }
  template <class View>
  View keys_in(const View& x, int axis, int chunk) const {
    return rows(keys_, x, axis, chunk);
  }

  // Whether a query of one chunk may see a key of the other; whether one of a rank may; whether this rank computes with
  // the two: the sink is seen, too, and belongs to the first keys that a rank has.
  bool sees(int queries, int keys) const;
  bool rank_sees(int rank, int keys) const;
  bool computes(int queries, int keys) const {
    return sees(queries, keys) || (sink_ && takes_sink(keys) && query_count(queries) > 0);
  }
  // Keys go from their owner to whoever sees them, in the order of the ring: how many places on from the owner the next
  // one is after this place, or the last one before it; 0 if there is none.
  int next_place(int keys, int place) const;
  int previous_place(int keys, int place) const;
  int place_of(int rank, int keys) const { return (rank + ranks_ - owner(keys)) % ranks_; }
  int rank_at(int place, int keys) const { return (owner(keys) + place) % ranks_; }

  // Neighbouring rows of a chunk of queries, counted in it, and the sequences [begin, end) that they belong to: those
  // of a padded batch have all of them, a packed one has its own each.
  struct Batch {
    std::int64_t begin, end;
    RowRange rows;
  };
  std::vector<Batch> batches_in(int queries) const;
  std::int64_t sequence_count() const { return sequences_.count; }

  struct Call {
    AttentionOptions options;
    AttentionWants wants;
    std::vector<Tensor> memory;
  };
  // Of a chunk of this rank's queries with a chunk of keys; marked_keys [B,S] are those of the latter.
  Call call(int queries, int keys, const ConstTensorView& marked_keys = {}) const;

 private:
  using Integers = kernels::Integers;
  static std::size_t index(int chunk) { return static_cast<std::size_t>(chunk); }
  template <class View>
  View rows(const std::vector<RowRange>& chunks, const View& x, int axis, int chunk) const {
    if (!x.present()) return x;
    const std::int64_t begin = chunk < ranks_ ? 0 : chunks[index(rank_)].count();
    return x.slice(axis, begin, begin + chunks[index(chunk)].count());
  }
  bool takes_sink(int keys) const { return keys == rank_; }
  void set_sequences(Call& call, const RowRange& q, const RowRange& k) const;
  void set_targets(Call& call, int queries, const RowRange& k) const;

  int rank_, ranks_, chunks_each_;
  bool sink_;
  AttentionOptions options_;
  AttentionWants wants_;
  std::vector<RowRange> queries_, keys_;  // of every chunk
  kernels::Sequences sequences_;          // of the whole
};

}  // namespace polyhead::ops
