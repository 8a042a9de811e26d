#include "reference/attention.h"

#include "reference/attention_in.h"

namespace polyhead::reference {

void attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
            const AttentionOptions& options, const AttentionWants& wants, const AttentionOutputs& outputs) {
  attend_in<Doubles>(q, k, v, options, wants, outputs);
}

void attend_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                     const AttentionOptions& options, const UpstreamGradients& upstream, const GradientWants& wants,
                     const ForwardResults& forward, const AttentionGradientOutputs& outputs) {
  attend_backward_in<Doubles>(q, k, v, options, upstream, wants, forward, outputs);
}

}  // namespace polyhead::reference
