"""The options of attention."""

from typing import TYPE_CHECKING, Any, Dict, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from ._errors import InvalidValueError
from ._tensors import as_array

Array = Any  # of NumPy or PyTorch, or with DLPack
Align = Literal["top_left", "bottom_right"]
UNLIMITED = 2**63 - 1
OPTION_TENSORS = "keep bias alibi key_lengths key_start query_lengths cu_q cu_k sink_logit gates".split()


class Window(NamedTuple):
    """Key j is in the window of the query at position p if p - left <= j <= p + right, or j < always_first.

    None stands for no limit.
    """

    left: Optional[int] = None
    right: Optional[int] = None
    always_first: int = 0


class Origin(NamedTuple):
    """Where a call that is a part of a larger one begins in it: its first sequence, head, query and key, from which dropout counts."""

    sequence: int = 0
    head: int = 0
    row: int = 0
    key: int = 0


def refuse_word(words, found, name):
    raise InvalidValueError(f"{name}: expected one of {', '.join(map(repr, words))}, found {found!r}")


def expect_word(words, found, name):
    if found is not None and not (isinstance(found, str) and found in words):
        refuse_word(words, found, name)


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
        origin: Optional[Tuple[int, ...]]

    class AttentionArguments(ContractOptions, total=False):
        """And what does not decide what attention() returns."""

        out: Optional[Array]
        heads: Optional[Sequence[int]]
        rows: Optional[Sequence[int]]
        weights_f32: bool
        marked_keys: Optional[Array]
        target_keys: Optional[Array]


class Options(NamedTuple):
    """The options of the attention contract; docs/semantics.md says what each means.

    In the order of the module's table, python/native/structs.cpp.
    """

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
    origin: Optional[Tuple[int, ...]] = None

    def tensors(self) -> Tuple[Any, ...]:
        """The first position, if it is one, and OPTION_TENSORS."""
        return (self.first_position if has_axes(self.first_position) else None, *self[6:16])

    def are_numbers(self) -> bool:
        """Whether none is a tensor."""
        first = self.first_position
        return (first is None or type(first) is int) and (
            self.keep is self.bias is self.alibi is self.key_lengths is self.key_start is self.query_lengths is self.cu_q is self.cu_k
            is self.sink_logit is self.gates is None)

    def in_arrays(self, in_torch: bool = False) -> "Options":
        """With arrays of NumPy, or torch, for what only speaks DLPack."""
        if self.are_numbers():
            return self
        given = [(name, x) for name, x in zip(("first_position", *OPTION_TENSORS), (self.first_position, *self[6:16])) if x is not None]
        return self._replace(**{name: as_array(x, name, in_torch) for name, x in given})


PLAIN = Options()  # none of them


def has_axes(x: Any) -> bool:
    return len(getattr(x, "shape", ())) > 0


def options_of(caller: str, given: Dict[str, Any]) -> Options:
    """Of arguments by name."""
    for name in given:
        if name not in Options._fields:
            raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}; docs/semantics.md has the options")
    return Options(**given)


def origin_of(given, name) -> Origin:
    try:
        return Origin(*given)
    except TypeError:
        raise InvalidValueError(f"{name}: expected (sequence, head, row, key), found {given!r}") from None


def limits(window, name="window") -> Window:
    """Of a window, as the library takes them."""
    try:
        given = Window(*window)
    except TypeError:
        raise InvalidValueError(f"{name}: expected (left, right) or (left, right, always_first), found {window!r}") from None
    left, right = [UNLIMITED if side is None else side for side in given[:2]]
    return given._replace(left=left, right=right)
