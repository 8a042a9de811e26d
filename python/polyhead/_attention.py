"""Attention that shows its heads."""

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ._errors import DTypeError, InvalidValueError, ShapeError
from ._library import FULL_STATISTICS, LIGHT_STATISTICS, Arena, function, pointers
from ._numbers import flag, number, whole
from ._statistics import HeadStatistics
from ._tensors import as_array, context_of, empty, is_torch, tensor

Array = Any  # of NumPy or PyTorch, or with DLPack
UNLIMITED = 2**63 - 1
_ALIGN = {None: 0, "top_left": 1, "bottom_right": 2}
_STAGES = {None: 0, "scaled": 1, "capped": 2, "biased": 3}
_SETS = {None: 0, "light": LIGHT_STATISTICS, "full": FULL_STATISTICS}

_attend = pointers(function("polyhead_attend"), 6)
_backward = pointers(function("polyhead_attend_backward"), 7)
_explain = pointers(function("polyhead_explain"), 7)


class Window(NamedTuple):
    """Key j is in the window of the query at position p if p - left <= j <= p + right, or j < always_first.

    None stands for no limit.
    """

    left: Optional[int] = None
    right: Optional[int] = None
    always_first: int = 0


# polyhead_attention_options, polyhead_attention_results, polyhead_attention_upstream and polyhead_attention_gradients.
_OPTIONS = struct.Struct("<QQdii" + "Q" * 13 + "dQ")
_RESULTS = struct.Struct("<Q" + "Q" * 10 + "i4xQQ")
_UPSTREAM = struct.Struct("<6Q")
_GRADIENTS = struct.Struct("<7Q")
_DOUBLE, _INT64, _WINDOW = struct.Struct("<d"), struct.Struct("<q"), struct.Struct("<3q")

OPTION_TENSORS = "keep bias alibi key_lengths key_start query_lengths cu_q cu_k sink_logit gates".split()


def _word(table, word, name):
    if word is None or isinstance(word, str) and word in table:
        return table[word]
    words = ", ".join(repr(known) for known in table)
    raise InvalidValueError(f"{name}: expected one of {words}, found {word!r}")


def statistics_word(word):
    """0, 1 or 2 for None, "light" and "full"."""
    return (0, LIGHT_STATISTICS, FULL_STATISTICS).index(_word(_SETS, word, "statistics"))


@dataclass
class Options:
    """The options of the attention contract; docs/semantics.md says what each means."""

    scale: Optional[float] = None
    softcap: float = 0.0
    align: Optional[str] = None
    first_position: Union[int, Any, None] = None
    causal: bool = False
    window: Optional[Tuple] = None
    keep: Any = None
    bias: Any = None
    alibi: Any = None
    key_lengths: Any = None
    key_start: Any = None
    query_lengths: Any = None
    cu_q: Any = None
    cu_k: Any = None
    sink_logit: Any = None
    gates: Any = None
    dropout: float = 0.0
    seed: int = 0

    def pack(self, arena):
        """The address of a polyhead_attention_options."""
        scale = first = window = 0
        if self.scale is not None:
            scale = arena.pack(_DOUBLE, number(self.scale, "scale"))
        positions = self.first_position
        if positions is not None and not getattr(positions, "shape", ()):
            first, positions = arena.pack(_INT64, whole(positions, "first_position")), None
        if self.window is not None:
            limits = window_of(self.window)
            window = arena.pack(
                _WINDOW,
                *(UNLIMITED if side is None else whole(side, "window") for side in limits[:2]),
                whole(limits.always_first, "window.always_first"),
            )
        seed = whole(self.seed, "seed", 0, 2**64 - 1)
        tensors = [tensor(arena, positions, "first_position")] + [tensor(arena, getattr(self, name), name) for name in OPTION_TENSORS]
        return arena.pack(
            _OPTIONS,
            _OPTIONS.size,
            scale,
            number(self.softcap, "softcap"),
            _word(_ALIGN, self.align, "align"),
            flag(self.causal, "causal"),
            first,
            tensors[0],
            window,
            *tensors[1:],
            number(self.dropout, "dropout"),
            seed,
        )


_NONE = Options()


def window_of(window):
    try:
        return Window(*window)
    except TypeError:
        raise InvalidValueError(f"window: expected (left, right) or (left, right, always_first), found {window!r}") from None


@dataclass
class Attention:
    """What attention() was asked for; the rest is None."""

    output: Any
    lse: Any = None  # [B,H,T]: log of the denominator
    weights: Any = None  # [B,heads,rows,S]
    logits: Any = None  # shaped like weights
    statistics: Optional[HeadStatistics] = None
    row_statistics: Optional[HeadStatistics] = None


@dataclass
class Gradients:
    """What attention_backward() returns; those of what was not given are None."""

    dq: Any
    dk: Any
    dv: Any
    dbias: Any = None
    dsink_logit: Any = None
    dgates: Any = None  # per sequence, [B,H]


def _sizes(q, k, v):
    """B, H, T, S, E, as far as the shapes allow; the library checks them."""
    try:
        batch, heads, queries, _ = q.shape
        _, _, keys, _ = k.shape
        _, _, _, value_dim = v.shape
        return batch, heads, queries, keys, value_dim
    except (AttributeError, TypeError, ValueError):
        pass
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        if not hasattr(x, "shape"):
            raise DTypeError(f"{name}: expected an array (NumPy, PyTorch or with DLPack), found {type(x).__name__}")
        if len(x.shape) != 4:
            raise ShapeError(f"{name}: expected 4 axes (batch, heads, tokens, dim), found shape {tuple(x.shape)}")
    raise ShapeError(f"expected q, k and v of 4 axes, found {q.shape}, {k.shape} and {v.shape}")


def _sequences(options, batch):
    """How many rows statistics and gradients of gates have: one for each sequence."""
    if options.cu_q is None:
        return batch
    if len(getattr(options.cu_q, "shape", ())) != 1:
        raise ShapeError(f"cu_q: expected an array of one axis, found {options.cu_q!r}")
    return max(options.cu_q.shape[0] - 1, 0)


def _longest(options, keys):
    if options.cu_k is None:
        return keys
    offsets = np.asarray(options.cu_k.cpu() if is_torch(options.cu_k) else options.cu_k)
    return int(np.diff(offsets).max(initial=0))


def _chosen(arena, values, name):
    if values is None:
        return 0, 0, None
    chosen = np.asarray(values)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise ShapeError(f"{name}: expected a list of at least one whole number, found {chosen.dtype} of shape {chosen.shape}")
    if chosen.min() < 0 or chosen.max() >= 2**31:
        raise InvalidValueError(f"{name}: expected numbers from 0 on, of 31 bits, found {chosen.min()} to {chosen.max()}")
    chosen = np.ascontiguousarray(chosen, np.int32)
    return arena.array(chosen), chosen.size, chosen.size


def attend(q, k, v, options=_NONE, output=None, lse=False, weights=False, heads=None, rows=None, weights_f32=False,
           logits=None, statistics=None, row_statistics=False, marked_keys=None, target_keys=None):
    """attention() with its options as one object; always returns an Attention."""
    q, k, v = as_array(q), as_array(k), as_array(v)
    batch, head_count, queries, keys, value_dim = _sizes(q, k, v)
    arena = Arena()
    inputs = tensor(arena, q, "q"), tensor(arena, k, "k"), tensor(arena, v, "v")
    result = Attention(empty(q, (batch, head_count, queries, value_dim)) if output is None else output)
    if lse:
        result.lse = empty(q, (batch, head_count, queries), "stat")
    heads_at, heads_n, head_shape = _chosen(arena, heads, "heads")
    rows_at, rows_n, row_shape = _chosen(arena, rows, "rows")
    matrix = None
    if weights or logits:
        matrix = (batch, head_shape or head_count, row_shape or queries, _longest(options, keys))
    if weights:
        result.weights = empty(q, matrix, "stat" if weights_f32 else None)
    if logits:
        result.logits = empty(q, matrix, "stat")
    fields = _word(_SETS, statistics, "statistics")
    if row_statistics and not fields:
        raise InvalidValueError('row_statistics: expected statistics="light" or "full" with them, found None')
    sums = empty(q, (_sequences(options, batch), head_count, fields), "stat") if fields else None
    row_sums = empty(q, (batch, head_count, queries, fields), "stat") if row_statistics else None
    results = arena.pack(
        _RESULTS,
        _RESULTS.size,
        tensor(arena, result.output, "output", writable=True),
        tensor(arena, result.lse, "lse"),
        tensor(arena, result.weights, "weights"),
        tensor(arena, result.logits, "logits"),
        tensor(arena, sums, "statistics"),
        tensor(arena, row_sums, "row_statistics"),
        heads_at,
        rows_at,
        heads_n,
        rows_n,
        _word(_STAGES, logits, "logits"),
        tensor(arena, marked_keys, "marked_keys"),
        tensor(arena, target_keys, "target_keys"),
    )
    _attend(
        context_of(q),
        *inputs,
        0 if options is _NONE else options.pack(arena),
        results,
    )
    if sums is not None:
        result.statistics = HeadStatistics(sums)
    if row_sums is not None:
        result.row_statistics = HeadStatistics(row_sums)
    return result


def attention(q: Array, k: Array, v: Array, *, scale: Optional[float] = None, softcap: float = 0.0,
              align: Optional[str] = None, first_position: Union[int, Array, None] = None, causal: bool = False,
              window: Optional[Tuple] = None, keep: Optional[Array] = None, bias: Optional[Array] = None,
              alibi: Optional[Array] = None, key_lengths: Optional[Array] = None, key_start: Optional[Array] = None,
              query_lengths: Optional[Array] = None, cu_q: Optional[Array] = None, cu_k: Optional[Array] = None,
              sink_logit: Optional[Array] = None, gates: Optional[Array] = None, dropout: float = 0.0, seed: int = 0,
              out: Optional[Array] = None, lse: bool = False, weights: bool = False, heads: Optional[Sequence[int]] = None,
              rows: Optional[Sequence[int]] = None, weights_f32: bool = False, logits: Optional[str] = None,
              statistics: Optional[str] = None, row_statistics: bool = False, marked_keys: Optional[Array] = None,
              target_keys: Optional[Array] = None) -> Union[Array, Attention]:
    """Attention of q [B,H,T,D] over k [B,G,S,D] and v [B,G,S,E], in O(T) memory.

    Returns the output [B,H,T,E]; or, if more is wanted, an Attention with it:

    lse             the log of each row's denominator
    weights         the softmax weights, of all or of the chosen `heads` and `rows`
    logits          "scaled", "capped" or "biased": the logits after that step, of the same heads and rows
    statistics      "light" or "full": what each head did (HeadStatistics), without the weights ever being stored

    Masks have names, so that none can be mistaken: `keep` is True where a query may attend (what `attn_mask` of
    torch.nn.MultiheadAttention is False for), `bias` is added to the logits, -inf hides. `causal` and `window` go by
    positions; where T != S, `align` ("top_left" or "bottom_right") or `first_position` says where the queries stand.
    `gates` [H] or [B,H] scales the output of each head; one with gate 0 costs nothing.

    >>> import numpy as np, polyhead
    >>> x = np.random.default_rng(0).standard_normal((1, 4, 16, 8), dtype=np.float32)
    >>> polyhead.attention(x, x, x, causal=True).shape
    (1, 4, 16, 8)
    >>> polyhead.attention(x, x, x, causal=True, statistics="light").statistics.entropy.shape
    (4,)
    """
    if causal is not False:
        flag(causal, "causal")
    if not (lse is weights is weights_f32 is row_statistics is False and logits is statistics is None):
        for value, name in ((lse, "lse"), (weights, "weights"), (weights_f32, "weights_f32"), (row_statistics, "row_statistics")):
            flag(value, name)
        _word(_STAGES, logits, "logits")
        _word(_SETS, statistics, "statistics")
    if scale is None and softcap == 0 and align is None and first_position is None and not causal and window is None \
            and keep is None and bias is None and alibi is None and key_lengths is None and key_start is None \
            and query_lengths is None and cu_q is None and cu_k is None and sink_logit is None and gates is None \
            and dropout == 0:
        options = _NONE
    else:
        options = Options(scale, softcap, align, first_position, causal, window, keep, bias, alibi, key_lengths, key_start,
                          query_lengths, cu_q, cu_k, sink_logit, gates, dropout, seed)
    more = lse or weights or logits or statistics or row_statistics
    q, k, v = as_array(q), as_array(k), as_array(v)
    if is_torch(q) or is_torch(k) or is_torch(v):
        from . import torch as _torch

        return _torch.attend(q, k, v, options, out, more, lse=lse, weights=weights, heads=heads, rows=rows,
                             weights_f32=weights_f32, logits=logits, statistics=statistics,
                             row_statistics=row_statistics, marked_keys=marked_keys, target_keys=target_keys)
    result = attend(q, k, v, options, out, lse, weights, heads, rows, weights_f32, logits, statistics, row_statistics,
                    marked_keys, target_keys)
    return result if more else result.output


def statistics(q: Array, k: Array, v: Optional[Array] = None, *, full: bool = False, rows: bool = False,
               marked_keys: Optional[Array] = None, target_keys: Optional[Array] = None, **options: Any) -> HeadStatistics:
    """What every head does with these queries and keys: entropy, where it looks, how sharply. A HeadStatistics.

    Options are those of attention(). With rows=True every row's numbers, [B,H,T].

    >>> import numpy as np, polyhead
    >>> x = np.zeros((1, 2, 8, 4), np.float32)
    >>> polyhead.statistics(x, x, causal=True).entropy.round(3).tolist()  # equal keys: the mean of ln 1 to ln 8
    [1.326, 1.326]
    """
    result = attention(q, k, k if v is None else v, statistics="full" if full else "light", row_statistics=rows,
                       marked_keys=marked_keys, target_keys=target_keys, **options)
    return result.row_statistics if rows else result.statistics


def backward(q, k, v, doutput, options=_NONE, output=None, lse=None, dlse=None, dweights=None, dbias=False,
             dsink_logit=False, dgates=False):
    """attention_backward() with its options as one object."""
    q, k, v = as_array(q), as_array(k), as_array(v)
    batch, head_count = _sizes(q, k, v)[:2]
    arena = Arena()
    packed = 0 if options is _NONE else options.pack(arena)  # which checks that they are tensors
    result = Gradients(*(empty(x, tuple(x.shape)) for x in (q, k, v)))
    if dbias:
        result.dbias = empty(options.bias, tuple(options.bias.shape))
    if dsink_logit:
        result.dsink_logit = empty(options.sink_logit, tuple(options.sink_logit.shape), "stat")
    if dgates:
        result.dgates = empty(options.gates, (_sequences(options, batch), head_count), "stat")
    upstream = arena.pack(
        _UPSTREAM,
        _UPSTREAM.size,
        tensor(arena, output, "output"),
        tensor(arena, lse, "lse"),
        tensor(arena, doutput, "doutput"),
        tensor(arena, dlse, "dlse"),
        tensor(arena, dweights, "dweights"),
    )
    gradients = arena.pack(
        _GRADIENTS,
        _GRADIENTS.size,
        *(tensor(arena, getattr(result, name), name) for name in ("dq", "dk", "dv", "dbias", "dsink_logit", "dgates")),
    )
    _backward(
        context_of(q),
        tensor(arena, q, "q"),
        tensor(arena, k, "k"),
        tensor(arena, v, "v"),
        packed,
        upstream,
        gradients,
    )
    return result


def attention_backward(q: Array, k: Array, v: Array, doutput: Array, *, output: Optional[Array] = None,
                       lse: Optional[Array] = None, dlse: Optional[Array] = None, dweights: Optional[Array] = None,
                       **options: Any) -> Gradients:
    """Gradients of attention() with the same options, from that of its output [B,H,T,E].

    `output` and `lse` of the forward pass save computing them again; `dlse` and `dweights` are further gradients from above.
    Returns Gradients: dq, dk, dv, and dbias, dsink_logit and dgates where the options had those.

    >>> import numpy as np, polyhead
    >>> x = np.random.default_rng(0).standard_normal((1, 2, 5, 4))
    >>> gradients = polyhead.attention_backward(x, x, x, np.ones_like(x), gates=np.ones(2))
    >>> gradients.dq.shape, gradients.dgates.shape
    ((1, 2, 5, 4), (1, 2))
    """
    given = Options(**options)
    return backward(q, k, v, doutput, given, output, lse, dlse, dweights, given.bias is not None,
                    given.sink_logit is not None, given.gates is not None)


def explain(q: Array, k: Array, v: Array, **options: Any) -> str:
    """Which path a call takes, and why not a faster one.

    >>> import numpy as np, polyhead
    >>> x = np.zeros((1, 1, 8, 4), np.float32)
    >>> "cpu" in polyhead.explain(x, x, x)
    True
    """
    arena = Arena()
    text = ctypes.c_char_p()
    _explain(context_of(q), tensor(arena, q, "q"), tensor(arena, k, "k"), tensor(arena, v, "v"),
             Options(**options).pack(arena), 0, ctypes.addressof(text))
    return text.value.decode()
