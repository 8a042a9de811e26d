"""The options of attention, checked and packed."""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Literal, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ._errors import InvalidValueError
from ._library import Arena
from ._numbers import flag, is_zero, number, whole
from ._tensors import as_array, tensor

Array = Any  # of NumPy or PyTorch, or with DLPack
Align = Literal["top_left", "bottom_right"]
UNLIMITED = 2**63 - 1
OPTION_TENSORS = "keep bias alibi key_lengths key_start query_lengths cu_q cu_k sink_logit gates".split()

# polyhead_attention_options and polyhead_window.
_OPTIONS = struct.Struct("<QQdii" + "Q" * 13 + "dQ")
_DOUBLE, _INT64, _WINDOW = struct.Struct("<d"), struct.Struct("<q"), struct.Struct("<Q3q")
_ALIGN = {None: 0, "top_left": 1, "bottom_right": 2}


class Window(NamedTuple):
    """Key j is in the window of the query at position p if p - left <= j <= p + right, or j < always_first.

    None stands for no limit.
    """

    left: Optional[int] = None
    right: Optional[int] = None
    always_first: int = 0


def word_of(table, word, name):
    if word is None or isinstance(word, str) and word in table:
        return table[word]
    words = ", ".join(repr(known) for known in table)
    raise InvalidValueError(f"{name}: expected one of {words}, found {word!r}")


if TYPE_CHECKING:
    from typing import TypedDict

    class ContractOptions(TypedDict, total=False):
        """The options of the attention contract, as arguments by name."""

        scale: Optional[float]
        softcap: float
        align: Optional[Align]
        first_position: Union[int, Array, None]
        causal: bool
        window: Optional[Tuple[Optional[int], ...]]
        keep: Optional[Array]
        bias: Optional[Array]
        alibi: Optional[Array]
        key_lengths: Optional[Array]
        key_start: Optional[Array]
        query_lengths: Optional[Array]
        cu_q: Optional[Array]
        cu_k: Optional[Array]
        sink_logit: Optional[Array]
        gates: Optional[Array]
        dropout: float
        seed: int

    class AttentionArguments(ContractOptions, total=False):
        """And what does not decide what attention() returns."""

        out: Optional[Array]
        heads: Optional[Sequence[int]]
        rows: Optional[Sequence[int]]
        weights_f32: bool
        marked_keys: Optional[Array]
        target_keys: Optional[Array]


@dataclass
class Options:
    """The options of the attention contract; docs/semantics.md says what each means."""

    scale: Optional[float] = None
    softcap: float = 0.0
    align: Optional[str] = None
    first_position: Union[int, Any, None] = None
    causal: bool = False
    window: Optional[Tuple[Optional[int], ...]] = None
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

    def settings(self) -> Tuple[Any, ...]:
        """What is not a tensor, checked, in types that tell 1 from True."""
        first = self.first_position
        return (
            None if self.scale is None else number(self.scale, "scale"),
            number(self.softcap, "softcap"),
            word_of(_ALIGN, self.align, "align"),
            flag(self.causal, "causal"),
            None if first is None or _has_axes(first) else whole(first, "first_position"),
            None if self.window is None else _limits(self.window),
            number(self.dropout, "dropout"),
            whole(self.seed, "seed", 0, 2**64 - 1),
        )

    def kind(self, settings) -> Optional[Tuple[Any, ...]]:
        """Those settings, or None where calls that follow will hardly have the same."""
        return settings if self.first_position is None and is_zero(self.dropout) else None

    def pack(self, arena: Arena, settings: Tuple[Any, ...]) -> int:
        """The address of a polyhead_attention_options."""
        scale, softcap, align, causal, first, window, dropout, seed = settings
        scale_at = 0 if scale is None else arena.pack(_DOUBLE, scale)
        first_at = 0 if first is None else arena.pack(_INT64, first)
        window_at = 0 if window is None else arena.pack(_WINDOW, _WINDOW.size, *window)
        tensors = [tensor(arena, x, name) for x, name in zip(self.tensors(), ("first_position", *OPTION_TENSORS))]
        return arena.pack(_OPTIONS, _OPTIONS.size, scale_at, softcap, align, causal, first_at, tensors[0], window_at,
                          *tensors[1:], dropout, seed)

    def tensors(self):
        """In the order of packing."""
        first = self.first_position if _has_axes(self.first_position) else None
        return [first, self.keep, self.bias, self.alibi, self.key_lengths, self.key_start, self.query_lengths, self.cu_q, self.cu_k,
                self.sink_logit, self.gates]

    def in_arrays(self, in_torch: bool = False) -> "Options":
        """With arrays of NumPy, or torch, for what only speaks DLPack."""
        for name in ("first_position", *OPTION_TENSORS):
            given = getattr(self, name)
            if given is not None and type(given) is not np.ndarray:
                setattr(self, name, as_array(given, name, in_torch))
        return self


PLAIN = Options()  # none of them
PLAIN_SETTINGS = PLAIN.settings()


def _has_axes(x: Any) -> bool:
    return len(getattr(x, "shape", ())) > 0


def options_of(caller: str, given: Dict[str, Any]) -> Options:
    """Of arguments by name."""
    for name in given:
        if name not in Options.__dataclass_fields__:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}; docs/semantics.md has the options")
    return Options(**given)


def window_of(window):
    try:
        return Window(*window)
    except TypeError:
        raise InvalidValueError(f"window: expected (left, right) or (left, right, always_first), found {window!r}") from None


def _limits(window) -> Tuple[int, int, int]:
    """As the library takes them."""
    left, right, always_first = window_of(window)
    return (UNLIMITED if left is None else whole(left, "window"), UNLIMITED if right is None else whole(right, "window"),
            whole(always_first, "window.always_first"))
