"""polyhead.attention for tensors of torch: recorded by autograd, and one op under torch.compile."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from . import _attention
from ._attention import OPTION_TENSORS, Attention, Options
from ._errors import DTypeError, InvalidValueError, LayoutError
from ._kinds_of_tensors import QUESTIONS, expect_in_memory, expect_known, in_memory  # noqa: F401: one for _attention, which does not import torch
from ._library import native
from ._numbers import whole
from ._statistics import HeadStatistics


def output_like(q, v):
    """An empty output [B,H,T,E] that lies in memory as q does, so that heads merge without a copy."""
    batch, heads, queries, _ = q.shape
    order = sorted(range(3), key=lambda axis: -q.stride(axis))
    sizes = (batch, heads, queries)
    made = torch.empty([sizes[axis] for axis in order] + [v.shape[3]], dtype=q.dtype, device=q.device)
    return made.permute([order.index(axis) for axis in range(3)] + [3])


class _AttendPlain(torch.autograd.Function):
    """The output and nothing else, with PLAIN_OPTIONS in a dictionary, or none."""

    forward = staticmethod(native.record_forward)

    @staticmethod
    def backward(ctx, doutput):
        q, k, v, _, _, *forward = ctx.saved_tensors  # the masks are those of the options
        output, lse = forward or (None, None)
        upstream, options = (output, lse, doutput, None, None, False), getattr(ctx, "options", None)
        if not torch.is_grad_enabled():
            return *native.attend_backward(q, k, v, options, upstream, None), None
        with torch.no_grad():
            found = native.attend_backward(q, k, v, options, upstream, None)
        return *_once(found, q, k, v, doutput), None


class _AttendOutput(torch.autograd.Function):
    """The output, with options and nothing else wanted."""

    @staticmethod
    def forward(ctx, q, k, v, bias, sink_logit, gates, options):
        made = native.attend(q, k, v, options, True)
        output, forward = (made[0], made) if type(made) is tuple else (made, (None, None))
        ctx.save_for_backward(q, k, v, bias, sink_logit, gates, *forward)
        ctx.options, ctx.versions, ctx.chosen = options, _versions(options), False
        return output

    @staticmethod
    def backward(ctx, doutput):
        return *_gradients(ctx, doutput), None


class _Attend(torch.autograd.Function):
    """Output, lse, weights and statistics; the first three have gradients."""

    @staticmethod
    def forward(ctx, q, k, v, bias, sink_logit, gates, options, wants):
        result = _attention.attend(q, k, v, options, **{**wants, "lse": True})
        sums = result.statistics.sums if result.statistics is not None else None
        rows = result.row_statistics.sums if result.row_statistics is not None else None
        ctx.save_for_backward(q, k, v, bias, sink_logit, gates, result.output, result.lse)
        ctx.options, ctx.versions = options, _versions(options)
        ctx.chosen = wants["heads"] is not None or wants["rows"] is not None
        ctx.set_materialize_grads(False)
        numbers = [x for x in (result.logits, sums, rows) if x is not None]
        if numbers:
            ctx.mark_non_differentiable(*numbers)
        return result.output, result.lse, result.weights, result.logits, sums, rows

    @staticmethod
    def backward(ctx, doutput, dlse, dweights, *_):
        return *_gradients(ctx, doutput, dlse, dweights), None, None


def _gradients(ctx, *upstream):
    """Of q, k, v, bias, sink_logit and gates."""
    saved = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return _gradients_once(ctx, saved, *upstream)
    with torch.no_grad():
        found = _gradients_once(ctx, saved, *upstream)
    return _once(found, *saved, *upstream)


def _gradients_once(ctx, saved, doutput, dlse=None, dweights=None):
    q, k, v, bias, sink_logit, gates, output, lse = saved
    if dweights is not None and ctx.chosen:
        raise InvalidValueError("attention: gradients of weights need the weights of all heads and rows; found a choice")
    if ctx.versions != _versions(ctx.options):
        raise RuntimeError("attention: a mask or a length that the backward pass needs was changed in place after the forward pass")
    needs = ctx.needs_input_grad
    if doutput is None:
        doutput = torch.zeros_like(output)
    options = ctx.options
    if bias is not None or sink_logit is not None or gates is not None:
        options = options._replace(bias=bias, sink_logit=sink_logit, gates=gates)
    found = _attention.backward(
        q, k, v, doutput, options, output, lse, None if dlse is None else dlse.contiguous(),
        None if dweights is None else dweights.contiguous(), needs[3], needs[4], needs[5])
    dgates = found.dgates
    if dgates is not None and gates.dim() == 1:
        dgates = dgates.sum(0)
    return (
        found.dq if needs[0] else None,
        found.dk if needs[1] else None,
        found.dv if needs[2] else None,
        found.dbias,
        None if found.dsink_logit is None else found.dsink_logit.to(sink_logit.dtype),
        None if dgates is None else dgates.to(gates.dtype),
    )


def _once(found, *made_of):
    anchors = [x for x in made_of if x is not None and x.requires_grad]
    return tuple(None if x is None else _Once.apply(x, *anchors) for x in found)


class _Once(torch.autograd.Function):
    """A gradient that has none of its own, which is to be said: else it would pass for a constant."""

    @staticmethod
    def forward(ctx, gradient, *anchors):
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError("attention: expected to be differentiated once, found a second time (create_graph=True); "
                           "torch's own attention can be differentiated twice")


def _versions(options):
    """How often the tensors that autograd does not look after were written to."""
    return [x._version for x in (options.first_position, options.keep, options.alibi, options.key_lengths, options.key_start,
                                 options.query_lengths, options.cu_q, options.cu_k) if isinstance(x, Tensor)]


def _of_tensors(q, k, v, options):
    """Options whose numbers by head have the type that the kernels take; all of it in tensors of torch."""
    for x, name in ((q, "q"), (k, "k"), (v, "v"), *zip(options.tensors()[1:], OPTION_TENSORS)):
        if type(x) is not Tensor and (x is not None or name in "qkv") and not isinstance(x, Tensor):
            raise DTypeError(f"{name}: expected an array that is a tensor of torch, as others are, found {type(x).__name__}")
    alibi, sink_logit, gates = options.alibi, options.sink_logit, options.gates
    if alibi is sink_logit is gates is None:
        return options
    if alibi is not None and alibi.requires_grad:
        raise InvalidValueError("alibi: expected slopes without a gradient, found requires_grad; put them into the bias")
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    cast = lambda x: x.to(wide) if x is not None and x.is_floating_point() and x.dtype != wide else x  # noqa: E731
    return options._replace(alibi=cast(alibi), sink_logit=cast(sink_logit), gates=cast(gates))


def _expect_plain(out):
    """That it can be written to behind autograd's back."""
    if not isinstance(out, Tensor):
        raise DTypeError(f"out: expected a tensor of torch, as q is, found {type(out).__name__}")
    if out.requires_grad:
        raise LayoutError("out: expected a tensor without requires_grad, found one with it")


NOTHING_ELSE = dict(lse=False, weights=False, heads=None, rows=None, weights_f32=False, logits=None, statistics=None,
                     row_statistics=False, marked_keys=None, target_keys=None)


# What the class method of that name does once it has seen that no transform of functions is active.
_record = super(torch.autograd.Function, _AttendPlain).apply
_record_output = super(torch.autograd.Function, _AttendOutput).apply
_record_all = super(torch.autograd.Function, _Attend).apply
is_traced = torch.compiler.is_dynamo_compiling  # False where code runs: torch.compile sees True. What else traces has a mode

if hasattr(Tensor, "__dlpack_c_exchange_api__"):  # from torch 2.10 on; the module reads others through Python, which takes longer
    native.use_torch(Tensor, torch.nn.Parameter, Tensor.__dlpack_c_exchange_api__, torch.empty_like)
    native.use_torch_state(QUESTIONS, torch.autograd.forward_ad, torch.is_grad_enabled, torch._C._is_any_autocast_enabled, _record)


PLAIN_OPTIONS = _attention.NUMBERS | {"dropout", "seed", "keep", "bias"}  # of which the masks have no gradient


def attend_plain(q, k, v, options=None):
    """polyhead.attention for tensors, with nothing else wanted, and PLAIN_OPTIONS: the shortest way. Others go the long one."""
    if (options is None or options.keys() <= PLAIN_OPTIONS) and type(q) is type(k) is type(v) is Tensor and not is_traced():
        found = native.attend_tensors(q, k, v, options)
        if found is not None:
            return found
    return attend(q, k, v, _attention.PLAIN if options is None else Options(**options), None, False, **NOTHING_ELSE)


def attend(q, k, v, options, out, more, **wants):
    """polyhead.attention for tensors."""
    alone = not more and out is wants["heads"] is wants["rows"] is wants["marked_keys"] is wants["target_keys"] is None
    if options is not _attention.PLAIN or not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        options = _of_tensors(q, k, v, options)
    if torch.compiler.is_compiling():
        return _as_op(q, k, v, options, out, more, wants)
    others = () if options is _attention.PLAIN else options.tensors()
    if not in_memory((q, k, v, out, *others)):
        expect_known(zip(("q", "k", "v", "out", "first_position", *OPTION_TENSORS), (q, k, v, out, *others)))
        return _as_op(q, k, v, options, out, more, wants)
    with_gradient = q.requires_grad or k.requires_grad or v.requires_grad or options is not _attention.PLAIN and any(
        x is not None and x.requires_grad for x in (options.bias, options.sink_logit, options.gates))
    if not with_gradient or not torch.is_grad_enabled():
        if alone:
            return native.attend(q, k, v, options)
        if out is not None:
            _expect_plain(out)
        result = _attention.attend(q, k, v, options, out, **wants)
        if out is not None:
            torch.autograd.graph.increment_version(out)
        return result if more else result.output
    if out is not None:
        raise LayoutError("out: expected None where gradients are recorded, found a tensor; use torch.no_grad()")
    if alone:
        return _record_output(q, k, v, options.bias, options.sink_logit, options.gates, options)
    output, lse, weights, logits, sums, rows = _record_all(
        q, k, v, options.bias, options.sink_logit, options.gates, options, wants)
    if not more:
        return output
    return Attention(
        output,
        lse if wants["lse"] else None,
        weights,
        logits,
        None if sums is None else HeadStatistics(sums),
        None if rows is None else HeadStatistics(rows),
        wants["heads"],
    )


# ---- Under torch.compile, and for all that goes by torch's dispatcher: the same as one op, whose shapes are known without running it. ----

_OP_TENSORS = 14  # the op's first arguments: q, k, v, OPTION_TENSORS, and a seed that was drawn within the graph


def _options_of(tensors, drawn, scale, softcap, align, first_position, causal, window, dropout, seed, origin):
    made = dict(zip(OPTION_TENSORS, tensors))
    return Options(scale=scale, softcap=softcap, align=align, first_position=first_position, causal=causal,
                   window=tuple(window) if window else None, dropout=dropout, seed=seed if drawn is None else int(drawn),
                   origin=tuple(origin) if origin else None, **made)


@torch.library.custom_op("polyhead::attend", mutates_args=())
def _attend_op(q: Tensor, k: Tensor, v: Tensor, keep: Optional[Tensor], bias: Optional[Tensor], alibi: Optional[Tensor],
               key_lengths: Optional[Tensor], key_start: Optional[Tensor], query_lengths: Optional[Tensor],
               cu_q: Optional[Tensor], cu_k: Optional[Tensor], sink_logit: Optional[Tensor], gates: Optional[Tensor],
               drawn: Optional[Tensor], scale: Optional[float], softcap: float, align: Optional[str], first_position: Optional[int], causal: bool,
               window: List[int], dropout: float, seed: int, origin: List[int], weights: bool,
               statistics: Optional[str]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    options = _options_of((keep, bias, alibi, key_lengths, key_start, query_lengths, cu_q, cu_k, sink_logit, gates), drawn,
                          scale, softcap, align, first_position, causal, window, dropout, seed, origin)
    output = q.new_empty((*q.shape[:3], v.shape[3]))
    result = _attention.attend(q, k, v, options, output, lse=True, weights=weights, statistics=statistics)
    return (result.output, result.lse, result.weights if weights else q.new_empty(0),
            result.statistics.sums if statistics else result.lse.new_empty(0))


@_attend_op.register_fake
def _(q, k, v, keep, bias, alibi, key_lengths, key_start, query_lengths, cu_q, cu_k, sink_logit, gates, drawn, scale, softcap,
      align, first_position, causal, window, dropout, seed, origin, weights, statistics):
    batch, heads, queries, _ = q.shape
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    sequences = batch if cu_q is None else cu_q.shape[0] - 1
    fields = {None: 0, "light": _attention.LIGHT_STATISTICS, "full": _attention.FULL_STATISTICS}[statistics]
    return (
        q.new_empty((batch, heads, queries, v.shape[3])),
        q.new_empty((batch, heads, queries), dtype=wide),
        q.new_empty((batch, heads, queries, k.shape[2]) if weights else (0,)),
        q.new_empty((sequences, heads, fields) if statistics else (0,), dtype=wide),
    )


@torch.library.custom_op("polyhead::attend_backward", mutates_args=())
def _backward_op(q: Tensor, k: Tensor, v: Tensor, keep: Optional[Tensor], bias: Optional[Tensor], alibi: Optional[Tensor],
                 key_lengths: Optional[Tensor], key_start: Optional[Tensor], query_lengths: Optional[Tensor],
                 cu_q: Optional[Tensor], cu_k: Optional[Tensor], sink_logit: Optional[Tensor], gates: Optional[Tensor],
                 drawn: Optional[Tensor], scale: Optional[float], softcap: float, align: Optional[str], first_position: Optional[int], causal: bool,
                 window: List[int], dropout: float, seed: int, origin: List[int], output: Tensor, lse: Tensor, doutput: Tensor,
                 dlse: Optional[Tensor], dweights: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    options = _options_of((keep, bias, alibi, key_lengths, key_start, query_lengths, cu_q, cu_k, sink_logit, gates), drawn,
                          scale, softcap, align, first_position, causal, window, dropout, seed, origin)
    found = _attention.backward(
        q, k, v, doutput, options, output, lse,
        None if dlse is None else dlse.contiguous(), None if dweights is None else dweights.contiguous(),
        bias is not None, sink_logit is not None, gates is not None)
    return (*(x.contiguous() for x in (found.dq, found.dk, found.dv)),
            *(q.new_empty(0) if x is None else x for x in (found.dbias, found.dsink_logit, found.dgates)))


@_backward_op.register_fake
def _(q, k, v, keep, bias, alibi, key_lengths, key_start, query_lengths, cu_q, cu_k, sink_logit, gates, drawn, scale, softcap,
      align, first_position, causal, window, dropout, seed, origin, output, lse, doutput, dlse, dweights):
    sequences = q.shape[0] if cu_q is None else cu_q.shape[0] - 1
    return (
        *(x.new_empty(x.shape) for x in (q, k, v)),
        q.new_empty(0) if bias is None else bias.new_empty(bias.shape),
        q.new_empty(0) if sink_logit is None else lse.new_empty(sink_logit.shape),
        q.new_empty(0) if gates is None else lse.new_empty((sequences, q.shape[1])),
    )


def _setup(ctx, inputs, output):
    ctx.tensors = [isinstance(x, Tensor) for x in inputs[:_OP_TENSORS]]
    ctx.save_for_backward(*(x for x in inputs[:_OP_TENSORS] if isinstance(x, Tensor)), output[0], output[1])
    ctx.rest, ctx.weights = inputs[_OP_TENSORS:-2], inputs[-2]
    ctx.count = len(inputs)
    ctx.set_materialize_grads(False)


def _op_backward(ctx, doutput, dlse, dweights, _):
    saved = list(ctx.saved_tensors)
    output, lse = saved[-2:]
    tensors = [saved.pop(0) if there else None for there in ctx.tensors]
    if doutput is None:
        doutput = torch.zeros_like(output)
    dq, dk, dv, dbias, dsink, dgates = _backward_op(*tensors, *ctx.rest, output, lse, doutput, dlse,
                                                        dweights if ctx.weights else None)
    bias, sink, gates = tensors[4], tensors[11], tensors[12]
    gradients = [None] * ctx.count
    gradients[0:3] = dq, dk, dv
    if bias is not None and bias.is_floating_point():
        gradients[4] = dbias
    if sink is not None:
        gradients[11] = dsink.to(sink.dtype)
    if gates is not None:
        gradients[12] = (dgates.sum(0) if gates.dim() == 1 else dgates).to(gates.dtype)
    return tuple(gradients)


_attend_op.register_autograd(_op_backward, setup_context=_setup)


def _as_op(q, k, v, options, out, more, wants):
    odd = [name for name in ("heads", "rows", "logits", "marked_keys", "target_keys") if wants[name] is not None]
    odd += [name for name in ("weights_f32", "row_statistics") if wants[name]] + (["out"] if out is not None else [])
    if odd:
        raise InvalidValueError("attention under torch.compile, a transform or a mode of torch, or with a subclass of its tensors: "
                                f"expected none of {', '.join(odd)}")
    if wants["weights"] and options.cu_k is not None:
        raise InvalidValueError("attention as an op of torch (under torch.compile, vmap, ..): expected no weights of packed sequences, whose size only the data know")
    if isinstance(options.first_position, Tensor) and options.first_position.dim() > 0:
        raise InvalidValueError("first_position where attention is an op of torch (under torch.compile, vmap, ..): expected one number for all sequences")
    window = [] if options.window is None else [*_attention.limits(options.window)]
    origin = [] if options.origin is None else [whole(n, "origin") for n in _attention.origin_of(options.origin, "origin")]
    drawn, seed = (options.seed, 0) if isinstance(options.seed, Tensor) else (None, options.seed)
    output, lse, weights, sums = torch.ops.polyhead.attend(
        q, k, v, options.keep, options.bias, options.alibi, options.key_lengths, options.key_start, options.query_lengths,
        options.cu_q, options.cu_k, options.sink_logit, options.gates, drawn, options.scale, float(options.softcap),
        options.align, options.first_position, bool(options.causal), window, float(options.dropout), seed, origin,
        bool(wants["weights"]), wants["statistics"])
    if not more:
        return output
    return Attention(output, lse if wants["lse"] else None, weights if wants["weights"] else None, None,
                     HeadStatistics(sums) if wants["statistics"] else None)
