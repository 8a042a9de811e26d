// The kernels of a device, one entry per op: where a call meets its device. Everything is resolved and checked except
// the values of tensors; an entry reads and writes only memory of its executor's device.
#pragma once

#include "core/executor.h"
#include "kernels/adamw.h"
#include "kernels/append.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/sample.h"

namespace polyhead::kernels {

struct Table {
  // Whether products, norms, elementwise ops and what is added to a product take a float type per tensor, so that the
  // blocks of an f32 model can hand 16 bits to each other. Else 16 bits are for attention, weights and tables alone.
  bool mixes_types = false;
  // Whether products and look-ups take weights as they are stored, in 16 bits or in blocks, beside rows of f32. Else
  // the weights of a model that is loaded become of the rows' type, or the context's precision rounds them.
  bool widens_weights = false;
  // Do its kernels run on the processors of the host, which the host's own work then takes from them?
  bool takes_processors = false;
  // Whether exact products are faster with a B that is packed.
  bool gains_by_packing = true;
  // Can a call count dropout from an origin in a larger one?
  bool counts_dropout_from_origin = true;

  // Attention. check_attention checks the values of lengths, bias, sinks and target keys and throws, or has
  // Executor::synchronise throw; it runs before attend and attend_backward, when nothing has been written yet.
  void (*check_attention)(Executor&, std::string_view op, const AttentionProblem&);
  void (*attend)(Executor&, const AttentionProblem&);
  void (*attend_backward)(Executor&, const AttentionGradientProblem&);
  std::string (*explain)(Executor&, const AttentionProblem&);
  void (*append)(Executor&, const AppendProblem&);

  // Products.
  void (*gemm)(Executor&, const GemmProblem&);
  // Returns false, and does nothing, where other kernels are faster or needed; null on a device where they always are.
  bool (*gemv)(Executor&, const GemvProblem&) = nullptr;
  // Packs B [K,N]: as it is for exact products, in bf16 for coarse ones. Then A must be bf16 too, unless the result's
  // `rounds` says that the kernel rounds it.
  PackedMatrix (*pack)(Executor&, const ConstTensorView& b, Products);
  // sums [N] = the sum of the rows of x [M,N], whose columns have stride 1; sums are contiguous, of x's type or f32.
  // rounded, absent or [M,N] row-major: receives x, which is then f32 and row-major too, in 16 bits.
  void (*column_sums)(Executor&, const ConstTensorView& x, const TensorView& sums, const TensorView& rounded);

  // Rows and elements. round: to <- from, f32 tensors to 16-bit ones of one type and the same shapes, row-major.
  void (*round)(Executor&, std::span<const ConstTensorView> from, std::span<const TensorView> to);
  void (*elementwise)(Executor&, const ElementwiseProblem&);
  // y [M,F] = f(a) b for x [M,2F] = [a | b], f being silu(a) = a / (1 + e^-a) or GPT-2's GELU.
  void (*gate)(Executor&, Gate, const ConstTensorView& x, const TensorView& y);
  void (*gate_backward)(Executor&, Gate, const ConstTensorView& x, const ConstTensorView& dy, const TensorView& dx);
  // y [M,C] = x [M,C] + row [C]; y may be x.
  void (*add_row)(Executor&, const ConstTensorView& x, const ConstTensorView& row, const TensorView& y);
  void (*normalise)(Executor&, const NormProblem&);
  void (*normalise_backward)(Executor&, const NormGradientProblem&);
  void (*drop)(Executor&, const DropoutProblem&);
  void (*rotate)(Executor&, const RotaryProblem&);
  // to <- from, of one shape and any strides; of one type, or f32 and a 16-bit float type, rounded to nearest even.
  void (*copy)(Executor&, const ConstTensorView& from, const TensorView& to);

  // Tables and losses. Indices, lengths and classes out of range are reported as check_attention reports values. pool:
  // y [B,C] = the mean of x [B,T,C] over the first lengths [B] tokens, or all if absent.
  void (*embed)(Executor&, const EmbeddingProblem&);
  void (*embed_backward)(Executor&, const EmbeddingGradientProblem&);
  void (*pool)(Executor&, const ConstTensorView& x, const ConstTensorView& lengths, const TensorView& y);
  void (*pool_backward)(Executor&, const ConstTensorView& dy, const ConstTensorView& lengths, const TensorView& dx);
  void (*cross_entropy)(Executor&, const CrossEntropyProblem&);
  void (*sample)(Executor&, std::string_view op, const SampleProblem&);

  // Training. sums [n] f64 = the sum of the squares of each tensor's elements, with the same bits every time.
  void (*adamw)(Executor&, const AdamWProblem&);
  void (*sums_of_squares)(Executor&, std::span<const ConstTensorView>, const TensorView& sums);
};

}  // namespace polyhead::kernels
