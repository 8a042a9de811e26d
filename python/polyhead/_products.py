"""Weights of attention by torch's own products and softmax.

On a GPU these have tensor cores, which our weights and their gradients have not: several times faster for whoever wants the
T x S matrix anyway.
"""

import torch


def weights_of(q, k, *, keep=None, bias=None, causal=False):
    """[B,H,T,S] of q [B,H,T,D] and k [B,H,S,D], with gradients; 0 in a row that sees nothing. causal counts from the first key."""
    logits = q * q.shape[-1] ** -0.5 @ k.transpose(2, 3)
    if bias is not None:
        logits = logits + bias
    if causal:
        seen = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        keep = seen if keep is None else keep & seen
    if keep is not None:
        logits = logits.masked_fill(~keep, -torch.inf)
    elif bias is None:
        return logits.softmax(-1)
    blind = (logits == -torch.inf).all(-1, keepdim=True)
    return logits.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
