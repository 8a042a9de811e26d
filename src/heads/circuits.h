// What a head would write if it looked at a token: the circuit through its values and W_O to the logits (Elhage et al.
// 2021, "OV").
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "model/head.h"
#include "model/transformer.h"

namespace polyhead::heads {

// Every token stands alone, so all weights lie on it. Heads of the first layer read its embedding, those above what the
// first layer makes of it: there a model often first says what a token means. What a head writes goes through the last
// norm to the logits by itself, without the rest of the stream, so only their order says something. `visit` receives
// the head's number in the order of model::all_heads and its logits, f32 [tokens, vocabulary] on the host.
//
// For a language model that adds to its stream what a head writes; throws Error (value) for one that norms it first.
void each_ov(Context& context, const model::Transformer& model, std::span<const std::int32_t> tokens,
             const std::function<void(std::size_t head, const ConstTensorView& logits)>& visit);

// What head h adds to the stream: o [..,H*D] times its columns of W_O [C,H*D], [..,C]. All f32 on the host.
Tensor written_by(std::int64_t h, const Tensor& o, const Tensor& weight, std::int64_t head_dim);

}  // namespace polyhead::heads
