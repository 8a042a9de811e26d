"""Which tensors of torch have numbers in memory that mean what they say: subclasses, transforms and modes of torch may not."""

import sys
from typing import Any, Iterable, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ._errors import DTypeError, LayoutError, UnsupportedError

_PLAIN = (Tensor, torch.nn.Parameter)
_functorch = torch._C._functorch
# Whether a mode, a transform of functions or a trace is active: no, in a plain call.
QUESTIONS = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active, torch._C._is_tracing


def in_memory(tensors: Iterable[Any]) -> bool:
    """Whether a call may go by addresses. If not it goes by torch's dispatcher, as one op, which subclasses, vmap, jit.trace, make_fx
    and modes of torch understand; what they do not understand is refused by expect_known()."""
    return ordinary() and all(map(_has_numbers, tensors))


def ordinary() -> bool:
    """Whether no mode, transform or trace of torch's is active."""
    return forward_ad._current_level < 0 and not any(active() for active in QUESTIONS)


def _has_numbers(x):
    return x is None or (not x.is_nested if type(x) in _PLAIN else not isinstance(x, Tensor))


def expect_known(named: Iterable[Tuple[str, Any]]) -> None:
    """That the op can compute with tensors that in_memory() said no to."""
    transforms = torch._C._are_functorch_transforms_active()
    for name, x in named:
        if not isinstance(x, Tensor):
            continue
        expect_numbers(x, name)
        if forward_ad._current_level >= 0 and (_functorch.is_functorch_wrapped_tensor(x) or forward_ad.unpack_dual(x).tangent is not None):
            raise UnsupportedError(f"{name}: expected a tensor without a tangent, found one of forward-mode differentiation (jvp, dual "
                                   "numbers); use backward(), or torch's scaled_dot_product_attention with its math backend")
        if transforms and _functorch.is_functorch_wrapped_tensor(x) and any(
                level.key() != _functorch.TransformType.Vmap for level in _functorch.get_interpreter_stack()):
            raise UnsupportedError(f"{name}: expected a tensor outside of torch.func's derivatives, found one within (grad, vjp, jacrev, "
                                   "..); use torch.autograd.grad or backward(), which polyhead has gradients for")


def expect_numbers(x: Tensor, name: str) -> None:
    """That x is no tensor whose numbers lie elsewhere, or mean something else."""
    if x.is_nested:
        raise LayoutError(f"{name}: expected a dense tensor, found a nested one; use to_padded_tensor() with a mask, or pack the "
                          "sequences (cu_q and cu_k of polyhead.attention)")
    if type(x) not in _PLAIN and _is_distributed(x):
        raise UnsupportedError(f"{name}: expected a tensor of this process, found a {type(x).__name__}, which lies on several; give its "
                               "to_local(), if that has whole heads and sequences, or its full_tensor()")
    if type(x) not in _PLAIN and _own(x, "__torch_function__") and not _own(x, "__torch_dispatch__"):
        raise DTypeError(f"{name}: expected a tensor whose numbers are its own, found {type(x).__name__}, which only torch's functions "
                         "know how to read; use as_subclass(torch.Tensor) if its numbers are what they seem" + _causal_words(x))


def expect_in_memory(named: Iterable[Tuple[str, Any]]) -> None:
    """For functions that are no op of torch's."""
    named = [(name, x) for name, x in named if isinstance(x, Tensor)]
    if in_memory(x for _, x in named):
        return
    for name, x in named:
        expect_numbers(x, name)
        if type(x) not in _PLAIN and _own(x, "__torch_dispatch__") or _functorch.is_functorch_wrapped_tensor(x):
            raise UnsupportedError(f"{name}: expected a tensor in memory, found {type(x).__name__} of a transform or of a subclass; "
                                   "polyhead.attention and its backward() take it where torch's dispatcher does")
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        raise UnsupportedError("expected a plain call, found one under a mode or a trace of torch, which would not see it; "
                               "polyhead.attention and its backward() are ops that it sees")


def _is_distributed(x):
    module = sys.modules.get("torch.distributed.tensor")  # not imported here: who has such a tensor has imported it
    return module is not None and isinstance(x, module.DTensor)


def _own(x, method):
    """Whether its class has one that does something."""
    found = getattr(type(x), method)
    nothing = getattr(torch._C, f"_disabled_{method.strip('_')}_impl", None)
    return getattr(found, "__func__", found) not in (nothing, getattr(Tensor, method), getattr(getattr(Tensor, method), "__func__", None))


def _causal_words(x):
    from torch.nn.attention.bias import CausalBias

    return '; or causal=True with align="top_left" or "bottom_right"' if isinstance(x, CausalBias) else ""
