"""Sequences that a model continues, step by step."""

import ctypes
import struct
from typing import TYPE_CHECKING, Any, Iterator, List, Sequence, Tuple

import numpy as np

from ._errors import DTypeError, InvalidValueError
from ._library import Arena, Handle, context, function, threads
from ._numbers import natural, number
from ._text import integers, utf8

if TYPE_CHECKING:
    from ._model import Model

_create = function("polyhead_generation_create")
_next = function("polyhead_generation_next")
_create_context = function("polyhead_context_create")

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_create.raw.argtypes = [_P, _P, _P, _P, _SIZE, ctypes.c_int64, _P, ctypes.c_int32, _P]
_next.raw.argtypes = [_P, _P, _SIZE, _P]
_create_context.raw.argtypes = [ctypes.c_int, _P]

_SAMPLING = struct.Struct("<QdQqd4Q")
_ADDITION = np.dtype([("size", "u8"), ("prompt", "u8"), ("token", "i4"), ("last", "i4"), ("text", "u8"), ("text_size", "u8")])


class Generation:
    def __init__(self, model: "Model", prompts: List[np.ndarray], count: int, temperature: float, seed: int, top_k: int, top_p: float,
                 stop_strings: Sequence[str], eos_token_id: Any, text: bool, stream: bool):
        self._model = model._open("generate")
        self._text = text
        if not 0 < number(top_p, "top_p") <= 1:
            raise InvalidValueError(f"top_p: expected more than 0 and up to 1, found {top_p}")
        if not isinstance(stop_strings, (list, tuple)):
            raise DTypeError(f"stop_strings: expected a list of texts, found {stop_strings!r}")
        stops = [utf8(stop, "stop_strings") for stop in stop_strings]
        if any(not stop or b"\0" in stop for stop in stops):
            raise InvalidValueError(f"stop_strings: expected texts without zero bytes that are not empty, found {list(stop_strings)!r}")
        if eos_token_id is None:
            eos_token_id = model._end_tokens()
        ends = integers([eos_token_id] if isinstance(eos_token_id, (int, np.integer)) else eos_token_id, "eos_token_id", (1,))
        flat = np.concatenate(prompts) if prompts else np.empty(0, np.int32)
        lengths = np.array([len(prompt) for prompt in prompts], np.int64)
        self._additions, self._made = np.zeros(len(prompts), _ADDITION), ctypes.c_size_t()
        # A stream may go on in another thread, between other calls: it has a context of its own.
        self._context = Handle("context")
        if stream:
            _create_context(threads(), self._context.into)
        texts = (ctypes.c_char_p * len(stops))(*stops)
        arena = Arena()
        self._handle = Handle("generation")
        _create(
            self._context.value if stream else context(), self._model.value, flat.ctypes.data, lengths.ctypes.data, len(prompts), count,
            arena.pack(_SAMPLING, _SAMPLING.size, number(temperature, "temperature"), natural(seed, "seed"), natural(top_k, "top_k"),
                       number(top_p, "top_p"), ends.ctypes.data, len(ends), ctypes.addressof(texts), len(stops)),
            int(text), self._handle.into)

    def pieces(self) -> Iterator[Tuple[int, Any]]:
        """(prompt, piece of text or token)"""
        while True:
            _next(self._handle.value, self._additions.ctypes.data, self._additions.itemsize, ctypes.addressof(self._made))
            if not self._made.value:
                return
            for _, prompt, token, _, text, size in self._additions[: self._made.value].tolist():
                if self._text and size:
                    yield prompt, ctypes.string_at(text, size).decode()
                elif not self._text and token >= 0:
                    yield prompt, token
