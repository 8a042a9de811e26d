"""Text to tokens and back, as a model's own tokenizer does it."""

import contextlib
import ctypes
import os
import re
from collections.abc import Mapping
from typing import Any, Dict, Iterator, List, Sequence, Tuple, Union

import numpy as np

from ._errors import DTypeError, Error, InvalidValueError, ShapeError, UnsupportedError
from ._library import Handle, native, record
from ._tensors import as_array

_TOKEN, _MESSAGE = record("token"), record("message")
BEGINNING, ENDING, ENDS, SPECIAL, MARKS = range(5)

Offsets = List[Tuple[int, int]]


def path_bytes(path: Any, name: str) -> bytes:
    """As the library takes it."""
    try:
        found = os.fsencode(path)
    except (TypeError, ValueError):  # no path, or characters that no path has
        raise DTypeError(f"{name}: expected a path, found {path!r}") from None
    if b"\0" in found:
        raise InvalidValueError(f"{name}: expected a path without zero bytes, found {path!r}")
    return found


def integers(x: Any, name: str, axes: Tuple[int, ...]) -> np.ndarray:
    """As i32, contiguous; what does not fit is refused."""
    if isinstance(x, Mapping):
        raise DTypeError(f"{name}: expected whole numbers, found a {type(x).__name__} of {', '.join(map(str, x))}"
                         + ('; give its "input_ids"' if "input_ids" in x else ""))
    if isinstance(x, (list, tuple)) and any(isinstance(part, str) for part in x):
        other = [part for part in x if not isinstance(part, str)]
        raise DTypeError(f"{name}: expected whole numbers, found " + (f"{other[0]!r} among texts" if other else "texts"))
    try:
        found = np.asarray(as_array(x, name))
    except (TypeError, ValueError) as error:  # rows of different lengths, a tensor on a GPU
        raise ShapeError(f"{name}: expected whole numbers in rows of one length, found {_rows_of(x) or f'{type(x).__name__}: {error}'}") from error
    if found.dtype.kind not in "iu" and found.size:
        raise DTypeError(f"{name}: expected whole numbers, found " + (repr(x)[:40] if found.dtype.kind in "OSU" else str(found.dtype)))
    if found.ndim not in axes:
        row = "; put a single row into a list" if found.ndim == 1 and found.size else ""
        raise ShapeError(f"{name}: expected {' or '.join(map(str, axes))} axes, found shape {found.shape}{row}")
    if found.size and (found.min() < -(2**31) or found.max() >= 2**31):
        raise InvalidValueError(f"{name}: expected numbers of 32 bits, found up to {found.max()}")
    return np.ascontiguousarray(found, np.int32)


def _rows_of(x):
    """What is said of rows that differ in length; nothing of anything else."""
    sizes = [len(row) for row in x if hasattr(row, "__len__")] if isinstance(x, (list, tuple)) else []
    if len(set(sizes)) < 2:
        return ""
    return f"rows of {sizes[0]} and {next(size for size in sizes if size != sizes[0])}; fill up the shorter ones, and give lengths="


def utf8(text: Any, name: str) -> bytes:
    if not isinstance(text, str):
        raise DTypeError(f"{name}: expected a text, found {text!r}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(f"{name}: expected characters, found half of a surrogate pair at place {error.start}") from None


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """What is wrong with a text is said of the argument that it was given for."""
    try:
        yield
    except Error as error:
        raise type(error)(f"{name}: " + re.sub(r"^(\[\w+\]|texts?:) ", "", str(error))) from None


def are_texts(x: Any) -> bool:
    """A text, or a list (an array, a column of a table) of at least one and of nothing else."""
    if isinstance(x, str) or isinstance(x, (bytes, Mapping)):
        return isinstance(x, str)
    try:
        return len(x) > 0 and all(isinstance(text, str) for text in x)
    except TypeError:  # nothing to go through, or of no axes
        return False


def _filled(call, dtype, guess):
    """What a call makes that is told where to put it, how much fits there, and says how much there is."""
    count = np.zeros(1, np.uint64)
    into = np.empty(max(guess, 1), dtype)
    call(into, len(into), count)
    if count[0] > len(into):
        into = np.empty(int(count[0]), dtype)
        call(into, len(into), count)
    return into[: int(count[0])]


class Tokenizer:
    """The tokenizer of a model: model.tokenizer, or without the weights Tokenizer.load(path).

    eos_token_ids    the tokens after which the model has nothing more to say
    all_special_ids  those that decode(..., skip_special_tokens=True) leaves out

    >>> import polyhead
    >>> tokenizer = polyhead.load("run").tokenizer
    >>> tokenizer.encode("d b e")
    [3, 1, 4]
    >>> tokenizer.decode([3, 1, 4])
    'd b e'
    >>> tokenizer("d b e", return_offsets_mapping=True)["offset_mapping"]
    [(0, 1), (2, 3), (4, 5)]
    """

    def __init__(self, handle: Handle):
        self._handle = handle
        size = np.zeros(1, np.int64)
        native.tokenizer_size(handle.value, size)
        self._size = int(size[0])
        self.eos_token_ids, self.all_special_ids = self._of_kind(ENDS), self._of_kind(SPECIAL)

    @classmethod
    def load(cls, path: Union[str, os.PathLike]) -> "Tokenizer":
        """From the folder or the GGUF file of a model, or the name of one that `polyhead get` has fetched: "smollm2"."""
        made = Handle("tokenizer")
        native.tokenizer_load(path_bytes(path, "path"), made.into)
        return cls(made)

    def _of_kind(self, kind: int) -> List[int]:
        return _filled(lambda *room: native.tokens_of_kind(self._handle.value, kind, *room), np.int32, 64).tolist()

    def _tokens(self, text: Any, special: bool) -> np.ndarray:
        given = utf8(text, "text")
        return _filled(lambda *room: native.encode(self._handle.value, given, len(given), int(bool(special)), *room), _TOKEN, len(given) + 8)

    def encode(self, text: str, add_special_tokens: bool = True) -> List[int]:
        """The tokens of a text, with those that the tokenizer puts around it. Special tokens written in the text are found."""
        return self._tokens(text, add_special_tokens)["id"].tolist()

    def __call__(self, text: Union[str, Sequence[str]], add_special_tokens: bool = True,
                 return_offsets_mapping: bool = False) -> Dict[str, Any]:
        """{"input_ids", "attention_mask"} of a text, or lists of them for several; "offset_mapping": [begin, end) of every token
        in the characters of its text, (0, 0) for one that was added around it."""
        if not are_texts(text):
            raise DTypeError(f"text: expected a text or a list of texts, found {text!r}")
        texts = [text] if isinstance(text, str) else list(text)
        each = [self._tokens(one, add_special_tokens) for one in texts]
        made: Dict[str, Any] = {"input_ids": [tokens["id"].tolist() for tokens in each],
                                "attention_mask": [[1] * len(tokens) for tokens in each]}
        if return_offsets_mapping:
            made["offset_mapping"] = [_offsets(tokens) for tokens in each]
        return {name: lists[0] for name, lists in made.items()} if isinstance(text, str) else made

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, return_offsets_mapping: bool = False) -> Any:
        """The text of tokens; with return_offsets_mapping also [begin, end) of every token in its characters."""
        ids = integers([token_ids] if isinstance(token_ids, (int, np.integer)) else token_ids, "token_ids", (1,))
        places = np.zeros(len(ids), _TOKEN)
        where = places if return_offsets_mapping else None
        text = _filled(lambda *room: native.decode(self._handle.value, ids, len(ids), int(not skip_special_tokens), *room, where),
                       np.uint8, 16 * len(ids) + 64)
        decoded = text.tobytes().decode(errors="replace")
        return (decoded, _offsets(places)) if return_offsets_mapping else decoded

    def apply_chat_template(self, conversation: Sequence[Dict[str, str]], add_generation_prompt: bool = False,
                            tokenize: bool = True) -> Any:
        """A conversation, a list of {"role", "content"}, in the form that the model has learnt: its tokens, or its text.

        add_generation_prompt  up to where the model's answer begins
        """
        given = messages_of(conversation)
        packed = np.array([(_address(role), _address(content), len(content)) for role, content in given], _MESSAGE)
        text = _filled(lambda *room: native.chat(self._handle.value, packed, len(given), int(bool(add_generation_prompt)), *room),
                       np.uint8, 4096).tobytes().decode()
        return self.encode(text, add_special_tokens=False) if tokenize else text

    def pieces(self, token_ids: Any) -> List[str]:
        """Each token by itself, blanks and all; U+FFFD for one that is part of a character."""
        return [self._piece(token) for token in integers(token_ids, "token_ids", (1,)).tolist()]

    def _piece(self, token: int) -> str:
        return _filled(lambda *room: native.token_text(self._handle.value, token, *room), np.uint8, 64).tobytes().decode(errors="replace")

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<polyhead.Tokenizer of {len(self):,} tokens>"


def messages_of(conversation: Any) -> List[Tuple[bytes, bytes]]:
    """(role, content) of each message."""
    if not is_conversation(conversation):
        raise DTypeError(f'conversation: expected a list of {{"role": ..., "content": ...}}, found {conversation!r}')
    for message in conversation:
        for key in message.keys() - {"role", "content"}:
            raise UnsupportedError(f'conversation: expected messages of "role" and "content" alone, found {key!r}; calls of tools and the like '
                                   "are not written here: make the prompt by transformers' apply_chat_template, and give its tokens")
    given = [(utf8(message.get("role"), "role"), utf8(message.get("content"), "content")) for message in conversation]
    if any(b"\0" in role for role, _ in given):
        raise InvalidValueError("role: expected a text without zero bytes")
    return given


def is_conversation(x: Any) -> bool:
    """A list of at least one message and of nothing else."""
    return isinstance(x, (list, tuple)) and bool(x) and all(isinstance(message, dict) for message in x)


def _address(text: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0


def _offsets(tokens: np.ndarray) -> Offsets:
    return list(zip(tokens["first_char"].tolist(), tokens["last_char"].tolist()))
