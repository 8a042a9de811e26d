"""Weights of attention by torch's own products and softmax.

On a GPU these have tensor cores, which our weights and their gradients have not: several times faster for whoever wants the
T x S matrix anyway. Short steps wait for the host there, so each op that is spared counts.
"""

import torch


def weights_of(q, k, *, keep=None, bias=None, causal=False):
    """[B,H,T,S] of q [B,H,T,D] and k [B,H,S,D], with gradients; 0 in a row that sees nothing. causal counts from the first key."""
    logits = q * q.shape[-1] ** -0.5 @ k.transpose(2, 3)
    if bias is not None:
        logits = logits + bias
    hidden = None if keep is None else ~keep
    if causal:
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        hidden = future if hidden is None else hidden | future
    if bias is None:
        if hidden is None:
            return logits.softmax(-1)
        if keep is None:  # every row sees the first key
            return logits.masked_fill(hidden, -torch.inf).softmax(-1)
        # A finite number: no NaN in a row that sees nothing. What is hidden elsewhere has become 0 by itself.
        return logits.masked_fill(hidden, torch.finfo(logits.dtype).min).softmax(-1).masked_fill(hidden, 0)
    if hidden is not None:
        logits = logits.masked_fill(hidden, -torch.inf)
    blind = (logits == -torch.inf).all(-1, keepdim=True)  # a bias may hide, too
    return logits.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
