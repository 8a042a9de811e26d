// Attention as the contract states it: plain loops in double, every option, its own masks. Slow and obvious on purpose;
// it is the oracle of every backend and shares nothing with them. Arguments have been checked by ops.
#pragma once

#include "polyhead/attention.h"

namespace polyhead::reference {

void attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
            const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs);

void attend_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                     const AttentionOptions& options, const UpstreamGradients& upstream, const GradientWants& wants,
                     const ForwardResults& forward, const AttentionGradientOutputs& outputs);

}  // namespace polyhead::reference
