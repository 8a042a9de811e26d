"""torch's own scaled_dot_product_attention computed here, on the CPU, for who asks torch for it.

>>> import torch, polyhead.torch
>>> torch.nn.attention.activate_flash_attention_impl("polyhead")  # where torch has that function
>>> torch.nn.attention.restore_flash_attention_impl()
"""

import warnings
from typing import Any, Tuple

import torch
from torch import Tensor

from . import _attention
from ._attention import Options

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"


def _options(is_causal, attn_mask, scale):
    """torch has made a boolean mask into one that is added."""
    bias = None if attn_mask is None else attn_mask[(None,) * (4 - attn_mask.dim())]
    return Options(scale=scale, causal=is_causal, align="top_left", bias=bias)


def _as_torch_lays_it(x):
    """[B,H,T,..] with the tokens before the heads in memory, as torch.compile expects of these ops."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _forward(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
             attn_mask: Any = None, scale: Any = None) -> Tuple[Tensor, Tensor]:
    result = _attention.attend(query, key, value, _options(is_causal, attn_mask, scale), torch.empty_like(query),
                               lse=True)
    return result.output, _as_torch_lays_it(result.lse)


def _backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, logsumexp: Tensor, dropout_p: float,
              is_causal: bool, *, attn_mask: Any = None, scale: Any = None) -> Tuple[Tensor, ...]:
    found = _attention.backward(query, key, value, grad_out, _options(is_causal, attn_mask, scale),
                                out, logsumexp.contiguous())
    return tuple(map(_as_torch_lays_it, (found.dq, found.dk, found.dv)))


class _Active:
    """What torch holds until it is to compute by itself again."""

    def __init__(self):
        self.library = torch.library.Library("aten", "IMPL", "CPU")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch had kernels of its own is what this is about
            self.library.impl(_FORWARD, _forward, "CPU")
            self.library.impl(_FORWARD + "_backward", _backward, "CPU")

    def remove(self):
        self.library._destroy()


if hasattr(torch.nn.attention, "register_flash_attention_impl"):
    torch.nn.attention.register_flash_attention_impl("polyhead", register_fn=_Active)  # type: ignore[arg-type]
