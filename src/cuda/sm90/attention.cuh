// Attention forward on Hopper. A block of threads has a scheduler, which says which tile is next; a producer, which
// brings tiles of Q, K, V and a bias by the copy engine; and two or three warpgroups of consumers, each with 64 rows of
// the tile. A consumer computes
//   S = Q K^T of the next block of keys  and  O += P V of the last one
// at the same time on the tensor cores, and the softmax of S while the second is under way; consumers take turns at the
// tensor cores, so that one's softmax hides behind another's products. Blocks of threads fetch tile after tile.
#pragma once

#include "cuda/device/barrier.cuh"
#include "cuda/device/tma.cuh"
#include "cuda/device/wgmma.cuh"
#include "cuda/sm90/options.cuh"
#include "cuda/sm90/schedule.cuh"
#include "cuda/sm90/softmax.cuh"

namespace polyhead::cuda::sm90 {

// Sizes by head dim. A multiprocessor has 65536 registers.
template <int D>
struct Shape;
template <>
struct Shape<64> {
  static constexpr int kConsumers = 3, kKeys = 128, kQueryStages = 2, kKeyStages = 2, kProducerRegisters = 32,
                       kConsumerRegisters = 160;
};
struct SmallShape64 {
  static constexpr int kConsumers = 2, kKeys = 128, kQueryStages = 2, kKeyStages = 2, kProducerRegisters = 40,
                       kConsumerRegisters = 232;
};
template <>
struct Shape<128> {
  static constexpr int kConsumers = 2, kKeys = 128, kQueryStages = 2, kKeyStages = 2, kProducerRegisters = 40,
                       kConsumerRegisters = 232;
};
struct GeneralShape128 : Shape<128> {
  static constexpr int kQueryStages = 1;  // leaves more of the memory for the bias: as cache, or for its tiles
};
template <>
struct Shape<256> {
  static constexpr int kConsumers = 2, kKeys = 64, kQueryStages = 1, kKeyStages = 2, kProducerRegisters = 40,
                       kConsumerRegisters = 232;
};

// What a kernel has besides the softmax: nothing; statistics; or the score modifiers, see options.cuh.
enum class Instance : std::uint8_t { plain, statistics, general };

template <class T, int D, Instance kInstance, class Sizes = Shape<D>, ScoreModifier kOnly = ScoreModifier::several>
class Forward {
  static constexpr bool kStatistics = kInstance == Instance::statistics, kGeneral = kInstance == Instance::general;
  static constexpr bool kBiasTiles = kGeneral && kOnly == ScoreModifier::bias;

 public:
  static constexpr int kRows = 64 * Sizes::kConsumers, kKeys = Sizes::kKeys;
  static constexpr int kThreads = kWarpgroup * (1 + Sizes::kConsumers);

  // The bias of a block of keys, on its way with them.
  struct BiasTiles {
    alignas(1024) T tile[Sizes::kKeyStages][kKeys / 64][kRows * 64];
    device::Barrier full[Sizes::kKeyStages], empty[Sizes::kKeyStages];
  };
  struct NoTiles {};

  struct Shared {
    // Tiles of 64 columns each.
    alignas(1024) T q[Sizes::kQueryStages][D / 64][kRows * 64];
    alignas(1024) T k[Sizes::kKeyStages][D / 64][kKeys * 64];
    alignas(1024) T v[Sizes::kKeyStages][D / 64][kKeys * 64];
    [[no_unique_address]] std::conditional_t<kBiasTiles, BiasTiles, NoTiles> bias;
    device::Barrier q_full[Sizes::kQueryStages], q_empty[Sizes::kQueryStages];
    device::Barrier k_full[Sizes::kKeyStages], k_empty[Sizes::kKeyStages];
    device::Barrier v_full[Sizes::kKeyStages], v_empty[Sizes::kKeyStages];
    TileRing tiles;
  };

  __device__ static void run(const ForwardArguments& a, Shared& shared) {
    if (a.open_heads != nullptr && *a.open_heads == 0) return;
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    if (threadIdx.x == 0) initialise(shared);
    __syncthreads();
    if (warpgroup == 0) {
      device::release_registers<Sizes::kProducerRegisters>();
      if (threadIdx.x == 0) produce(a, shared);
      if (threadIdx.x / 32 == 1) Scheduler<T, D, kRows, kKeys, kStatistics>{a}.run(shared.tiles);
    } else {
      device::claim_registers<Sizes::kConsumerRegisters>();
      Forward(a, shared, warpgroup - 1).consume();
    }
  }

 private:
  using Rows = RowPair<kStatistics>;
  static constexpr int kConsumerWarps = 4 * Sizes::kConsumers;

  __device__ static void initialise(Shared& shared) {
    for (int i = 0; i < Sizes::kQueryStages; ++i) {
      shared.q_full[i].initialise(1);
      shared.q_empty[i].initialise(kConsumerWarps);
    }
    for (int i = 0; i < Sizes::kKeyStages; ++i) {
      shared.k_full[i].initialise(1);
      shared.v_full[i].initialise(1);
      shared.k_empty[i].initialise(kConsumerWarps);
      shared.v_empty[i].initialise(kConsumerWarps);
      if constexpr (kBiasTiles) {
        shared.bias.full[i].initialise(1);
        shared.bias.empty[i].initialise(kConsumerWarps);
      }
    }
    for (int i = 0; i < TileRing::kSlots; ++i) {
      shared.tiles.full[i].initialise(1);
      shared.tiles.empty[i].initialise(kConsumerWarps + 1);
    }
    device::fence_barrier_init();
  }

  // ---- producer: one thread

  // Copies in the order of their use: keys, and values one block behind, without a gap across tiles.
  __device__ static void produce(const ForwardArguments& a, Shared& shared) {
    device::prefetch(a.q);
    device::prefetch(a.k);
    device::prefetch(a.v);
    if constexpr (kBiasTiles) device::prefetch(a.bias);
    Count queries = 0, keys = 0, values = 0;
    struct {
      int row, head, batch;
    } waiting{};  // the block whose keys have been copied, but not its values
    const auto copy_values = [&] {
      const int stage = values % Sizes::kKeyStages;
      shared.v_empty[stage].await(empty_parity<Sizes::kKeyStages>(values++));
      copy(shared.v[stage], a.v, 0, waiting.row, waiting.head, waiting.batch, shared.v_full[stage],
           device::Keep::last_out);
    };
    for (Count count = 0;; ++count) {
      const int slot = count % TileRing::kSlots;
      shared.tiles.full[slot].await(full_parity<TileRing::kSlots>(count));
      const Tile& tile = shared.tiles.tile[slot];
      if (tile.head < 0) break;
      const KeyBlocks blocks = tile.blocks;
      const int kv_head = tile.kv_head, batch = tile.batch, key_begin = tile.key_begin;
      for (int n = 0; n < blocks.count(); ++n) {
        if (n == 0) {
          const int stage = queries % Sizes::kQueryStages;
          shared.q_empty[stage].await(empty_parity<Sizes::kQueryStages>(queries++));
          copy(shared.q[stage], a.q, 0, tile.query_begin + tile.row, tile.head, batch, shared.q_full[stage],
               device::Keep::first_out);
        }
        const int stage = keys % Sizes::kKeyStages, row = key_begin + blocks[n] * kKeys;
        const std::uint32_t free = empty_parity<Sizes::kKeyStages>(keys++);
        shared.k_empty[stage].await(free);
        copy(shared.k[stage], a.k, 0, row, kv_head, batch, shared.k_full[stage], device::Keep::last_out);
        if constexpr (kBiasTiles) {
          shared.bias.empty[stage].await(free);
          const bool is_shared = a.bias_heads * a.bias_batches == 0;  // by heads or sequences, which will read it again
          copy(shared.bias.tile[stage], a.bias, row, tile.query_begin + tile.row, tile.head * a.bias_heads,
               batch * a.bias_batches, shared.bias.full[stage],
               is_shared ? device::Keep::last_out : device::Keep::first_out);
        }
        if (keys > 1) copy_values();
        waiting = {row, kv_head, batch};
      }
      shared.tiles.empty[slot].arrive();
    }
    if (keys > 0) copy_values();
  }

  template <int kTiles, int kSize>
  __device__ static void copy(T (&to)[kTiles][kSize], const CUtensorMap& map, int column, int row, int head, int batch,
                              device::Barrier& full, device::Keep keep) {
    full.arrive_expecting(sizeof to);
    for (int c = 0; c < kTiles; ++c) device::load_tile(to[c], map, column + 64 * c, row, head, batch, full, keep);
  }

  // ---- consumers: a warpgroup each

  __device__ Forward(const ForwardArguments& a, Shared& shared, int consumer)
      : a_(a), shared_(shared), consumer_(consumer), thread_(static_cast<int>(threadIdx.x) % kWarpgroup) {}

  // Row r of this thread's two, counted within the consumer's 64.
  __device__ int row_of(int r) const { return thread_ / 32 * 16 + thread_ % 32 / 4 + 8 * r; }

  // Turns at the tensor cores: barrier 1 + c opens consumer c's turn.
  __device__ void take_turn() const { device::named_sync(1 + consumer_, 2 * kWarpgroup); }
  __device__ void pass_turn() const { device::named_arrive(1 + (consumer_ + 1) % Sizes::kConsumers, 2 * kWarpgroup); }

  // Blocks of keys follow each other without a gap, across tiles: while the last values of one tile are summed, the
  // first scores of the next are computed.
  __device__ void consume() {
    if (consumer_ == Sizes::kConsumers - 1) pass_turn();
    if (fetch_tile()) {
      wait_for_keys();
      device::mma_fence();
      issue_scores();
      device::mma_wait<0>();
      device::pin(s_);
      release_keys(0);
      tile_ = ahead_;
      const auto early = prepare(0);
      finish_scores<false>(0, early);
      watch(0);
      float factor[2];
      rows_.template absorb<false>(s_, scale(), first_key(0), factor);
      add_moments(0);
      drop(0);
      ++keys_;
      to_weights();
      do {
        while (n_ + 1 >= plain_first_ && n_ + 1 <= open_.last) step<true>();
      } while (step<false>());
      wait_for_values();
      clean_values<false>(is_own_key_seen());
      device::mma_fence();
      issue_values();
      device::mma_wait<0>();
      device::pin(o_);
      close_rows(factor);
      store_output(factor);
    }
    if (consumer_ == 0) take_turn();  // the one that the last consumer has passed
  }

  // Scores of the next block and values of block n_, at the same time. Plain steps stay within a tile and need no mask.
  // Returns false if there is no next block.
  template <bool kPlain>
  __device__ __forceinline__ bool step() {
    const bool last = !kPlain && n_ == last_block_;
    if (last && !fetch_tile()) return false;
    const int next = last ? 0 : n_ + 1;
    const bool seen = is_own_key_seen();
    wait_for_keys();
    take_turn();
    device::mma_fence();
    issue_scores();
    wait_for_values();
    clean_values<kPlain>(seen);
    device::mma_fence();
    issue_values();
    pass_turn();
    const auto early = prepare(next);
    device::mma_wait<1>();
    device::pin(s_);
    release_keys(next);
    float norm[2], factor[2];
    if constexpr (!kPlain) {
      if (last) {
        close_rows(norm);
        rows_ = Rows();
      }
    }
    finish_scores<kPlain>(next, early);
    watch(next);
    const bool rescale = rows_.template absorb<kPlain>(s_, scale(), first_key(next), factor);
    add_moments(next);
    drop(next);
    device::mma_wait<0>();
    device::pin(o_);
    release(shared_.v_empty[value_stage()]);
    ++keys_;
    if (last) {
      store_output(norm);
      release(shared_.tiles.empty[tile_ % TileRing::kSlots]);
      tile_ = ahead_;
    } else if (rescale) {
#pragma unroll
      for (int i = 0; i < D / 2; ++i) o_[i] *= factor[i / 2 % 2];
    }
    n_ = next;
    to_weights();
    return true;
  }

  // The tile whose values are summed, and the one whose scores are computed: the same, except at a tile's last block.
  __device__ const Tile& tile() const { return shared_.tiles.tile[tile_ % TileRing::kSlots]; }
  __device__ const Tile& ahead() const { return shared_.tiles.tile[ahead_ % TileRing::kSlots]; }
  __device__ int query_stage() const { return queries_ % Sizes::kQueryStages; }
  __device__ int key_stage() const { return keys_ % Sizes::kKeyStages; }
  __device__ int value_stage() const { return (keys_ + Sizes::kKeyStages - 1) % Sizes::kKeyStages; }

  // Goes to the next tile. Returns false if there is none.
  __device__ bool fetch_tile() {
    ++ahead_;
    shared_.tiles.full[ahead_ % TileRing::kSlots].await(full_parity<TileRing::kSlots>(ahead_));
    if (ahead().head < 0) return false;
    open_ = ahead().open;
    plain_first_ = ahead().plain_first;
    if constexpr (kStatistics) {
      near_first_ = ahead().near_first;
      near_last_ = ahead().near_last;
      edge_first_ = ahead().edge_first;
    }
    last_block_ = ahead().blocks.count() - 1;
    ++queries_;
    shared_.q_full[query_stage()].await(full_parity<Sizes::kQueryStages>(queries_));
    return true;
  }

  __device__ void wait_for_keys() const { shared_.k_full[key_stage()].await(full_parity<Sizes::kKeyStages>(keys_)); }
  // Those of the block before.
  __device__ void wait_for_values() const {
    shared_.v_full[value_stage()].await(full_parity<Sizes::kKeyStages>(keys_ - 1));
  }
  // After the scores of block n: its keys, and with a tile's last block the queries, may be overwritten.
  __device__ void release_keys(int n) const {
    release(shared_.k_empty[key_stage()]);
    if (n == last_block_) release(shared_.q_empty[query_stage()]);
  }

  // S = Q K^T.
  __device__ void issue_scores() {
    const std::uint64_t q = device::describe_rows(&shared_.q[query_stage()][0][consumer_ * 64 * 64]);
    const std::uint64_t k = device::describe_rows(shared_.k[key_stage()]);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      constexpr int kQueryTile = kRows * device::kTileRowBytes, kKeyTile = kKeys * device::kTileRowBytes;
      device::mma_shared<T, kKeys>(s_, device::advance(q, d / 4 * kQueryTile + d % 4 * 32),
                                   device::advance(k, d / 4 * kKeyTile + d % 4 * 32), d > 0);
    }
    device::mma_commit();
  }

  // O (+)= P V.
  __device__ void issue_values() {
    const std::uint64_t v = device::describe_columns(shared_.v[value_stage()], kKeys * device::kTileRowBytes);
#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      device::mma_registers<T, D>(o_, p_[j], device::advance(v, j * 16 * device::kTileRowBytes), n_ > 0 || j > 0);
    }
    device::mma_commit();
  }

  __device__ void to_weights() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) p_[i / 4][i % 4] = pack_operand<T>(s_[2 * i], s_[2 * i + 1]);
  }

  // ---- options and masks

  using General = GeneralOptions<T, kKeys, kOnly>;
  static constexpr bool kHides =
      kGeneral && (kOnly == ScoreModifier::several || kOnly == ScoreModifier::keep || kBiasTiles);

  // What turns a score into an exponent of 2.
  __device__ float scale() const { return kGeneral ? General::scale_of(a_.options, a_.scale) : a_.scale; }

  struct Nothing {};
  __device__ General options_of(const Tile& tile) const { return {a_.options, tile, a_.scale}; }

  // What the options read for block n, before its scores are there.
  __device__ auto prepare(int n) const {
    if constexpr (kGeneral && !kBiasTiles) {
      return options_of(ahead()).early(block_of(n));
    } else {
      return Nothing();
    }
  }
  // Scores of block n as the softmax takes them: with what the options add, -inf where a key is hidden.
  template <bool kPlain, class Early>
  __device__ void finish_scores(int n, const Early& early) {
    if constexpr (kBiasTiles) {
      const int stage = key_stage();
      shared_.bias.full[stage].await(full_parity<Sizes::kKeyStages>(keys_));
      add_bias_tiles<kRows>(s_, shared_.bias.tile[stage], 64 * consumer_ + thread_ / 32 * 16, a_.bias_factor);
      release(shared_.bias.empty[stage]);
    } else if constexpr (kGeneral) {
      options_of(ahead()).finish(s_, block_of(n), early);
    }
    if constexpr (!kPlain) mask(n);
  }
  __device__ void drop(int n) {
    if constexpr (kGeneral) options_of(ahead()).drop(s_, block_of(n));
  }
  __device__ ScoreBlock block_of(int n) const {
    return {ahead().row + 64 * consumer_ + row_of(0), first_key(n), thread_ % 4};
  }
  // Whether some query sees the key whose values this thread would clear in block n_. Read early, for memory is far
  // away.
  __device__ bool is_own_key_seen() const {
    if constexpr (!kHides) return true;
    return options_of(tile()).is_seen(tile().blocks[n_] * kKeys + thread_);
  }

  // The key of this thread's first column in block n of the tile ahead.
  __device__ int first_key(int n) const { return ahead().blocks[n] * kKeys + thread_ % 4 * 2; }
  // The position of query r of this thread's two, in the tile ahead.
  __device__ int position(int r) const { return ahead().row + ahead().offset + 64 * consumer_ + row_of(r); }

  // Scores of hidden keys become -inf.
  __device__ void mask(int n) {
    if (n >= open_.first && n <= open_.last) return;
    const Tile& tile = ahead();
    const int column = first_key(n);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const RowSight sight(a_.reach, position(r), tile.keys);
      const int begin = sight.begin - column, end = sight.end - column, head = sight.head - column;
#pragma unroll
      for (int j = 0; j < kKeys / 2; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int at = 2 * j + e;
          s_[j + 2 * r + e] = at < head || (at >= begin && at < end) ? s_[j + 2 * r + e] : -INFINITY;
        }
      }
    }
  }

  // A weight of 0 does not hide a NaN. Values that no query of the sequence sees are set to 0 before they are
  // multiplied; every consumer writes the same zeros. seen: does some query see this thread's key?
  template <bool kPlain>
  __device__ void clean_values(bool seen) const {
    const bool hides = kHides && a_.options.seen != nullptr;
    if (!hides && (kPlain || !needs_cleaning(tile(), n_, kKeys, a_.sequences.keys))) return;
    const int j0 = tile().blocks[n_] * kKeys;
    static_assert(kKeys <= kWarpgroup);
    const int key = j0 + thread_;
    if (thread_ < kKeys && !(seen && (key < tile().seen_head || (key >= tile().seen_begin && key < tile().seen_end)))) {
      for (int c = 0; c < D / 64; ++c) {
        uint4* to = reinterpret_cast<uint4*>(&shared_.v[value_stage()][c][thread_ * 64]);
        for (int i = 0; i < 8; ++i) to[i] = uint4{0, 0, 0, 0};
      }
    }
    device::fence_async_proxy();
    device::named_sync(1 + Sizes::kConsumers + consumer_, kWarpgroup);
  }

  // ---- statistics

  // Writes the scores of the watched keys in block n straight to memory: they are few, and registers are scarce.
  __device__ void watch(int n) const {
    if constexpr (!kStatistics) return;
    const bool near = n >= near_first_ && n <= near_last_, edge = n >= edge_first_;
    if (!near && !edge) return;
    const int column = first_key(n);
    if (near) watch_keys([&](int r) { return position(r) - 1 - column; }, 3, 1);
    if (edge) {
      watch_keys([&](int r) { return RowSight(a_.reach, position(r), ahead().keys).first() - column; }, 1, 0);
    }
  }
  // watched[at..] of row r = the scores of `count` keys from begin(r) on, counted from this thread's first column.
  template <class Begin>
  __device__ __forceinline__ void watch_keys(const Begin& begin, int count, int at) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = ahead().row + 64 * consumer_ + row_of(r), from = begin(r);
      if (row >= ahead().queries || from + count <= 0 || from >= kKeys) continue;
      float* const to = a_.outcomes[place_of(ahead(), row)].watched + at;
#pragma unroll
      for (int j = 0; j < kKeys / 2; j += 4) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (static_cast<unsigned>(2 * j + e - from) < static_cast<unsigned>(count))
            to[2 * j + e - from] = s_[j + 2 * r + e];
        }
      }
    }
  }

  // After the softmax of block n: what the full set sums of its weights.
  __device__ void add_moments(int n) {
    if constexpr (kStatistics) {
      if (a_.moments == nullptr) return;
      const int column = first_key(n);
      rows_.records.add_distances(s_,
                                  {static_cast<float>(position(0) - column), static_cast<float>(position(1) - column)});
      if (a_.marks == nullptr) return;
      const int key = ahead().key_begin + column;
      const std::uint32_t* words = a_.marks + static_cast<std::int64_t>(ahead().batch) * a_.mark_words + key / 32;
      std::uint32_t bits[kKeys / 32];
#pragma unroll
      for (int i = 0; i < kKeys / 32; ++i) bits[i] = __funnelshift_r(words[i], words[i + 1], key % 32);
      rows_.records.add_marked(s_, bits);
    }
  }

  // The index of row `row` of a tile's sequence in outcomes and moments.
  __device__ std::int64_t place_of(const Tile& tile, int row) const {
    return (static_cast<std::int64_t>(tile.batch) * a_.order.heads + tile.head) * a_.sequences.queries +
           tile.query_begin + row;
  }

  // ---- results

  // Writes lse of complete rows and what their statistics need; norm: what their outputs are to be multiplied by.
  __device__ void close_rows(float (&norm)[2]) const {
    const Tile& tile = this->tile();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = tile.row + 64 * consumer_ + row_of(r);
      // The sink is one more key, without a value. All is relative to the larger of reference and sink.
      const float sum = quad_sum(rows_.sum[r]), top = fmaxf(rows_.reference[r], tile.sink);
      const float scale = exp2_of(rows_.reference[r] - top), sink = exp2_of(tile.sink - top);
      const float total = sum * scale + sink;
      const float lse = total == 0 ? -INFINITY : top + log2_of(total);
      norm[r] = total == 0 ? 0 : scale / total * tile.gate;
      if constexpr (kGeneral) norm[r] *= a_.options.kept_factor;
      if (a_.lse.data != nullptr && thread_ % 4 == 0 && row < tile.rows) {
        a_.lse.data[a_.lse.offset(tile.batch, tile.head, tile.query_begin + row)] =
            row < tile.queries ? lse / kLog2E : -INFINITY;
      }
      if constexpr (kStatistics) {
        float logs = scale * (quad_sum(rows_.records.log_sum[r]) + (rows_.reference[r] - top) * sum);
        if (sink > 0) logs += sink * (tile.sink - top);
        const float entropy = fmaxf(log2_of(total) - logs / total, 0.f) / kLog2E;
        const int key = rows_.records.row_key(r);
        const bool writes = thread_ % 4 == 0 && row < tile.queries;
        const std::int64_t place = place_of(tile, row);
        if (writes) {
          *reinterpret_cast<float4*>(&a_.outcomes[place]) = {lse, entropy, rows_.records.best[r], __int_as_float(key)};
        }
        if (a_.moments != nullptr) {
          const float distance = quad_sum(rows_.records.distance[r]) * scale / total,
                      marked = quad_sum(rows_.records.marked[r]) * scale / total;
          if (writes) *reinterpret_cast<float2*>(&a_.moments[place]) = {distance, marked};
        }
      }
    }
  }

  __device__ void store_output(const float (&factor)[2]) const {
    const Tile& tile = this->tile();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = tile.row + 64 * consumer_ + row_of(r);
      const bool computed = row < tile.queries && tile.gate != 0;
      T* to = static_cast<T*>(a_.output.data) + a_.output.offset(tile.batch, tile.head, tile.query_begin + row);
#pragma unroll
      for (int j = 0; j < D / 2; j += 8) {  // 16 columns
        std::uint32_t low = pack_operand<T>(o_[j + 2 * r] * factor[r], o_[j + 2 * r + 1] * factor[r]);
        std::uint32_t high = pack_operand<T>(o_[j + 4 + 2 * r] * factor[r], o_[j + 4 + 2 * r + 1] * factor[r]);
        store_pair(to + 2 * j, thread_, row < tile.rows, computed ? low : 0, computed ? high : 0);
      }
    }
  }

  const ForwardArguments& a_;
  Shared& shared_;
  const int consumer_, thread_;
  // Counts from which the tile, the block of keys and the stage follow, for registers are scarce.
  Count tile_ = 0, ahead_ = ~0u, queries_ = ~0u, keys_ = 0;
  int n_ = 0;        // the block of the tile that p_ belongs to
  OpenBlocks open_;  // of the tile ahead
  int plain_first_ = 1, last_block_ = 0;
  int near_first_ = 0, near_last_ = -1, edge_first_ = 0;  // where keys are watched
  Rows rows_;
  float s_[kKeys / 2], o_[D / 2];   // scores and output as wgmma has them
  std::uint32_t p_[kKeys / 16][4];  // weights
};

template <class T, int D, Instance kInstance, class Sizes = Shape<D>, ScoreModifier kOnly = ScoreModifier::several>
__global__ void __launch_bounds__(Forward<T, D, kInstance, Sizes, kOnly>::kThreads, 1)
    attend_kernel(const __grid_constant__ ForwardArguments arguments) {
  using Kernel = Forward<T, D, kInstance, Sizes, kOnly>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Kernel::run(arguments, *reinterpret_cast<typename Kernel::Shared*>(memory));
}

}  // namespace polyhead::cuda::sm90
