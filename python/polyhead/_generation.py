"""Sequences that a model continues, step by step."""

import ctypes
from typing import TYPE_CHECKING, Any, Iterator, List, Sequence, Tuple

import numpy as np

from ._errors import DTypeError, InvalidValueError
from ._library import Handle, context, native, record, threads
from ._numbers import natural, number
from ._text import integers, utf8

if TYPE_CHECKING:
    from ._model import Model

_SAMPLING, _ADDITION = record("sampling"), record("addition")


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
        self._additions, self._made = np.zeros(len(prompts), _ADDITION), np.zeros(1, np.uint64)
        # A stream may go on in another thread, between other calls: it has a context of its own.
        self._context = Handle("context")
        if stream:
            native.context_create(threads(), self._context.into)
        texts = (ctypes.c_char_p * len(stops))(*stops)
        sampling = np.array((_SAMPLING.itemsize, number(temperature, "temperature"), natural(seed, "seed"), natural(top_k, "top_k"),
                             number(top_p, "top_p"), ends.ctypes.data, len(ends), ctypes.addressof(texts), len(stops)), _SAMPLING)
        self._handle = Handle("generation")
        native.generation_create(self._context.value if stream else context(), self._model.value, flat, lengths, len(prompts), count, sampling,
                                 int(text), self._handle.into)

    def pieces(self) -> Iterator[Tuple[int, Any]]:
        """(prompt, piece of text or token)"""
        while True:
            native.generation_next(self._handle.value, self._additions, self._additions.itemsize, self._made)
            if not self._made[0]:
                return
            for _, prompt, token, _, text, size in self._additions[: int(self._made[0])].tolist():
                if self._text and size:
                    yield prompt, ctypes.string_at(text, size).decode()
                elif not self._text and token >= 0:
                    yield prompt, token
