// dk and dv of heads of 256, as gradient.cuh makes those of narrower ones. Each of the two sums over 64 keys fills the
// registers of a warpgroup, so the consumers share the work instead of the keys: one computes p = 2^(K Q^T - lse) and
// dv += gate p dO; the other computes dp = V dO^T, takes p from the first through shared memory, and makes dk += ds Q.
#pragma once

#include "cuda/device/barrier.cuh"
#include "cuda/device/tma.cuh"
#include "cuda/device/wgmma.cuh"
#include "cuda/sm90/gradient_options.cuh"
#include "cuda/sm90/gradient_walk.cuh"

namespace polyhead::cuda::sm90 {

template <class T, bool kGeneral>
class WideKeyGradient {
 public:
  static constexpr int D = 256, kOwn = 64, kOther = 64, kStages = 2, kThreads = 3 * kWarpgroup;

  struct Shared {
    // Tiles of 64 columns each.
    alignas(1024) T k[D / 64][kOwn * 64];
    alignas(1024) T v[D / 64][kOwn * 64];
    alignas(1024) T q[kStages][D / 64][kOther * 64];
    alignas(1024) T doutput[kStages][D / 64][kOther * 64];
    float p[kOther / 2][kWarpgroup];  // as the first consumer has it; with options p times slope, negative if dropped
    alignas(16) float lse[kStages][kOther], delta[kStages][kOther];
    device::Barrier own_full, rows_full[kStages], rows_empty[kStages], q_full[kStages], q_empty[kStages],
        do_full[kStages], do_empty[kStages], p_full, p_empty;
    GradientTile tile;
  };

  __device__ static void run(const GradientArguments& a, Shared& shared) {
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    if (threadIdx.x == 0) {
      shared.tile = gradient_tile<true, kOwn, kOther>(a, static_cast<int>(blockIdx.x));
      initialise(shared);
    }
    __syncthreads();
    if (!shared.tile.exists) return;
    if (warpgroup == 0) {
      device::release_registers<24>();
      if (threadIdx.x == 0) produce(a, shared);
      if (threadIdx.x / 32 == 1)
        bring_rows<true, kOther>(a, shared.tile, shared.lse, shared.delta, shared.rows_full, shared.rows_empty);
    } else {
      device::claim_registers<240>();
      WideKeyGradient consumer(a, shared);
      warpgroup == 1 ? consumer.consume<false>() : consumer.consume<true>();
    }
  }

 private:
  using Walk = GradientWalk<true, kOther>;

  __device__ static void initialise(Shared& shared) {
    shared.own_full.initialise(1);
    for (int i = 0; i < kStages; ++i) {
      for (device::Barrier* full : {&shared.q_full[i], &shared.do_full[i]}) full->initialise(1);
      shared.rows_full[i].initialise(32);
      shared.rows_empty[i].initialise(2 * kWarpgroup);
      for (device::Barrier* empty : {&shared.q_empty[i], &shared.do_empty[i]}) empty->initialise(8);
    }
    for (device::Barrier* p : {&shared.p_full, &shared.p_empty}) p->initialise(kWarpgroup);
    device::fence_barrier_init();
  }

  __device__ static void produce(const GradientArguments& a, Shared& shared) {
    const GradientTile& tile = shared.tile;
    shared.own_full.arrive_expecting(sizeof shared.k + sizeof shared.v);
    load_lines(shared.k, a.own_qk, tile.place, tile.kv_head, tile.batch, shared.own_full, device::Keep::first_out);
    load_lines(shared.v, a.own_vdo, tile.place, tile.kv_head, tile.batch, shared.own_full, device::Keep::first_out);
    Walk walk{a, tile};
    for (Count count = 0; walk.next(); ++count) {
      const int stage = count % kStages, row = tile.other_begin + walk.line();
      shared.q_empty[stage].await(empty_parity<kStages>(count));
      shared.q_full[stage].arrive_expecting(sizeof shared.q[0]);
      load_lines(shared.q[stage], a.other_qk, row, walk.head, tile.batch, shared.q_full[stage], device::Keep::last_out);
      shared.do_empty[stage].await(empty_parity<kStages>(count));
      shared.do_full[stage].arrive_expecting(sizeof shared.doutput[0]);
      load_lines(shared.doutput[stage], a.other_vdo, row, walk.head, tile.batch, shared.do_full[stage],
                 device::Keep::last_out);
    }
  }

  __device__ WideKeyGradient(const GradientArguments& a, Shared& shared)
      : a_(a), shared_(shared), thread_(static_cast<int>(threadIdx.x) % kWarpgroup) {}

  __device__ int line() const { return thread_ / 32 * 16 + thread_ % 32 / 4; }

  static constexpr int kCleaned = 1;  // named barriers, one for each consumer

  // The first consumer (kGradient false) multiplies K Q^T and sums with dO, the second multiplies V dO^T and sums with
  // Q.
  template <bool kGradient>
  __device__ void consume() {
    clear(sums_);
    shared_.own_full.await(0);
    for (Walk walk{a_, shared_.tile}; walk.next(); ++count_) {
      await_block<kGradient>(walk);
      device::mma_fence();
      issue_product<kGradient>();
      device::mma_wait<0>();
      kGeneral ? find_general_operand<kGradient>(walk) : find_operand<kGradient>(walk);
      to_operand(!kGeneral ? walk.gate : kGradient ? 1.f : walk.gate * a_.options.kept_factor);
      device::mma_fence();
      issue_sum<kGradient>();
      device::mma_wait<0>();
      device::pin(sums_);
      release(shared_.q_empty[count_ % kStages]);
      release(shared_.do_empty[count_ % kStages]);
    }
    store_lines<T, true>(shared_.tile, line(), sums_, kGradient ? a_.first : a_.second, kGradient ? a_.scale : 1.f);
  }

  template <bool kGradient>
  __device__ void await_block(const Walk& walk) const {
    const int stage = count_ % kStages;
    shared_.rows_full[stage].await(full_parity<kStages>(count_));
    shared_.q_full[stage].await(full_parity<kStages>(count_));
    shared_.do_full[stage].await(full_parity<kStages>(count_));
    const bool hides = kGeneral && a_.options.seen != nullptr;
    if (!hides && !shared_.tile.needs_cleaning(walk.line(), kOther)) return;
    const auto hidden = [&](int n) { return hides && shared_.lse[stage][n] == INFINITY; };
    shared_.tile.clean(shared_.q[stage], walk.line(), thread_, hidden);
    shared_.tile.clean(shared_.doutput[stage], walk.line(), thread_, hidden);
    device::fence_async_proxy();
    device::named_sync(kCleaned + kGradient, kWarpgroup);
  }

  template <bool kGradient>
  __device__ void issue_product() {
    const int stage = count_ % kStages;
    const std::uint64_t left = device::describe_rows(kGradient ? shared_.v : shared_.k);
    const std::uint64_t right = device::describe_rows(kGradient ? shared_.doutput[stage] : shared_.q[stage]);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      constexpr int kTileBytes = 64 * device::kTileRowBytes;
      const std::uint32_t at = d / 4 * kTileBytes + d % 4 * 32;
      device::mma_shared<T, kOther>(x_, device::advance(left, at), device::advance(right, at), d > 0);
    }
    device::mma_commit();
  }
  template <bool kGradient>
  __device__ void issue_sum() {
    const int stage = count_ % kStages;
    const std::uint64_t right =
        device::describe_columns(kGradient ? shared_.q[stage] : shared_.doutput[stage], kOther * device::kTileRowBytes);
#pragma unroll
    for (int j = 0; j < kOther / 16; ++j) {
      device::mma_registers<T, D>(sums_, operand_[j], device::advance(right, j * 16 * device::kTileRowBytes), true);
    }
    device::mma_commit();
  }

  // K Q^T becomes p, and V dO^T becomes ds.
  template <bool kGradient>
  __device__ void find_operand(const Walk& walk) {
    const int stage = count_ % kStages, column = thread_ % 4 * 2;
    const bool open = shared_.tile.is_open(walk.line());
    const HiddenPairs<true> hidden(a_.reach, shared_.tile, line(), walk.line() + column);
    device::pin(x_);
    if constexpr (kGradient) shared_.p_full.await(full_parity<1>(count_));
#pragma unroll
    for (int j = 0; j < kOther / 8; ++j) {
      const float2 known =
          *reinterpret_cast<const float2*>(&(kGradient ? shared_.delta : shared_.lse)[stage][column + 8 * j]);
#pragma unroll
      for (int i = 4 * j; i < 4 * j + 4; ++i) {
        const float of_row = i % 2 == 0 ? known.x : known.y;
        if constexpr (kGradient) {
          x_[i] = shared_.p[i][thread_] * (x_[i] - of_row);
        } else {
          x_[i] = exp2_of(fmaf(x_[i], a_.scale_log2, -of_row));
        }
      }
    }
    shared_.rows_empty[stage].arrive();
    if (!open) hidden.clear(x_);
    if constexpr (kGradient) {
      shared_.p_empty.arrive();
    } else {
      shared_.p_empty.await(empty_parity<1>(count_));
#pragma unroll
      for (int i = 0; i < kOther / 2; ++i) shared_.p[i][thread_] = x_[i];
      shared_.p_full.arrive();
    }
  }

  // The same with the score modifiers. The sign of p in shared memory says whether dropout keeps the weight.
  template <bool kGradient>
  __device__ void find_general_operand(const Walk& walk) {
    const int stage = count_ % kStages, column = thread_ % 4 * 2;
    const GradientOptions<T, true, kOther> options{a_, shared_.tile, walk.head, shared_.tile.line + line(),
                                                   walk.line() + column};
    device::pin(x_);
    if constexpr (kGradient) {
      const float gate = walk.gate * a_.options.kept_factor;
      shared_.p_full.await(full_parity<1>(count_));
#pragma unroll
      for (int i = 0; i < kOther / 2; ++i) {
        const float p = shared_.p[i][thread_], delta = shared_.delta[stage][column + options.column(i)];
        const float ds = fabsf(p) * ((signbit(p) || gate == 0 ? 0.f : __fmul_rn(gate, x_[i])) - delta);
        x_[i] = p != 0 ? ds : 0.f;  // what is hidden may hold NaN
      }
      shared_.rows_empty[stage].arrive();
      shared_.p_empty.arrive();
    } else {
      const std::uint32_t kept = options.kept();
      options.finish(x_, operand_, shared_.tile.is_open(walk.line()));
      shared_.p_empty.await(empty_parity<1>(count_));
#pragma unroll
      for (int i = 0; i < kOther / 2; ++i) {
        const float2 slopes = options.slopes_of(operand_, i / 2);
        const float p = weight_of(x_[i] - shared_.lse[stage][column + options.column(i)]);
        // What is hidden may hold NaN, and then its slope is NaN as well.
        const float sloped = p != 0 ? p * (i % 2 == 0 ? slopes.x : slopes.y) : 0.f;
        shared_.p[i][thread_] = options.is_kept(kept, i) ? sloped : -sloped;
        x_[i] = options.is_kept(kept, i) ? p : 0.f;
      }
      shared_.rows_empty[stage].arrive();
      shared_.p_full.arrive();
    }
  }

  __device__ void to_operand(float gate) {
    if (gate != 1) {
#pragma unroll
      for (int i = 0; i < kOther / 2; ++i) x_[i] *= gate;
    }
#pragma unroll
    for (int i = 0; i < kOther / 4; ++i) operand_[i / 4][i % 4] = pack_operand<T>(x_[2 * i], x_[2 * i + 1]);
  }

  const GradientArguments& a_;
  Shared& shared_;
  const int thread_;
  Count count_ = 0;                        // blocks so far
  float x_[kOther / 2], sums_[D / 2];      // as wgmma has them
  std::uint32_t operand_[kOther / 16][4];  // gate p, or ds
};

template <class T, bool kGeneral>
__global__ void __launch_bounds__(WideKeyGradient<T, kGeneral>::kThreads, 1)
    wide_key_gradient_kernel(const __grid_constant__ GradientArguments arguments) {
  using Kernel = WideKeyGradient<T, kGeneral>;
  extern __shared__ __align__(1024) unsigned char memory[];
  Kernel::run(arguments, *reinterpret_cast<typename Kernel::Shared*>(memory));
}

}  // namespace polyhead::cuda::sm90
