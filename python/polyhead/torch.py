"""Polyhead under PyTorch: differentiable attention, and a drop-in for torch.nn.MultiheadAttention.

>>> import torch, polyhead.torch
>>> attention = polyhead.torch.MultiheadAttention(64, 8, batch_first=True)  # takes the state dict of nn.MultiheadAttention
>>> x = torch.randn(2, 16, 64)
>>> output, weights = attention(x, x, x)
>>> output, _, statistics = attention(x, x, x, need_weights=False, statistics="light")
>>> statistics.entropy.shape
(8,)

A row that may attend to nothing gives 0 (in torch NaN, if weights are wanted). Weights are those before dropout.
"""

import functools
import re
from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import CausalBias, CausalVariant

from . import _attention, _provider  # noqa: F401: the latter tells torch about us
from ._attention import Attention, Options
from ._autograd import NOTHING_ELSE, attend, attend_plain, is_traced
from ._errors import DTypeError, Error, InvalidValueError, LayoutError, ShapeError, UnsupportedError
from ._kinds_of_tensors import expect_numbers
from ._library import native
from ._numbers import flag, is_zero
from ._products import weights_of
from ._statistics import HeadStatistics

def _draw_seed():
    """A seed from torch's own generator, so that torch.manual_seed decides. Under torch.compile a tensor, drawn in every run."""
    drawn = torch.randint(2**63 - 1, (), dtype=torch.int64)
    return drawn if torch.compiler.is_compiling() else int(drawn)


def _expect_tensors(query, key, value, **optional):
    needed = {"query": query, "key": key, "value": value}
    for name, x in (*needed.items(), *optional.items()):
        if x is None and name in optional:
            continue
        if not isinstance(x, Tensor):
            raise DTypeError(f"{name}: expected a tensor of torch, found {type(x).__name__}")
        if type(x) is not Tensor or x.is_nested:
            expect_numbers(x, name)
        if x.layout is not torch.strided:
            raise LayoutError(f"{name}: expected a dense tensor, found {x.layout}; use to_dense()")


def _truth(value, name):
    """Of whatever Python takes for one, as in torch.nn.MultiheadAttention."""
    try:
        return bool(value)
    except (RuntimeError, TypeError, ValueError):
        raise DTypeError(f"{name}: expected True or False, found {type(value).__name__}") from None


def _by_names_of_torch(error, mask):
    """The same, with the names that its arguments have there."""
    names = {"q": "query", "k": "key", "v": "value", "keep": mask, "bias": mask, "dropout": "dropout_p", "causal": "is_causal"}
    return type(error)(re.sub(r"\b(q|k|v|keep|bias|dropout|causal)\b", lambda found: names[found[0]], str(error)))


def _attention_of(q, k, v, mask, *, gates=None, weights=False, statistics=None, **options):
    """`mask` is what keep and bias came from, for messages."""
    more = weights or statistics is not None
    try:
        if not more and gates is None:
            return Attention(attend_plain(q, k, v, options))
        found = attend(q, k, v, Options(gates=gates, **options), None, more,
                       **{**NOTHING_ELSE, "weights": weights, "statistics": statistics})
        return found if more else Attention(found)
    except Error as error:
        raise _by_names_of_torch(error, mask) from None


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False, *, gates: Optional[Tensor] = None,
                                 statistics: Optional[str] = None) -> Union[Tensor, Tuple[Tensor, HeadStatistics]]:
    """torch.nn.functional.scaled_dot_product_attention, with `gates` [H] or [B,H] and `statistics`.

    As there, a boolean attn_mask is True where a query may attend, one of torch.nn.attention.bias is causal from its corner, and
    is_causal begins at the top left. With statistics ("light" or "full") the result is a pair: the output and HeadStatistics.

    >>> q = torch.randn(1, 4, 16, 8)
    >>> scaled_dot_product_attention(q, q, q, is_causal=True).shape
    torch.Size([1, 4, 16, 8])
    >>> output, statistics = scaled_dot_product_attention(q, q, q, is_causal=True, statistics="light")
    >>> statistics.entropy.shape
    (4,)
    """
    if gates is statistics is None and type(query) is type(key) is type(value) is Tensor and not is_traced():
        try:
            found = native.sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        except Error as error:
            raise _by_names_of_torch(error, "attn_mask") from None
        if found is not None:  # as most calls are
            return found
    corner = attn_mask if isinstance(attn_mask, CausalBias) else None
    _expect_tensors(query, key, value, attn_mask=None if corner is not None else attn_mask, gates=gates)
    flag(is_causal, "is_causal"), flag(enable_gqa, "enable_gqa"), _attention.statistics_word(statistics)
    if is_causal and attn_mask is not None:
        raise InvalidValueError("scaled_dot_product_attention: expected attn_mask or is_causal, found both")
    if query.dim() < 2 or key.dim() != query.dim() or value.dim() != query.dim():
        raise ShapeError("scaled_dot_product_attention: expected query, key and value of the same rank from 2 on, found "
                         f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}")
    if query.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(query.device.type):
        query, key, value = (x.to(torch.get_autocast_dtype(query.device.type)) for x in (query, key, value))
    q, k, v = map(_four_axes, (query, key, value))
    if not enable_gqa and (q.shape[1] != k.shape[1] or k.shape[1] != v.shape[1]):
        raise ShapeError(
            f"scaled_dot_product_attention: expected as many key and value heads as query heads, found {k.shape[1]}, "
            f"{v.shape[1]} and {q.shape[1]}; enable_gqa=True shares them")
    align = "top_left" if is_causal or statistics else None
    masks = {}
    if corner is not None:
        align = _corner_of(corner, q, k)
    elif attn_mask is not None:
        masks = _attn_mask(attn_mask, query)
    drawn = {} if is_zero(dropout_p) else {"dropout": dropout_p, "seed": _draw_seed()}
    result = _attention_of(q, k, v, "attn_mask", scale=scale, causal=is_causal or corner is not None, align=align, gates=gates,
                           statistics=statistics, **masks, **drawn)
    output = result.output if query.dim() == 4 else result.output.reshape(*query.shape[:-1], result.output.shape[-1])
    return (output, result.statistics) if statistics else output


def _not_for_torchscript():
    raise UnsupportedError("torch.jit.script: expected code that TorchScript compiles, found polyhead.torch, which is Python and a custom "
                           "op; use torch.compile, torch.export or torch.jit.trace")


scaled_dot_product_attention.__prepare_scriptable__ = _not_for_torchscript  # type: ignore[attr-defined]


def _corner_of(bias, q, k):
    """Where the queries of a mask of torch.nn.attention.bias stand; there is nothing in its memory."""
    if (bias.seq_len_q, bias.seq_len_kv) != (q.shape[2], k.shape[2]):
        raise ShapeError(f"attn_mask: expected a CausalBias of {q.shape[2]} queries and {k.shape[2]} keys, found one of {bias.seq_len_q} "
                         f"and {bias.seq_len_kv}")
    return "top_left" if bias.variant == CausalVariant.UPPER_LEFT else "bottom_right"


def _attn_mask(mask, query):
    """The mask of scaled_dot_product_attention as `keep` or `bias`, with four axes."""
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise DTypeError(f"attn_mask: expected bool or a floating type, found {mask.dtype}")
    if mask.dim() > query.dim():
        raise ShapeError(f"attn_mask: expected up to {query.dim()} axes, as query has, found shape {tuple(mask.shape)}")
    name = "keep" if mask.dtype == torch.bool else "bias"
    mask = mask[(None,) * (query.dim() - mask.dim())]
    if query.dim() > 4:
        try:
            mask = mask.expand(*query.shape[:-2], *mask.shape[-2:])
        except RuntimeError:
            raise ShapeError(f"attn_mask: expected a shape that broadcasts to the {tuple(query.shape[:-2])} of query, found "
                             f"{tuple(mask.shape)}") from None
    return {name: _four_axes(mask)}


def _four_axes(x):
    """[..,T,D] as [B,H,T,D]: the axis before the last two is the heads'; with three axes it is the batch's."""
    if x.dim() == 4:
        return x
    if x.dim() == 2:
        return x[None, None]
    if x.dim() == 3:
        return x[:, None]
    return x.flatten(0, -4)


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention: the same arguments, shapes, masks, parameters and state dict.

    Beyond it, forward takes `gates` [heads] or [batch, heads], which scale each head's output (0 knocks a head out and
    costs nothing), and `statistics` ("light" or "full"), with which it returns a third result, HeadStatistics. Nothing
    of size T x S is stored unless weights are wanted.

    >>> attention, x = MultiheadAttention(32, 4, batch_first=True), torch.randn(2, 16, 32)
    >>> output, weights = attention(x, x, x, average_attn_weights=False)
    >>> output.shape, weights.shape
    (torch.Size([2, 16, 32]), torch.Size([2, 4, 16, 16]))
    >>> output, _ = attention(x, x, x, need_weights=False, gates=torch.tensor([1.0, 1, 0, 1]))  # head 2 is silent
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
                need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False, *, gates: Optional[Tensor] = None,
                statistics: Optional[str] = None) -> Tuple[Any, ...]:
        batched = self._check(query, key, value, key_padding_mask, attn_mask)
        need_weights, is_causal = _truth(need_weights, "need_weights"), _truth(is_causal, "is_causal")
        _attention.statistics_word(statistics)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if not batched:
            query, key, value = _unbatched(query, key, value)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask[None]
        tokens_first = batched and not self.batch_first  # [T,B,C]
        q, k, v = self._heads(query, key, value, tokens_first)
        causal = is_causal and key_padding_mask is None and not need_weights \
            or self._hides_the_future(attn_mask, q.shape[2], k.shape[2])
        masks = self._masks(None if causal else attn_mask, key_padding_mask, q, k.shape[2])
        k, v, masks = self._extra_keys(k, v, masks)
        dropout = self.dropout if self.training else 0.0
        drawn = {"dropout": dropout, "seed": _draw_seed()} if dropout > 0 else {}
        result = _attention_of(q, k, v, "key_padding_mask" if attn_mask is None else "attn_mask", causal=causal,
                               align="top_left" if causal or statistics else None, gates=gates, weights=need_weights and not q.is_cuda,
                               statistics=statistics, **masks, **drawn)
        order = (2, 0, 1, 3) if tokens_first else (0, 2, 1, 3)
        output = F.linear(result.output.permute(order).flatten(2), self.out_proj.weight, self.out_proj.bias)
        weights = weights_of(q, k, causal=causal, **masks) if need_weights and q.is_cuda else result.weights
        if need_weights and _truth(average_attn_weights, "average_attn_weights"):
            weights = weights.mean(1)
        if not batched:
            output = output.squeeze(0)
            weights = weights.squeeze(0) if need_weights else None
        return (output, weights, result.statistics) if statistics else (output, weights)

    def __prepare_scriptable__(self) -> Any:
        _not_for_torchscript()

    def _check(self, query, key, value, key_padding_mask, attn_mask):
        """Whether there is a batch; types of masks and shapes as torch checks them."""
        _expect_tensors(query, key, value, key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        for mask, name in ((key_padding_mask, "key_padding_mask"), (attn_mask, "attn_mask")):
            if mask is not None and mask.dtype != torch.bool and not mask.is_floating_point():
                raise AssertionError(f"only bool and floating types of {name} are supported, found {mask.dtype}")
        if query.dim() not in (2, 3):
            raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor")
        batched = query.dim() == 3
        if key.dim() != query.dim() or value.dim() != query.dim():
            kind = "batched (3-D)" if batched else "unbatched (2-D)"
            raise AssertionError(
                f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and "
                f"{value.dim()}-D tensors respectively")
        if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
            raise AssertionError(
                f"expected `key_padding_mask` to be `None` or {query.dim() - 1}-D but found {key_padding_mask.dim()}-D "
                "tensor instead")
        if attn_mask is not None and attn_mask.dim() not in (2, 3):
            raise AssertionError(f"expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead")
        if query.shape[-1] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")
        if key.shape[:-1] != value.shape[:-1]:
            raise AssertionError(
                f"key's sequence and batch dims {tuple(key.shape[:-1])} do not match value's {tuple(value.shape[:-1])}")
        return batched

    def _heads(self, query, key, value, tokens_first):
        """q, k and v as [B,H,*,D], views of the projections."""
        if self._qkv_same_embed_dim and query is key and key is value:
            packed = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            each = packed.view(*packed.shape[:2], 3, self.num_heads, self.head_dim).unbind(2)  # whose gradients are joined by one copy
            return tuple(_heads_first(x, tokens_first) for x in each)
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None,) * 3
        return tuple(_heads_first(F.linear(x, *parameters).unflatten(-1, (self.num_heads, -1)), tokens_first)
                     for x, *parameters in zip((query, key, value), weights, biases))

    def _masks(self, attn_mask, key_padding_mask, q, keys):
        """`keep` and `bias` of the two masks: there True means ignore."""
        batch, heads, queries, _ = q.shape
        masks = []
        if attn_mask is not None:
            expected = (queries, keys) if attn_mask.dim() == 2 else (batch * heads, queries, keys)
            if tuple(attn_mask.shape) != expected:
                raise RuntimeError(
                    f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {expected}.")
            masks.append(attn_mask[None, None] if attn_mask.dim() == 2 else attn_mask.view(batch, heads, queries, keys))
        if key_padding_mask is not None:
            if tuple(key_padding_mask.shape) != (batch, keys):
                raise AssertionError(
                    f"expecting key_padding_mask shape of {(batch, keys)}, but got {tuple(key_padding_mask.shape)}")
            masks.append(key_padding_mask[:, None, None, :])
        drop = [mask for mask in masks if mask.dtype == torch.bool]
        bias = [mask for mask in masks if mask.dtype != torch.bool]
        made = {}
        if drop:
            made["keep"] = ~(drop[0] | drop[1] if len(drop) == 2 else drop[0])
        if bias:
            made["bias"] = bias[0] + bias[1] if len(bias) == 2 else bias[0]
        return made

    def _hides_the_future(self, attn_mask, queries, keys):
        """Whether the mask says no more than `causal`, which does half the work. Keys that are added are seen by all."""
        if attn_mask is None or not attn_mask.is_cpu or attn_mask.requires_grad or tuple(attn_mask.shape) != (queries, keys):
            return False
        if queries != keys or self.bias_k is not None or self.add_zero_attn or torch.compiler.is_compiling():
            return False
        made = _causal_mask if queries <= 1024 else _causal_mask.__wrapped__  # large ones are not kept
        return torch.equal(attn_mask, made(queries, attn_mask.dtype))

    def _extra_keys(self, k, v, masks):
        """Keys that everybody sees: bias_k and bias_v, and zeros."""
        batch, heads, _, dim = k.shape
        extra = []
        if self.bias_k is not None:
            extra.append(tuple(x.to(k.dtype).view(1, heads, 1, dim).expand(batch, -1, -1, -1) for x in (self.bias_k, self.bias_v)))
        if self.add_zero_attn:
            extra.append((k.new_zeros(batch, heads, 1, dim),) * 2)
        if not extra:
            return k, v, masks
        k, v = (torch.cat([x, *more], 2) for x, more in zip((k, v), zip(*extra)))
        padded = {name: F.pad(mask, (0, len(extra)), value=name == "keep") for name, mask in masks.items()}
        return k, v, padded


@functools.lru_cache(4)
def _causal_mask(tokens, dtype):
    """As nn.MultiheadAttention takes it: True, or -inf, where a key comes after the query."""
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return future if dtype == torch.bool else torch.zeros(tokens, tokens, dtype=dtype).masked_fill(future, -torch.inf)


def _unbatched(query, key, value):
    """With a batch of one; what was the same stays the same."""
    one = query[None]
    two = one if key is query else key[None]
    return one, two, two if value is key else value[None]


def _heads_first(x, tokens_first):
    """[B,T,H,D], or [T,B,H,D], as [B,H,T,D]."""
    return x.permute(1, 2, 0, 3) if tokens_first else x.transpose(1, 2)
