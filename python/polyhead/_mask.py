"""The mask that polyhead.transformers hands to models: their modules pass it on, and only our attention reads it."""

import sys
from types import FrameType
from typing import Any, List, NoReturn, Optional, Tuple

import torch

from ._errors import UnsupportedError


class UnreadableError(UnsupportedError, AttributeError):
    """A module asked our mask for more than its size and its place. An AttributeError, so that hasattr() says no."""


class Mask:
    """[B,1,T,S], True where a query may attend. It is not stored as such where keep, causal and window say the same.

    Transformers hands masks to models by the name of an implementation, whether or not the model calls the attention of that
    name. One that computes its own would take this mask for what it is not, so operations on it are refused.
    """

    ndim = 4
    requires_grad = False

    def __init__(self, shape: Tuple[int, ...], keep: Optional[torch.Tensor], device: Any, causal: bool = False,
                 window: Optional[Tuple[int, Optional[int]]] = None) -> None:
        self.shape = torch.Size(shape)
        self.keep = keep  # None, [B,1,1,S] or [B,1,T,S]
        self.device = torch.device(device)
        self.causal, self.window = causal, window  # by positions; the last query stands at the last key

    def dim(self) -> int:
        return 4

    def size(self, axis: Optional[int] = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def to(self, *place: Any, **more: Any) -> "Mask":
        """On another device. Another type would be another mask."""
        moved = torch.empty(0, dtype=torch.bool, device=self.device).to(*place, **more)
        if moved.dtype != torch.bool:
            refuse_reading(f"makes numbers of {moved.dtype} of")
        keep = None if self.keep is None else self.keep.to(moved.device)
        return Mask(self.shape, keep, moved.device, self.causal, self.window)

    def contiguous(self) -> "Mask":
        return self

    def __getitem__(self, index: Any) -> "Mask":
        """The whole of it; or a part that has four axes."""
        part = self.in_full()[index]
        if part.dim() != 4:
            refuse_reading("takes apart")
        return self if part.shape == self.shape else Mask(part.shape, part, self.device)

    def in_full(self) -> torch.Tensor:
        """[B,1,T,S]."""
        _, _, queries, keys = self.shape
        position = torch.arange(keys - queries, keys, device=self.device)[:, None]
        key = torch.arange(keys, device=self.device)
        seen = key <= position if self.causal else torch.ones(queries, keys, dtype=torch.bool, device=self.device)
        if self.window is not None:
            left, right = self.window
            seen = seen & (key >= position - left)
            seen = seen if right is None else seen & (key <= position + right)
        return (seen if self.keep is None else seen & self.keep).expand(self.shape)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse_reading(f"reads .{name} of")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> "Mask":
        """Masks side by side are a mask: of keys that come from two places. Nothing else is."""
        if function is torch.cat and all(isinstance(part, Mask) for part in args[0]):
            whole = torch.cat([part.in_full() for part in args[0]], *args[1:], **(kwargs or {}))
            return Mask(whole.shape, whole, whole.device)
        refuse_reading(f"computes {getattr(function, '__name__', function)}() of")

    __hash__ = object.__hash__


def _refused(name):
    def operator(self, *_):
        refuse_reading(f"computes {name}() of")

    return operator


for _name in ("add radd iadd sub rsub isub mul rmul imul truediv rtruediv matmul rmatmul and rand or ror xor invert neg abs eq ne lt le gt "
              "ge bool float int len iter setitem").split():
    setattr(Mask, f"__{_name}__", _refused(_name))


def refuse_reading(how: str) -> NoReturn:
    refuse(f"{how} the mask, which polyhead's attention alone can read")


def refuse(what: str) -> NoReturn:
    """Names the module that did it, and the model that it is in, by looking up the stack."""
    modules: List[torch.nn.Module] = []
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self")
        if isinstance(module, torch.nn.Module) and module not in modules:
            modules.append(module)
        frame = frame.f_back
    model = next((module for module in reversed(modules) if hasattr(module, "config")), None)
    name, part = (type(model).__name__, type(modules[0]).__name__) if model is not None else ("the model", "a function")
    raise UnreadableError(f"{name}: expected attention as transformers' attention interface has it, found that its {part} {what}; "
                          f"{instead(model)}")


def instead(model: Any) -> str:
    """What to use for a model, or a class of models, that has attention of its own."""
    return 'use attn_implementation="eager"' + (' or "sdpa"' if getattr(model, "_supports_sdpa", False) else "")
