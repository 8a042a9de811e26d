"""Polyhead in models of Hugging Face's transformers: attn_implementation="polyhead", and their heads made visible.

>>> import polyhead.transformers
>>> with polyhead.transformers.watch(model) as heads:  # or AutoModelForCausalLM.from_pretrained(.., attn_implementation="polyhead")
...     logits = model(tokens).logits
>>> len(heads), heads[0].entropy.shape  # entropy and the rest of every head of layer 0, without the T x T matrix
(2, (4,))
>>> with polyhead.transformers.knock_out(model, {(0, 1), (1, 3)}):
...     logits = model(tokens).logits
"""

import contextlib
import functools
import html
import sys
import weakref
from typing import Any, Iterable, Iterator, List, Tuple

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import (
    AttentionMaskInterface,
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
)

from ._attention import Options
from ._autograd import NOTHING_ELSE, attend, attend_plain
from ._errors import DTypeError, InvalidValueError, ShapeError, UnsupportedError
from ._mask import Mask, instead, refuse
from ._numbers import whole
from ._statistics import HeadStatistics
from .torch import _draw_seed

_NAME = "polyhead"
_states: Any = weakref.WeakKeyDictionary()  # by module of attention: what is asked of its heads


class _State:
    """What a module's heads are asked for and given."""

    def __init__(self):
        self.watchers = []  # lists that the statistics of every call are appended to
        self.gates = []  # tensors [heads], multiplied


# What models pass on to the attention of any name, and eager attention does not read: it changes no result.
_HARMLESS = frozenset("""input_ids position_ids cache_position use_cache return_dict output_hidden_states output_router_logits
                      num_items_in_batch cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k seq_idx deterministic""".split())


def _attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, softcap=None,
               sliding_window=None, s_aux=None, position_bias=None, output_attentions=False, **others):
    """query [B,H,T,D], key and value [B,G,S,D] -> [B,T,H,D]. The window is in the mask."""
    if output_attentions:
        raise InvalidValueError("polyhead does not return the weights of every head; watch() its heads, or use eager")
    for name, given in others.items():
        if name not in _HARMLESS and given is not None and given is not False:
            refuse(f"passes {name}= to its attention, which polyhead does not read")
    options = _mask_options(query, key, attention_mask, getattr(module, "is_causal", True) if is_causal is None else is_causal)
    options.update(scale=scaling, softcap=softcap or 0.0)
    if position_bias is not None:
        options["bias"] = position_bias + options["bias"] if "bias" in options else position_bias
    if s_aux is not None:
        options["sink_logit"] = s_aux.reshape(-1)
    if dropout > 0:
        options.update(dropout=dropout, seed=_draw_seed())
    state = _states.get(module)
    if state is not None and state.gates:
        gates = state.gates[0]
        for more in state.gates[1:]:
            gates = gates * more
        options["gates"] = gates
    if state is None or not state.watchers:
        return attend_plain(query, key, value, options).transpose(1, 2), None
    padding = _padding(attention_mask)
    result = attend(query, key, value, Options(**options), None, True,
                    **{**NOTHING_ELSE, "statistics": "light", "row_statistics": padding is not None})
    statistics = result.statistics if padding is None else _of_rows(result.row_statistics, padding[:, -query.shape[2] :])
    for found in state.watchers:
        found.append(statistics)
    return result.output.transpose(1, 2), None


def _mask_options(query, key, mask, is_causal):
    """The options that say who sees whom. A mask that a model made by itself is read as in scaled_dot_product_attention."""
    if mask is None:  # as there, the first query stands at the first key, and a single one sees all
        return {"causal": bool(is_causal) and query.shape[2] > 1, "align": "top_left"}
    seen = query.shape[0], query.shape[2], key.shape[2]
    if isinstance(mask, Mask):
        if (mask.shape[0], *mask.shape[2:]) != seen:
            refuse(f"attends with {seen[1]} queries to {seen[2]} keys in a batch of {seen[0]}, and its mask is of {tuple(mask.shape)}")
        options = {"causal": mask.causal, "window": mask.window, "align": "bottom_right"}
        return options if mask.keep is None else {**options, "keep": mask.keep}
    if not isinstance(mask, torch.Tensor):
        raise DTypeError(f"attention_mask: expected a tensor, found {type(mask).__name__}")
    if not 2 <= mask.dim() <= 4 or mask.dtype != torch.bool and not mask.is_floating_point():
        raise InvalidValueError("attention_mask: expected a tensor of bool or a floating type with 2 to 4 axes, found shape "
                                f"{tuple(mask.shape)} of {mask.dtype}")
    mask = mask[(None,) * (4 - mask.dim())]
    return {"keep" if mask.dtype == torch.bool else "bias": mask, "align": "bottom_right"}


def _padding(mask):
    """[B,S], False where a token is padding, if there is any."""
    return mask.keep[:, 0, 0] if isinstance(mask, Mask) and mask.keep is not None and mask.keep.shape[2] == 1 else None


def _of_rows(rows, there):
    """The statistics of the queries that are no padding, [B,T]."""
    highest = HeadStatistics.names.index("max_logit")
    sums = rows.sums.where(there[:, None, :, None], 0).sum(2)
    sums[..., highest] = rows.sums[..., highest].where(there[:, None, :], -torch.inf).amax(2)
    return HeadStatistics(sums)


def _window_of(mask_function, size):
    """(left, right) of a sliding window in a mask of transformers, whose size is known: chunks and others have none."""
    sees = lambda i, j: bool(mask_function(*map(torch.tensor, (0, 0, i, j))))  # noqa: E731
    if sees(size, 1) and not sees(size, 0) and not sees(0, 1):
        return size - 1, None
    if sees(size, 0) and not sees(size + 1, 0) and sees(0, size) and not sees(0, size + 1):
        return size, size
    return None


def _mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=causal_mask_function, attention_mask=None,
          local_size=None, allow_is_causal_skip=True, allow_is_bidirectional_skip=False, **kwargs):
    """A Mask of the padding, [B,S], and of what goes by positions; of all, [B,1,T,S], only for patterns of other kinds."""
    if isinstance(attention_mask, Mask):  # made for a model around this one
        return attention_mask
    device = kwargs.get("device", "cpu")
    shape = batch_size, 1, q_length, kv_length
    compiling = torch.compiler.is_compiling()
    causal, both_ways = mask_function is causal_mask_function, mask_function is bidirectional_mask_function
    window = None
    if not (causal or both_ways) and local_size is not None and not compiling and (allow_is_causal_skip or allow_is_bidirectional_skip):
        window = _window_of(mask_function, local_size)
    ends_together = not isinstance(q_offset, torch.Tensor) and q_offset + q_length == kv_offset + kv_length
    if not both_ways and not ((causal or window is not None) and ends_together):
        seen = sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                         mask_function=mask_function, attention_mask=attention_mask, local_size=local_size,
                         allow_is_causal_skip=False, **kwargs)
        return Mask(shape, seen, device)
    keep = None
    if attention_mask is not None:
        if attention_mask.dim() != 2 or attention_mask.shape[0] != batch_size or attention_mask.shape[1] < kv_offset + kv_length:
            raise ShapeError(f"attention_mask: expected [{batch_size}, {kv_offset + kv_length}], found {tuple(attention_mask.shape)}")
        padding = attention_mask[:, kv_offset : kv_offset + kv_length].bool()
        if compiling or not padding.all():
            keep = padding[:, None, None, :]
    return Mask(shape, keep, device, causal or window is not None and window[1] is None, window)


AttentionInterface.register(_NAME, _attention)
AttentionMaskInterface.register(_NAME, _mask)


def _own_attention(model):
    return (f"{type(model).__name__}: expected a model that leaves its attention to transformers' attention interface, found one that "
            f"computes it by itself; {instead(model)}")


_choose, _set = PreTrainedModel.get_correct_attn_implementation, PreTrainedModel.set_attn_implementation


def _expect_interface(model):
    """That it would call us."""
    tables = [x for x in vars(sys.modules[type(model).__module__]).values() if isinstance(x, dict) and "eager" in x]
    if not model._can_set_attn_implementation() or any(_NAME not in table for table in tables):
        raise UnsupportedError(_own_attention(model))


@functools.wraps(_choose)
def _choose_or_refuse(self, requested_attention, *args, **kwargs):
    """Asked when a model is made, before its layers are: one that would not call us is refused here, and not when it computes."""
    if requested_attention == _NAME:
        _expect_interface(self)
    return _choose(self, requested_attention, *args, **kwargs)


@functools.wraps(_set)
def _set_or_refuse(self, attn_implementation, *args, **kwargs):
    """Of a model that is there already transformers only warns, and goes on with what it had."""
    asked = _asked_of(self.config, attn_implementation)
    for model in self.modules():
        if isinstance(model, PreTrainedModel) and asked.get(id(model.config), asked[id(self.config)]) == _NAME:
            _expect_interface(model)
    return _set(self, attn_implementation, *args, **kwargs)


def _asked_of(config, asked):
    """What is asked of it and of each config within, by their ids: a name for all, or by the names of those within, "" its own."""
    by_name = isinstance(asked, dict)
    found = {id(config): asked.get("", config._attn_implementation) if by_name else asked}
    for name in config.sub_configs:
        inner = getattr(config, name)
        if inner is not None:
            found.update(_asked_of(inner, asked.get(name, inner._attn_implementation) if by_name else asked))
    return found


PreTrainedModel.get_correct_attn_implementation = _choose_or_refuse
PreTrainedModel.set_attn_implementation = _set_or_refuse


def _layers(model):
    """The model's modules of attention, in order."""
    if not getattr(model, "_supports_attention_backend", False):
        raise InvalidValueError("model: expected one of transformers that uses its attention interface, found "
                                f"{type(model).__name__}, which does not")
    found = [module for module in model.modules() if hasattr(module, "is_causal") and hasattr(module, "config")]
    if not found:
        raise InvalidValueError("model: expected modules of attention that take an attn_implementation, found none in "
                                f"{type(model).__name__}")
    return found


@contextlib.contextmanager
def _switched(model):
    """With polyhead as its attention; afterwards with what it had."""
    layers = _layers(model)
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}.values()
    before = [(config, config._attn_implementation) for config in configs]
    try:
        if any(name != _NAME for _, name in before):
            _set(model, _NAME)
        if not any(module.config._attn_implementation == _NAME for module in layers):  # which it only warns of
            raise UnsupportedError(_own_attention(model))
        yield layers
    finally:
        for config, name in before:
            config._attn_implementation = name


@contextlib.contextmanager
def watch(model: Any) -> Iterator["Watched"]:
    """Collects the statistics of every head during ordinary forward passes, at any length, in O(T) memory.

    Yields heads: heads[layer] is the HeadStatistics of that layer, over all passes so far.

    >>> with torch.no_grad(), watch(model) as heads:
    ...     logits = model(tokens).logits
    >>> heads[1].rows.tolist() == [tokens.numel()] * 4
    True
    """
    with _switched(model) as layers:
        heads = Watched(len(layers))
        for layer, module in enumerate(layers):
            _states.setdefault(module, _State()).watchers.append(heads.calls[layer])
        try:
            yield heads
        finally:
            for layer, module in enumerate(layers):
                watchers = _states[module].watchers
                watchers[:] = [calls for calls in watchers if calls is not heads.calls[layer]]


class Watched:
    """The HeadStatistics of each layer: heads[layer]; None for a layer that has not run.

    Printed, it is a table for every layer; a notebook shows them folded.
    """

    def __init__(self, layers: int) -> None:
        self.calls: List[List[HeadStatistics]] = [[] for _ in range(layers)]

    def __len__(self) -> int:
        return len(self.calls)

    def __getitem__(self, layer: int) -> Any:
        if not -len(self) <= whole(layer, "layer") < len(self):
            raise IndexError(f"layer: expected 0 to {len(self) - 1}, found {layer}")
        calls = self.calls[layer]
        if not calls:
            return None
        total = _over_batch(calls[0])
        for more in calls[1:]:
            total = total + _over_batch(more)
        return total

    def __str__(self) -> str:
        return "\n".join(f"layer {layer}\n{self[layer]}" for layer in range(len(self)) if self.calls[layer])

    def __repr__(self) -> str:
        return f"Watched({len(self)} layers, {sum(map(bool, self.calls))} of which ran)"

    def _repr_html_(self) -> str:
        """A table of every layer that ran, behind the range of its heads' entropies."""
        parts = []
        for layer in range(len(self)):
            found = self[layer]
            if found is not None:
                said = f"layer {layer}: entropy {found.entropy.min():.2f} to {found.entropy.max():.2f} nats"
                parts.append(f"<details><summary>{said}</summary>{found._repr_html_()}</details>")
        return "".join(parts) or f"<p>{html.escape(repr(self))}</p>"


def _over_batch(statistics):
    """[1,H,fields], so that batches of different sizes add."""
    return HeadStatistics(statistics._totals()[None])


@contextlib.contextmanager
def knock_out(model: Any, heads: Iterable[Tuple[int, int]]) -> Iterator[Any]:
    """The model without these heads, (layer, head) each: their output is 0, and they cost nothing.

    >>> whole = model(tokens).logits
    >>> with knock_out(model, {(0, 1), (1, 3)}):
    ...     torch.equal(model(tokens).logits, whole)
    False
    """
    with _switched(model) as layers:
        gates = {}
        for layer, head in _pairs(heads):
            if not 0 <= layer < len(layers):
                raise InvalidValueError(f"knock_out: expected a layer from 0 to {len(layers) - 1}, found {layer}")
            if layer not in gates:
                gates[layer] = _open_gates(layers[layer])
            if not 0 <= head < len(gates[layer]):
                raise InvalidValueError(
                    f"knock_out: expected a head from 0 to {len(gates[layer]) - 1} in layer {layer}, found {head}")
            gates[layer][head] = 0
        with _gated(layers, gates):
            yield model


def _pairs(heads):
    """(layer, head) of each, in order."""
    try:
        pairs = [(layer, head) for layer, head in heads]
    except (TypeError, ValueError):
        raise DTypeError(f"heads: expected pairs (layer, head), found {heads!r}") from None
    return sorted((whole(layer, "heads: a layer"), whole(head, "heads: a head")) for layer, head in pairs)


@contextlib.contextmanager
def gates(model: Any) -> Iterator[List[torch.Tensor]]:
    """Yields the gates of all heads: for each layer a tensor [heads] of ones, which gradients flow into.

    After a backward pass |gate.grad| says how much the loss depends on each head: its importance.

    >>> with gates(model) as made:
    ...     model(tokens, labels=tokens).loss.backward()
    >>> [gate.grad.abs().shape for gate in made]
    [torch.Size([4]), torch.Size([4])]
    """
    with _switched(model) as layers:
        made = [_open_gates(module).requires_grad_() for module in layers]
        with _gated(layers, dict(enumerate(made))):
            yield made


def _open_gates(module):
    """A 1 for every head, where the module is."""
    heads = getattr(module, "num_heads", None) or getattr(module, "num_attention_heads", None) or module.config.num_attention_heads
    parameter = next(module.parameters())
    dtype = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    return torch.ones(heads, device=parameter.device, dtype=dtype)


@contextlib.contextmanager
def _gated(layers, gates):
    placed = []
    try:
        for layer, gate in gates.items():
            state = _states.setdefault(layers[layer], _State())
            state.gates.append(gate)
            placed.append((state, gate))
        yield
    finally:
        for state, gate in placed:
            state.gates[:] = [other for other in state.gates if other is not gate]
