"""Attention that shows its heads."""

import functools
import inspect
from collections import namedtuple
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence, Tuple, Union, overload

import numpy as np

from ._errors import DTypeError, InvalidValueError, ShapeError
from ._library import FULL_STATISTICS, LIGHT_STATISTICS, native
from ._numbers import flag, is_zero, whole
from ._options import (  # some of them for torch
    OPTION_TENSORS, PLAIN, Align, Array, Options, Origin, Window, expect_word, limits, options_of, origin_of)
from ._results import ABSENT, Summary, notebook_html
from ._statistics import HeadStatistics
from ._tensors import as_array, as_arrays, empty, expect_array, is_torch

if TYPE_CHECKING:
    from typing_extensions import Unpack  # which a type checker has; typing has it from Python 3.11 on

    from ._options import AttentionArguments, ContractOptions

LogitStage = Literal["scaled", "capped", "biased"]
StatisticsSet = Literal["light", "full"]
_STAGES = (None, "scaled", "capped", "biased")
_FIELDS = {None: 0, "light": LIGHT_STATISTICS, "full": FULL_STATISTICS}  # of each set of statistics


def struct_of(name: str) -> Any:
    """A tuple with the fields of a struct of the library's, all None."""
    fields = [field for field, *_ in native.layouts()[name][1]]
    return namedtuple(name, fields, defaults=[None] * len(fields))


Results, _Upstream, _MoreGradients = map(struct_of, ("attention_results", "attention_upstream", "attention_gradients"))


def statistics_word(word):
    """Refuses what is none."""
    expect_word(tuple(_FIELDS), word, "statistics")


@dataclass(repr=False)
class Attention(Summary):
    """What attention() was asked for; the rest is None."""

    output: Any
    lse: Any = None  # [B,H,T]: log of the denominator
    weights: Any = None  # [B,heads,rows,S]
    logits: Any = None  # shaped like weights
    statistics: HeadStatistics = ABSENT
    row_statistics: HeadStatistics = ABSENT
    chosen: Optional[Sequence[int]] = None  # the heads that weights and logits are of; None: all

    def _repr_html_(self) -> str:
        """In a notebook: the statistics as a table, the weights of the first sequence as figures."""
        return notebook_html(self)


@dataclass(repr=False)
class Gradients(Summary):
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
        expect_four_axes(q, k, v)
        raise


def expect_four_axes(q, k, v):
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        if not hasattr(x, "shape"):
            raise DTypeError(f"{name}: expected an array (NumPy, PyTorch or with DLPack), found {type(x).__name__}")
        if len(x.shape) != 4:
            raise ShapeError(f"{name}: expected 4 axes (batch, heads, tokens, dim), found shape {tuple(x.shape)}")


def _sequences(options, batch):
    """How many rows statistics and gradients of gates have: one for each sequence."""
    return batch if options.cu_q is None else max(_offsets(options.cu_q, "cu_q").shape[0] - 1, 0)


def _longest(options, keys):
    """The keys of the longest sequence; offsets beyond the keys are refused later."""
    if options.cu_k is None:
        return keys
    offsets = _on_host(as_array(_offsets(options.cu_k, "cu_k"), "cu_k"), "cu_k")
    if offsets.dtype.kind not in "iu":
        raise DTypeError(f"cu_k: expected whole numbers, found {offsets.dtype}")
    return min(int(np.diff(offsets.astype(np.int64)).max(initial=0)), keys)


def _offsets(x, name):
    if len(getattr(x, "shape", ())) != 1:
        raise ShapeError(f"{name}: expected an array of one axis, found {x!r}")
    return x


def _on_host(values, name):
    """Whole numbers as NumPy has them."""
    try:
        return np.asarray(values.detach().cpu() if is_torch(values) else values)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise DTypeError(f"{name}: expected whole numbers, found {type(values).__name__}: {error}") from error


def chosen(values, name):
    """Numbers of heads or rows as the library takes them."""
    if values is None:
        return None
    found = _on_host(values, name)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        raise ShapeError(f"{name}: expected a list of at least one whole number, found {found.dtype} of shape {found.shape}")
    if found.min() < 0 or found.max() >= 2**31:
        raise InvalidValueError(f"{name}: expected numbers from 0 on, of 31 bits, found {found.min()} to {found.max()}")
    return np.ascontiguousarray(found, np.int32)


def attend(q, k, v, options=PLAIN, output=None, lse=False, weights=False, heads=None, rows=None, weights_f32=False,
           logits=None, statistics=None, row_statistics=False, marked_keys=None, target_keys=None):
    """attention() with its options as one object, and arrays of NumPy or torch; always returns an Attention."""
    batch, head_count, queries, keys, _ = _sizes(q, k, v)
    result = Attention(output)
    if lse:
        result.lse = empty(q, (batch, head_count, queries), "stat")
    heads, rows = chosen(heads, "heads"), chosen(rows, "rows")
    result.chosen = heads
    if weights or logits:
        matrix = (batch, head_count if heads is None else len(heads), queries if rows is None else len(rows), _longest(options, keys))
        if weights:
            result.weights = empty(q, matrix, "stat" if weights_f32 else None)
        if logits:
            result.logits = empty(q, matrix, "stat")
    statistics_word(statistics)
    fields = _FIELDS[statistics]
    if row_statistics and not fields:
        raise InvalidValueError('row_statistics: expected statistics="light" or "full" with them, found None')
    sums = empty(q, (_sequences(options, batch), head_count, fields), "stat") if fields else None
    row_sums = empty(q, (batch, head_count, queries, fields), "stat") if row_statistics else None
    into = Results(output, result.lse, result.weights, result.logits, sums, row_sums, heads, rows, logits, marked_keys, target_keys)
    result.output = native.attend(q, k, v, None if options is PLAIN else options, into)
    if sums is not None:
        result.statistics = HeadStatistics(sums)
    if row_sums is not None:
        result.row_statistics = HeadStatistics(row_sums)
    return result


NUMBERS = frozenset(("scale", "softcap", "align", "causal", "window"))  # options that are never tensors
_tensor_type: Any = ()  # torch.Tensor, once there was one
_attend_plain: Any = None
_plain_options: Any = ()
_is_traced: Any = None


@functools.lru_cache
def _of_torch():
    global _tensor_type, _attend_plain, _plain_options, _is_traced
    from . import _autograd  # only where there is torch

    _tensor_type, _attend_plain, _plain_options = _autograd.Tensor, _autograd.attend_plain, _autograd.PLAIN_OPTIONS
    _is_traced = _autograd.is_traced
    return _autograd


@overload
def attention(q: Array, k: Array, v: Array, *, lse: Literal[False] = ..., weights: Literal[False] = ..., logits: None = ...,
              statistics: None = ..., row_statistics: Literal[False] = ..., **arguments: "Unpack[AttentionArguments]") -> Array: ...


@overload
def attention(q: Array, k: Array, v: Array, *, lse: bool = ..., weights: bool = ..., logits: Optional[LogitStage] = ...,
              statistics: Optional[StatisticsSet] = ..., row_statistics: bool = ...,
              **arguments: "Unpack[AttentionArguments]") -> Attention: ...


def attention(q: Array, k: Array, v: Array, **arguments: Any) -> Union[Array, Attention]:
    """Attention of q [B,H,T,D] over k [B,G,S,D] and v [B,G,S,E], in O(T) memory.

    Returns the output [B,H,T,E]; or, if more is wanted, an Attention with it:

    lse             the log of each row's denominator
    weights         the softmax weights, of all or of the chosen `heads` and `rows`
    logits          "scaled", "capped" or "biased": the logits after that step, of the same heads and rows
    statistics      "light" or "full": what each head did (HeadStatistics), without the weights ever being stored

    Masks have names, so that none can be mistaken: `keep` is True where a query may attend (what `attn_mask` of
    torch.nn.MultiheadAttention is False for), `bias` is added to the logits, -inf hides. `causal` and `window` go by
    positions; where T != S, `align` ("top_left" or "bottom_right") or `first_position` says where the queries stand.
    `gates` [H] or [B,H] scales the output of each head; one with gate 0 costs nothing. `origin`, an Origin, says where a call
    that is a part of a larger one begins in it, so that parts drop what the whole drops.

    >>> import numpy as np, polyhead
    >>> x = np.random.default_rng(0).standard_normal((1, 4, 16, 8), dtype=np.float32)
    >>> polyhead.attention(x, x, x, causal=True).shape
    (1, 4, 16, 8)
    >>> polyhead.attention(x, x, x, causal=True, statistics="light").statistics.entropy.shape
    (4,)
    """
    if not arguments or arguments.keys() <= NUMBERS:  # the shortest way: the module looks at what there is
        if type(q) is type(k) is type(v) is np.ndarray:
            return native.attend(q, k, v, arguments or None)
        if type(q) is type(k) is type(v) is _tensor_type:
            found = None if _is_traced() else native.attend_tensors(q, k, v, arguments or None)
            return _attend_plain(q, k, v, arguments or None) if found is None else found
    elif type(q) is type(k) is type(v) is type(arguments.get("keep", q)) is type(arguments.get("bias", q)) is _tensor_type \
            and arguments.keys() <= _plain_options:
        return _attend_plain(q, k, v, arguments)
    return _attention_with(q, k, v, **arguments)


def _attention_with(q: Array, k: Array, v: Array, *, scale: Optional[float] = None, softcap: float = 0.0,
                     align: Optional[Align] = None, first_position: Union[int, Array, None] = None, causal: bool = False,
                     window: Optional[Tuple[Optional[int], ...]] = None, keep: Optional[Array] = None, bias: Optional[Array] = None,
                     alibi: Optional[Array] = None, key_lengths: Optional[Array] = None, key_start: Optional[Array] = None,
                     query_lengths: Optional[Array] = None, cu_q: Optional[Array] = None, cu_k: Optional[Array] = None,
                     sink_logit: Optional[Array] = None, gates: Optional[Array] = None, dropout: float = 0.0, seed: int = 0,
                     origin: Optional[Tuple[int, ...]] = None,
                     out: Optional[Array] = None, lse: bool = False, weights: bool = False, heads: Optional[Sequence[int]] = None,
                     rows: Optional[Sequence[int]] = None, weights_f32: bool = False, logits: Optional[LogitStage] = None,
                     statistics: Optional[StatisticsSet] = None, row_statistics: bool = False, marked_keys: Optional[Array] = None,
                     target_keys: Optional[Array] = None) -> Union[Array, Attention]:
    if causal is not False:
        flag(causal, "causal")
    if type(seed) is not int or seed:
        whole(seed, "seed", 0, 2**64 - 1)
    if not (lse is weights is weights_f32 is row_statistics is False and logits is statistics is None):
        for value, name in ((lse, "lse"), (weights, "weights"), (weights_f32, "weights_f32"), (row_statistics, "row_statistics")):
            flag(value, name)
        expect_word(_STAGES, logits, "logits")
        statistics_word(statistics)
    if scale is None and is_zero(softcap) and align is None and first_position is None and not causal and window is None \
            and keep is None and bias is None and alibi is None and key_lengths is None and key_start is None \
            and query_lengths is None and cu_q is None and cu_k is None and sink_logit is None and gates is None \
            and origin is None and is_zero(dropout):
        options = PLAIN
    else:
        options = Options(scale, softcap, align, first_position, causal, window, keep, bias, alibi, key_lengths, key_start,
                          query_lengths, cu_q, cu_k, sink_logit, gates, dropout, seed, origin)
    more = lse or weights or logits or statistics or row_statistics
    of_torch = type(q) is type(k) is type(v) is _tensor_type
    if not of_torch:
        (q, k, v), of_torch = as_arrays(q=q, k=k, v=v)
    if of_torch and options is not PLAIN:
        options = options.in_arrays(in_torch=True)  # the module reads those of NumPy
    if marked_keys is not None or target_keys is not None:
        marked_keys, target_keys = as_array(marked_keys, "marked_keys", of_torch), as_array(target_keys, "target_keys", of_torch)
    if not of_torch and not more and out is heads is rows is marked_keys is target_keys is None:
        return native.attend(q, k, v, options)
    if of_torch:
        return _of_torch().attend(q, k, v, options, out, more, lse=lse, weights=weights, heads=heads, rows=rows,
                                  weights_f32=weights_f32, logits=logits, statistics=statistics,
                                  row_statistics=row_statistics, marked_keys=marked_keys, target_keys=target_keys)
    result = attend(q, k, v, options, out, lse, weights, heads, rows, weights_f32, logits, statistics, row_statistics,
                    marked_keys, target_keys)
    return result if more else result.output


_attention_with.__qualname__ = "attention"  # the name that Python's own errors give it
attention.__signature__ = inspect.signature(_attention_with)  # type: ignore[attr-defined]


def statistics(q: Array, k: Array, v: Optional[Array] = None, *, full: bool = False, rows: bool = False,
               marked_keys: Optional[Array] = None, target_keys: Optional[Array] = None,
               **options: "Unpack[ContractOptions]") -> HeadStatistics:
    """What every head does with these queries and keys: entropy, where it looks, how sharply. A HeadStatistics.

    Options are those of attention(). With rows=True every row's numbers, [B,H,T].

    >>> import numpy as np, polyhead
    >>> x = np.zeros((1, 2, 8, 4), np.float32)
    >>> polyhead.statistics(x, x, causal=True).entropy.round(3).tolist()  # equal keys: the mean of ln 1 to ln 8
    [1.326, 1.326]
    """
    which: StatisticsSet = "full" if flag(full, "full") else "light"
    result = attention(q, k, k if v is None else v, statistics=which, row_statistics=flag(rows, "rows"), marked_keys=marked_keys,
                       target_keys=target_keys, **options)
    return result.row_statistics if rows else result.statistics


def backward(q, k, v, doutput, options=PLAIN, output=None, lse=None, dlse=None, dweights=None, dbias=False,
             dsink_logit=False, dgates=False, merged=False):
    """attention_backward() with its options as one object, and arrays of NumPy or torch."""
    batch, head_count = _sizes(q, k, v)[:2]
    more = _MoreGradients(
        dbias=empty(options.bias, options.bias.shape) if dbias else None,
        dsink_logit=empty(options.sink_logit, options.sink_logit.shape, "stat") if dsink_logit else None,
        dgates=empty(options.gates, (_sequences(options, batch), head_count), "stat") if dgates else None)
    above = _Upstream(output, lse, doutput, dlse, dweights, merged)
    made = native.attend_backward(q, k, v, None if options is PLAIN else options, above, more)
    return Gradients(*made, *more[3:])


def attention_backward(q: Array, k: Array, v: Array, doutput: Array, *, output: Optional[Array] = None,
                       lse: Optional[Array] = None, dlse: Optional[Array] = None, dweights: Optional[Array] = None,
                       merged: bool = False, **options: "Unpack[ContractOptions]") -> Gradients:
    """Gradients of attention() with the same options, from that of its output [B,H,T,E].

    `output` and `lse` of the forward pass save computing them again; `dlse` and `dweights` are further gradients from above.
    With `merged` they are those of more keys than k and v, which are one shard: dq of all shards add up.
    Returns Gradients: dq, dk, dv, and dbias, dsink_logit and dgates where the options had those.

    >>> import numpy as np, polyhead
    >>> x = np.random.default_rng(0).standard_normal((1, 2, 5, 4))
    >>> gradients = polyhead.attention_backward(x, x, x, np.ones_like(x), gates=np.ones(2))
    >>> gradients.dq.shape, gradients.dgates.shape
    ((1, 2, 5, 4), (1, 2))
    """
    (q, k, v, doutput, output, lse, dlse, dweights), of_torch = as_arrays(
        q=q, k=k, v=v, doutput=doutput, output=output, lse=lse, dlse=dlse, dweights=dweights)
    given = options_of("attention_backward", dict(options)).in_arrays(of_torch)
    if of_torch:
        _of_torch().expect_in_memory(zip(
            ("q", "k", "v", "doutput", "output", "lse", "dlse", "dweights", "first_position", *OPTION_TENSORS),
            (q, k, v, doutput, output, lse, dlse, dweights, *given.tensors())))
    for x, name in ((q, "q"), (k, "k"), (v, "v"), (doutput, "doutput")):
        expect_array(x, name)
    for name in ("bias", "sink_logit", "gates"):
        if getattr(given, name) is not None:
            expect_array(getattr(given, name), name)
    return backward(q, k, v, doutput, given, output, lse, dlse, dweights, given.bias is not None,
                    given.sink_logit is not None, given.gates is not None, merged)


def _part(part, name):
    """Its output, lse and sums of rows, in memory."""
    if not isinstance(part, Attention) or part.lse is None:
        raise InvalidValueError(f"{name}: expected an Attention with its lse (lse=True), found {type(part).__name__}")
    rows = part.row_statistics.sums if part.row_statistics is not None else None
    found = [None if x is None else expect_array(x, f"{name}.{what}")
             for x, what in ((part.output, "output"), (part.lse, "lse"), (rows, "row_statistics"))]
    if any(getattr(x, "requires_grad", False) for x in found):
        raise InvalidValueError(f"{name}: expected results without a gradient, found requires_grad; detach() them, and use "
                                "attention_backward(merged=True)")
    if any(map(is_torch, found)):
        _of_torch().expect_in_memory(zip((f"{name}.output", f"{name}.lse", f"{name}.row_statistics"), found))
    return tuple(found)


def merge_attention(parts: Sequence[Attention]) -> Attention:
    """What attention() gives over all keys, from what it gave over shards of them, in the order of the keys.

    Each part has its lse; sink_logit goes to one shard only. Where all parts have row_statistics, the result has statistics
    and row_statistics, exact but for normalised_entropy, which is NaN: how many keys a row sees is in no shard. A shard that
    begins at key n has first_position and key_lengths n lower than the call with all keys, and always_first too, down to 0.
    No gradient goes through it: attention_backward(merged=True) takes what it gives.

    >>> import numpy as np, polyhead
    >>> x = np.random.default_rng(0).standard_normal((1, 2, 6, 4))
    >>> parts = [polyhead.attention(x, x[:, :, n:n + 3], x[:, :, n:n + 3], causal=True, first_position=-n, lse=True) for n in (0, 3)]
    >>> np.allclose(polyhead.merge_attention(parts).output, polyhead.attention(x, x, x, causal=True))
    True
    """
    try:
        given = [_part(part, f"parts[{n}]") for n, part in enumerate(parts)]
    except TypeError:
        if hasattr(parts, "__iter__"):
            raise
        raise DTypeError(f"parts: expected the results of one shard or more, found {type(parts).__name__}") from None
    if not given:
        raise InvalidValueError("parts: expected the results of one shard or more, found none")
    output, lse, _ = given[0]
    result = Attention(empty(output, output.shape), empty(lse, lse.shape))
    sums = rows = None
    if all(part[2] is not None for part in given):
        batch, heads, _, fields = given[0][2].shape
        sums, rows = empty(lse, (batch, heads, fields), "stat"), empty(lse, given[0][2].shape, "stat")
        result.statistics, result.row_statistics = HeadStatistics(sums), HeadStatistics(rows)
    native.merge_attention(tuple(given), Results(result.output, result.lse, statistics=sums, row_statistics=rows))
    return result


def explain(q: Array, k: Array, v: Array, *, lse: bool = False, weights: bool = False, weights_f32: bool = False,
            heads: Optional[Sequence[int]] = None, rows: Optional[Sequence[int]] = None, logits: Optional[LogitStage] = None,
            statistics: Optional[StatisticsSet] = None, row_statistics: bool = False, **options: "Unpack[ContractOptions]") -> str:
    """Which path attention() takes with the same arguments, and why not a faster one.

    >>> import numpy as np, polyhead
    >>> x = np.zeros((1, 1, 8, 4), np.float32)
    >>> "cpu" in polyhead.explain(x, x, x, causal=True, statistics="light")
    True
    """
    (q, k, v), of_torch = as_arrays(q=q, k=k, v=v)
    for x, name in ((q, "q"), (k, "k"), (v, "v")):
        expect_array(x, name)
    given = options_of("explain", dict(options)).in_arrays(of_torch)
    if of_torch:
        _of_torch().expect_in_memory(zip(("q", "k", "v", "first_position", *OPTION_TENSORS), (q, k, v, *given.tensors())))
    _sizes(q, k, v)
    expect_word(_STAGES, logits, "logits")
    statistics_word(statistics)
    wanted = (flag(lse, "lse"), flag(weights, "weights"), logits is not None, statistics is not None, flag(row_statistics, "row_statistics"))
    kinds = ("stat", "stat" if flag(weights_f32, "weights_f32") else None, "stat", "stat", "stat")
    none = [empty(q, (0, _FIELDS[statistics]), kind) if there else None  # of no size: what matters is that they are wanted
            for there, kind in zip(wanted, kinds)]
    return native.explain(q, k, v, given, Results(None, *none, chosen(heads, "heads"), chosen(rows, "rows"), logits))
