// Attention backward on Hopper, by the formulas of portable/gradient_mma.cuh. One kernel, two roles: a block of threads
// owns queries and makes their dq, or keys and makes their dk and dv, and walks over blocks of the other side:
//   s = own_qk other_qk^T     dp = own_vdo other_vdo^T     p = 2^(s - lse)     ds = p (dp - delta)
//   queries own q and dO, the others are k and v:    dq += ds k
//   keys own k and v, the others are q and dO:       dk += ds q     dv += p dO      (p, ds transposed)
// A gate multiplies dq at the end, and the p of keys, which heads with other gates may share. (With score modifiers
// there may be a dlse beside it: there ds = p (gate dp - delta).)
// So qk is the q of queries or the k of keys, vdo the dO of queries or the v of keys, and dqk is dq or dk.
// No sums cross blocks of threads, so that the bits are the same every time, at the price of seven products instead of
// five: s and dp are computed twice. A producer brings the blocks, and warpgroups of consumers own 64 lines each: while
// one finds p and ds, another has the tensor cores.
#pragma once

#include "cuda/device/barrier.cuh"
#include "cuda/device/tma.cuh"
#include "cuda/device/wgmma.cuh"
#include "cuda/portable/balance.cuh"
#include "cuda/sm90/gradient_options.cuh"
#include "cuda/sm90/gradient_walk.cuh"
#include "cuda/sm90/schedule.cuh"
#include "cuda/sm90/softmax.cuh"

namespace polyhead::cuda::sm90 {

// kConsumers: warpgroups. kOther: lines of a block of the other side. kStagesQk, kStagesVdo: blocks of other_qk and
// other_vdo under way. kAhead: does S of a block begin before the sums of the last? That hides latency, and takes
// registers that the other shapes have no room for, or need for larger blocks, which bring more there.
template <int D, bool kOfKeys>
struct GradientShape;
template <>
struct GradientShape<64, false> {
  static constexpr int kConsumers = 3, kOther = 64, kStagesQk = 4, kStagesVdo = 4;
  static constexpr bool kAhead = true;
};
template <>
struct GradientShape<64, true> {
  static constexpr int kConsumers = 2, kOther = 128, kStagesQk = 2, kStagesVdo = 2;
  static constexpr bool kAhead = false;
};
template <>
struct GradientShape<128, false> {
  static constexpr int kConsumers = 2, kOther = 128, kStagesQk = 2, kStagesVdo = 2;
  static constexpr bool kAhead = false;
};
template <>
struct GradientShape<128, true> {
  static constexpr int kConsumers = 2, kOther = 80, kStagesQk = 3, kStagesVdo = 3;
  static constexpr bool kAhead = false;
};
template <>
struct GradientShape<256, false> {
  static constexpr int kConsumers = 2, kOther = 64, kStagesQk = 2, kStagesVdo = 1;
  static constexpr bool kAhead = false;
};

// The shape of the general instance.
template <int D>
struct GeneralGradientShape {
  static constexpr int kConsumers = 2, kOther = 64, kStagesQk = 2, kStagesVdo = D == 256 ? 1 : 2;
  static constexpr bool kAhead = false;
};

template <class T, int D, bool kOfKeys, bool kGeneral>
class Gradient {
  using Sizes = std::conditional_t<kGeneral, GeneralGradientShape<D>, GradientShape<D, kOfKeys>>;

 public:
  static constexpr int kConsumers = Sizes::kConsumers, kOwn = 64 * kConsumers, kOther = Sizes::kOther;
  static constexpr int kThreads = kWarpgroup * (1 + kConsumers);

  struct Shared {
    // Tiles of 64 columns each.
    alignas(1024) T own_qk[D / 64][kOwn * 64];
    alignas(1024) T own_vdo[D / 64][kOwn * 64];
    alignas(1024) T other_qk[Sizes::kStagesQk][D / 64][kOther * 64];
    alignas(1024) T other_vdo[Sizes::kStagesVdo][D / 64][kOther * 64];
    alignas(16) float lse[Sizes::kStagesQk][kOther], delta[Sizes::kStagesQk][kOther];  // of the other side's queries
    portable::HeaviestKey heaviest[kOfKeys ? 1 : kOwn];                                // of own queries
    device::Barrier own_full, rows_full[Sizes::kStagesQk], rows_empty[Sizes::kStagesQk];
    device::Barrier full_qk[Sizes::kStagesQk], empty_qk[Sizes::kStagesQk];
    device::Barrier full_vdo[Sizes::kStagesVdo], empty_vdo[Sizes::kStagesVdo];
    GradientTile tile;
  };

  __device__ static void run(const GradientArguments& a, Shared& shared) {
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    if (threadIdx.x == 0) {
      shared.tile = gradient_tile<kOfKeys, kOwn, kOther>(a, static_cast<int>(blockIdx.x));
      initialise(shared);
    }
    __syncthreads();
    if (!shared.tile.exists) return;
    if (warpgroup == 0) {
      device::release_registers<kConsumers == 2 ? 24 : 32>();
      if (threadIdx.x == 0) produce(a, shared);
      if (kOfKeys && threadIdx.x / 32 == 1) {
        bring_rows<kOfKeys, kOther>(a, shared.tile, shared.lse, shared.delta, shared.rows_full, shared.rows_empty);
      }
    } else {
      device::claim_registers<kConsumers == 2 ? 240 : 160>();
      Gradient(a, shared, warpgroup - 1).consume();
    }
  }

 private:
  using Walk = GradientWalk<kOfKeys, kOther>;

  __device__ static void initialise(Shared& shared) {
    shared.own_full.initialise(1);
    for (int i = 0; i < Sizes::kStagesQk; ++i) {
      shared.full_qk[i].initialise(1);
      shared.rows_full[i].initialise(32);
      shared.rows_empty[i].initialise(kConsumers * kWarpgroup);
      shared.empty_qk[i].initialise(4 * kConsumers);
    }
    for (int i = 0; i < Sizes::kStagesVdo; ++i) {
      shared.full_vdo[i].initialise(1);
      shared.empty_vdo[i].initialise(4 * kConsumers);
    }
    device::fence_barrier_init();
  }

  // ---- producer: one thread brings tiles, and a warp lse and delta of their rows

  __device__ static void produce(const GradientArguments& a, Shared& shared) {
    const GradientTile& tile = shared.tile;
    shared.own_full.arrive_expecting(sizeof shared.own_qk + sizeof shared.own_vdo);
    const int own_head = kOfKeys ? tile.kv_head : tile.head;
    load_lines(shared.own_qk, a.own_qk, tile.place, own_head, tile.batch, shared.own_full, device::Keep::first_out);
    load_lines(shared.own_vdo, a.own_vdo, tile.place, own_head, tile.batch, shared.own_full, device::Keep::first_out);
    Walk walk{a, tile};
    for (Count count = 0; walk.next(); ++count) {
      const int head = kOfKeys ? walk.head : tile.kv_head, row = tile.other_begin + walk.line();
      const int stage_qk = count % Sizes::kStagesQk, stage_vdo = count % Sizes::kStagesVdo;
      shared.empty_qk[stage_qk].await(empty_parity<Sizes::kStagesQk>(count));
      shared.full_qk[stage_qk].arrive_expecting(sizeof shared.other_qk[0]);
      load_lines(shared.other_qk[stage_qk], a.other_qk, row, head, tile.batch, shared.full_qk[stage_qk],
                 device::Keep::last_out);
      shared.empty_vdo[stage_vdo].await(empty_parity<Sizes::kStagesVdo>(count));
      shared.full_vdo[stage_vdo].arrive_expecting(sizeof shared.other_vdo[0]);
      load_lines(shared.other_vdo[stage_vdo], a.other_vdo, row, head, tile.batch, shared.full_vdo[stage_vdo],
                 device::Keep::last_out);
    }
  }

  // ---- consumers: a warpgroup each

  __device__ Gradient(const GradientArguments& a, Shared& shared, int consumer)
      : a_(a), shared_(shared), consumer_(consumer), thread_(static_cast<int>(threadIdx.x) % kWarpgroup) {}

  // Line r of this thread's two, counted within the tile.
  __device__ int line_of(int r) const { return 64 * consumer_ + thread_ / 32 * 16 + thread_ % 32 / 4 + 8 * r; }

  __device__ int stage_qk() const { return static_cast<int>(count_ % Sizes::kStagesQk); }
  __device__ int stage_vdo() const { return static_cast<int>(count_ % Sizes::kStagesVdo); }

  __device__ void consume() {
    clear(sums_dqk_);
    clear(sums_dv_);
    if constexpr (!kOfKeys) {
      balance_.begin();
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = shared_.tile.line + line_of(r);
        const bool exists = row < shared_.tile.lines;
        const std::int64_t at = a_.row(shared_.tile.batch, shared_.tile.head, shared_.tile.own_begin + row);
        lse_[r] = exists ? a_.lse[at] : INFINITY;
        delta_[r] = exists && own_gate() != 0 ? a_.delta[at] / own_gate() : 0.f;
      }
    }
    shared_.own_full.await(0);
    for (Walk walk{a_, shared_.tile}; walk.next();) {
      const bool plain = !kGeneral && walk.n == shared_.tile.plain_first && shared_.tile.plain_count > 0;
      const int count = plain ? shared_.tile.plain_count : 1;
      int line = walk.line();
      if constexpr (Sizes::kAhead) {
        steps_ahead(walk, line, count);
      } else if (plain) {
        for (int n = 0; n < count; ++n, line -= kOther) step<true>(walk, line);
      } else {
        step<false>(walk, line);
      }
      walk.n += count - 1;
    }
    if constexpr (!kOfKeys) repair_rows();
    store_lines<T, kOfKeys>(shared_.tile, line_of(0), sums_dqk_, a_.first, kOfKeys ? a_.scale : a_.scale * own_gate());
    if constexpr (kOfKeys) store_lines<T, kOfKeys>(shared_.tile, line_of(0), sums_dv_, a_.second, 1);
  }
  // The gate of own queries, where it is taken out of the sums.
  __device__ float own_gate() const {
    return kGeneral ? 1.f : a_.gates.at(shared_.tile.sequence, shared_.tile.head, 1);
  }

  // The block of the other side from `line` on. kPlain: it needs neither a mask nor cleaning.
  template <bool kPlain>
  __device__ __forceinline__ void step(const Walk& walk, int line) {
    await_block();
    if constexpr (!kPlain) clean(walk.head, line);
    issue_products();
    if constexpr (kGeneral) {
      find_general_gradient(walk);
    } else {
      find_gradient<kPlain, 0>(walk.gate, line);
      to_operands();
    }
    device::mma_fence();
    issue_sums(stage_qk(), stage_vdo());
    finish_sums(stage_qk(), stage_vdo());
    ++count_;
  }

  // A block, and count - 1 plain ones that follow it, each begun before the sums of the last.
  __device__ __forceinline__ void steps_ahead(const Walk& walk, int line, int count) {
    await_block();
    clean(walk.head, line);
    issue_products();
    find_gradient<false, 0>(walk.gate, line);
    to_operands();
    for (int n = 1; n < count; ++n) {
      const int last_qk = stage_qk(), last_vdo = stage_vdo();
      ++count_;
      await_block();
      issue_products();
      issue_sums(last_qk, last_vdo);
      find_gradient<true, kSums>(walk.gate, line - n * kOther);
      finish_sums(last_qk, last_vdo);
      to_operands();
    }
    device::mma_fence();
    issue_sums(stage_qk(), stage_vdo());
    finish_sums(stage_qk(), stage_vdo());
    ++count_;
  }

  __device__ void await_block() const {
    if constexpr (kOfKeys) shared_.rows_full[stage_qk()].await(full_parity<Sizes::kStagesQk>(count_));
    shared_.full_qk[stage_qk()].await(full_parity<Sizes::kStagesQk>(count_));
    shared_.full_vdo[stage_vdo()].await(full_parity<Sizes::kStagesVdo>(count_));
  }
  __device__ void issue_products() {
    device::mma_fence();
    issue_product(s_, shared_.own_qk, shared_.other_qk[stage_qk()]);
    issue_product(dp_, shared_.own_vdo, shared_.other_vdo[stage_vdo()]);
  }
  static constexpr int kSums = kOfKeys ? 2 : 1;
  __device__ void issue_sums(int stage_qk, int stage_vdo) {
    if constexpr (kOfKeys) issue_sum(sums_dv_, p_, shared_.other_vdo[stage_vdo]);
    issue_sum(sums_dqk_, ds_, shared_.other_qk[stage_qk]);
  }
  __device__ void finish_sums(int stage_qk, int stage_vdo) {
    device::mma_wait<0>();
    device::pin(sums_dqk_);
    if constexpr (kOfKeys) device::pin(sums_dv_);
    release(shared_.empty_qk[stage_qk]);
    if constexpr (kOfKeys) release(shared_.empty_vdo[stage_vdo]);
  }

  // S = own_qk other_qk^T, dP = own_vdo other_vdo^T.
  __device__ void issue_product(float (&to)[kOther / 2], const T (&own)[D / 64][kOwn * 64],
                                const T (&other)[D / 64][kOther * 64]) {
    const std::uint64_t left = device::describe_rows(&own[0][consumer_ * 64 * 64]);
    const std::uint64_t right = device::describe_rows(other);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      constexpr int kOwnTile = kOwn * device::kTileRowBytes, kOtherTile = kOther * device::kTileRowBytes;
      device::mma_shared<T, kOther>(to, device::advance(left, d / 4 * kOwnTile + d % 4 * 32),
                                    device::advance(right, d / 4 * kOtherTile + d % 4 * 32), d > 0);
    }
    device::mma_commit();
  }
  // dq += dS K, or dk += dS^T Q and dv += P^T dO.
  __device__ void issue_sum(float (&to)[D / 2], const std::uint32_t (&weights)[kOther / 16][4],
                            const T (&other)[D / 64][kOther * 64]) {
    const std::uint64_t right = device::describe_columns(other, kOther * device::kTileRowBytes);
#pragma unroll
    for (int j = 0; j < kOther / 16; ++j) {
      device::mma_registers<T, D>(to, weights[j], device::advance(right, j * 16 * device::kTileRowBytes), true);
    }
    device::mma_commit();
  }

  // S becomes P, times the gate for keys, and dP becomes dS, while kBehind sums are still under way.
  template <bool kPlain, int kBehind>
  __device__ __forceinline__ void find_gradient(float gate, int line) {
    const int stage = stage_qk(), column = thread_ % 4 * 2;
    device::mma_wait<1 + kBehind>();
    device::pin(s_);
#pragma unroll
    for (int j = 0; j < kOther / 8; ++j) {
      const float2 lse = kOfKeys ? *reinterpret_cast<const float2*>(&shared_.lse[stage][column + 8 * j]) : float2{};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float &x = s_[4 * j + 2 * r], &y = s_[4 * j + 2 * r + 1];
        x = exp2_of(fmaf(x, a_.scale_log2, kOfKeys ? -lse.x : -lse_[r]));
        y = exp2_of(fmaf(y, a_.scale_log2, kOfKeys ? -lse.y : -lse_[r]));
      }
    }
    const bool open = kPlain || shared_.tile.is_open(line);
    const auto hide = [&](float(&x)[kOther / 2]) {
      HiddenPairs<kOfKeys>(a_.reach, shared_.tile, line_of(0), line + column).clear(x);
    };
    if constexpr (kOfKeys) {
      if (gate != 1) {
#pragma unroll
        for (int i = 0; i < kOther / 2; ++i) s_[i] *= gate;
      }
    } else {
      if (!open) hide(s_);
      balance_.seek(reinterpret_cast<Pairs>(s_), line + column);
    }
    device::mma_wait<kBehind>();
    device::pin(dp_);
    if constexpr (!kOfKeys) release(shared_.empty_vdo[stage_vdo()]);
#pragma unroll
    for (int j = 0; j < kOther / 8; ++j) {
      const float2 delta = kOfKeys ? *reinterpret_cast<const float2*>(&shared_.delta[stage][column + 8 * j]) : float2{};
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float &x = dp_[4 * j + 2 * r], &y = dp_[4 * j + 2 * r + 1];
        x = s_[4 * j + 2 * r] * (x - (kOfKeys ? delta.x : delta_[r]));
        y = s_[4 * j + 2 * r + 1] * (y - (kOfKeys ? delta.y : delta_[r]));
      }
    }
    if constexpr (kOfKeys) shared_.rows_empty[stage].arrive();
    if (!open) {
      if constexpr (kOfKeys) hide(s_);
      hide(dp_);
    }
    if constexpr (!kOfKeys) {
      balance_.add(
          reinterpret_cast<Pairs>(dp_), [](int, int) { return 1.f; }, rounded);
    }
  }
  // A thread's numbers of a block, as portable/balance.cuh counts them.
  using Pairs = const float (&)[kOther / 8][4];
  __device__ static float rounded(float x) { return static_cast<float>(T(x)); }

  __device__ void to_operands() {
#pragma unroll
    for (int i = 0; i < kOther / 4; ++i) {
      if constexpr (kOfKeys) p_[i / 4][i % 4] = pack_operand<T>(s_[2 * i], s_[2 * i + 1]);
      ds_[i / 4][i % 4] = pack_operand<T>(dp_[2 * i], dp_[2 * i + 1]);
    }
  }

  // S becomes P and dP becomes dS, with the score modifiers, both packed as operands. ds_ holds softcap's slopes until
  // dS is there.
  __device__ void find_general_gradient(const Walk& walk) {
    const int stage = stage_qk(), column = thread_ % 4 * 2;
    const GradientOptions<T, kOfKeys, kOther> options{a_, shared_.tile, walk.head, shared_.tile.line + line_of(0),
                                                      walk.line() + column};
    std::uint32_t kept = options.kept();
    const float gate = walk.gate * a_.options.kept_factor;
    device::mma_wait<1>();
    device::pin(s_);
    options.finish(s_, ds_, shared_.tile.is_open(walk.line()));
#pragma unroll
    for (int i = 0; i < kOther / 2; ++i) {
      s_[i] = weight_of(s_[i] - (kOfKeys ? shared_.lse[stage][column + options.column(i)] : lse_[i / 2 % 2]));
    }
    if constexpr (!kOfKeys) balance_.seek(reinterpret_cast<Pairs>(s_), walk.line() + column);
    if constexpr (kOfKeys) {
#pragma unroll
      for (int i = 0; i < kOther / 2; i += 2) {
        p_[i / 8][i / 2 % 4] = pack_operand<T>(options.is_kept(kept, i) ? gate * s_[i] : 0.f,
                                               options.is_kept(kept, i + 1) ? gate * s_[i + 1] : 0.f);
      }
    }
    device::mma_wait<0>();
    device::pin(dp_);
    if constexpr (!kOfKeys) {
      release(shared_.empty_vdo[stage_vdo()]);
      if (a_.dots != nullptr) {
#pragma unroll
        for (int i = 0; i < kOther / 2; ++i) {
          dots_[i / 2 % 2] += options.is_kept(kept, i) && s_[i] != 0 ? s_[i] * dp_[i] : 0.f;
        }
      }
    }
    if (gate == 0) kept = 0;  // a factor of 0 would not hide a NaN
#pragma unroll
    for (int i = 0; i < kOther / 2; ++i) {
      const float delta = kOfKeys ? shared_.delta[stage][column + options.column(i)] : delta_[i / 2 % 2];
      // What is hidden may hold NaN.
      dp_[i] = s_[i] != 0 ? s_[i] * ((options.is_kept(kept, i) ? __fmul_rn(gate, dp_[i]) : 0.f) - delta) : 0.f;
    }
    if constexpr (kOfKeys) shared_.rows_empty[stage].arrive();
    if constexpr (!kOfKeys) {
      const auto slope_of = [&](int n, int k) {
        const float2 slopes = options.slopes_of(ds_, 2 * n + k / 2);
        return k % 2 == 0 ? slopes.x : slopes.y;
      };
      balance_.add(reinterpret_cast<Pairs>(dp_), slope_of, rounded);
    }
    if (a_.options.softcap > 0) {
#pragma unroll
      for (int i = 0; i < kOther / 4; ++i) {
        const float2 slopes = options.slopes_of(ds_, i);  // NaN where what is hidden is
        ds_[i / 4][i % 4] = pack_operand<T>(s_[2 * i] != 0 ? dp_[2 * i] * slopes.x : 0.f,
                                            s_[2 * i + 1] != 0 ? dp_[2 * i + 1] * slopes.y : 0.f);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kOther / 4; ++i) ds_[i / 4][i % 4] = pack_operand<T>(dp_[2 * i], dp_[2 * i + 1]);
    }
  }

  // Puts dq right where delta was not, and delta for the kernels that follow (portable/balance.cuh); stores dO . o of
  // own queries if it is wanted.
  __device__ void repair_rows() {
    const GradientTile& tile = shared_.tile;
    const float sink = a_.sink_logit != nullptr ? a_.sink_logit[tile.head * a_.sink_head] * kLog2E : -INFINITY;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = tile.line + line_of(r), query = tile.own_begin + row;
      const bool exists = row < tile.lines;
      const std::int64_t at = a_.row(tile.batch, tile.head, query);
      if constexpr (kGeneral) {
        const float dot = device::quad_sum(dots_[r]) * a_.options.kept_factor;
        if (a_.dots != nullptr && exists && thread_ % 4 == 0) a_.dots[at] = dot;
      }
      const bool sees = exists && lse_[r] != INFINITY;
      const float dlse =
          sees && a_.dlse.data != nullptr ? a_.dlse.data[a_.dlse.offset(tile.batch, tile.head, query)] : 0.f;
      const float p_sink = sees ? exp2_of(sink - lse_[r]) : 0.f;
      const portable::DeltaRepair repair = balance_.finish(r, delta_[r], dlse, p_sink, 1);
      if (!sees) continue;
      if (thread_ % 4 == 0) a_.delta[at] = delta_[r] + repair.error;
      if (repair.heaviest >= 0) take_from_dq(r, repair);
    }
  }
  __device__ void take_from_dq(int r, const portable::DeltaRepair& repair) {
    const GradientTile& tile = shared_.tile;
    const T* key = static_cast<const T*>(a_.k.data) +
                   a_.k.offset(tile.batch, tile.kv_head, tile.other_begin + repair.heaviest) + thread_ % 4 * 2;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float2 pair = widen<T>(*reinterpret_cast<const std::uint32_t*>(key + 8 * j));
      sums_dqk_[4 * j + 2 * r] = fmaf(-repair.excess, pair.x, sums_dqk_[4 * j + 2 * r]);
      sums_dqk_[4 * j + 2 * r + 1] = fmaf(-repair.excess, pair.y, sums_dqk_[4 * j + 2 * r + 1]);
    }
  }

  // A factor of 0 does not hide a NaN: lines that do not exist, or are hidden from all, are set to 0 before they are
  // multiplied. Every consumer writes the same zeros.
  __device__ void clean(int head, int line) const {
    const int stage = stage_qk();
    const bool hides = kGeneral && a_.options.seen != nullptr;
    if (!hides && !shared_.tile.needs_cleaning(line, kOther)) return;
    const auto hidden = [&](int n) {
      if (!hides || line + n >= shared_.tile.other_lines) return false;
      if constexpr (kOfKeys) return shared_.lse[stage][n] == INFINITY;
      return !a_.options.is_seen(shared_.tile.batch, head, shared_.tile.other_begin + line + n);
    };
    shared_.tile.clean(shared_.other_qk[stage], line, thread_, hidden);
    shared_.tile.clean(shared_.other_vdo[stage_vdo()], line, thread_, hidden);
    device::fence_async_proxy();
    device::named_sync(1 + kConsumers + consumer_, kWarpgroup);
  }

  const GradientArguments& a_;
  Shared& shared_;
  const int consumer_, thread_;
  Count count_ = 0;                             // blocks so far
  float lse_[2], delta_[2], dots_[2] = {0, 0};  // of own queries
  portable::RowBalance balance_{&shared_.heaviest[kOfKeys ? 0 : line_of(0) / 16 * 16]};
  float s_[kOther / 2], dp_[kOther / 2];                  // as wgmma has them; then p and ds
  std::uint32_t p_[kOther / 16][4], ds_[kOther / 16][4];  // as operands
  float sums_dqk_[D / 2], sums_dv_[kOfKeys ? D / 2 : 1];
};

template <class T, int D, bool kOfKeys, bool kGeneral>
__global__ void __launch_bounds__(Gradient<T, D, kOfKeys, kGeneral>::kThreads, 1)
    gradient_kernel(const __grid_constant__ GradientArguments arguments) {
  using Kernel = Gradient<T, D, kOfKeys, kGeneral>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Kernel::run(arguments, *reinterpret_cast<typename Kernel::Shared*>(memory));
}

}  // namespace polyhead::cuda::sm90
