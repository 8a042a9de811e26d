"""The shared library, and calls into it.

A call's structs (polyhead_c.h) are packed into one buffer: this takes a few microseconds, where a ctypes.Structure for each
would take several times as long as a small attention.
"""

import ctypes
import os
import struct
import threading
from pathlib import Path
from typing import Any, Dict, List, Tuple

from ._errors import InvalidValueError, raise_for

FULL_STATISTICS = 25
LIGHT_STATISTICS = 14


def _open():
    named = os.environ.get("POLYHEAD_LIBRARY")
    path = Path(named) if named else next(iter(sorted(Path(__file__).parent.glob("libpolyhead_c.so*"))), None)
    if path is None:
        raise ImportError(
            f"polyhead: no libpolyhead_c.so in {Path(__file__).parent}; install the package with pip, or name the "
            "library in POLYHEAD_LIBRARY"
        )
    try:
        return ctypes.CDLL(str(path)), path
    except OSError as error:
        raise ImportError(f"polyhead: cannot load {path}: {error}") from error


_library, _path = _open()
for _name in ("polyhead_last_error", "polyhead_version", "polyhead_statistic_name"):
    getattr(_library, _name).restype = ctypes.c_char_p
for _name in ("polyhead_context_free", "polyhead_results_free", "polyhead_layer_free", "polyhead_model_free"):
    getattr(_library, _name).restype = None

version = _library.polyhead_version().decode()
statistic_names = tuple(_library.polyhead_statistic_name(n).decode() for n in range(FULL_STATISTICS))


def function(name: str) -> Any:
    """A function of the library that raises what it reports. Pointers are passed as integers, or None."""
    call = getattr(_library, name)

    def checked(*arguments):
        status = call(*arguments)
        if status:
            raise_for(status, _library.polyhead_last_error().decode(errors="replace"))

    checked.raw = call  # type: ignore[attr-defined]
    return checked


def pointers(call: Any, count: int) -> Any:
    """Declares the first `count` arguments of a function to be pointers."""
    call.raw.argtypes = [ctypes.c_void_p] * count
    return call


class Handle:
    """Owns something of the library, and gives it back when nobody holds it any more: a call that runs holds it too."""

    def __init__(self, kind):
        self._free = getattr(_library, f"polyhead_{kind}_free")
        self._free.argtypes = [ctypes.c_void_p]
        self._pointer = ctypes.c_void_p()

    @property
    def into(self):
        return ctypes.addressof(self._pointer)

    @property
    def value(self):
        return self._pointer.value

    def __del__(self):
        if self._pointer.value:
            self._free(self._pointer)


class Arena:
    """Memory of one call: structs that point to each other."""

    def __init__(self, size: int = 4096):
        self.words = (ctypes.c_uint64 * (size // 8))()
        self.tensors: List[int] = []  # the words that hold the addresses of their data, in the order of packing
        self._at = ctypes.addressof(self.words)
        self._used = 0
        self.kept: List[Any] = []  # what the structs point to outside

    def pack(self, layout: struct.Struct, *values: Any) -> int:
        """The address of the packed values."""
        where = self._used
        self._used = (where + layout.size + 7) & ~7
        if self._used > 8 * len(self.words):
            raise MemoryError("a call with more tensors than expected")
        layout.pack_into(self.words, where, *values)
        return self._at + where

    def array(self, array: Any) -> int:
        """The address of a contiguous NumPy array, which is kept alive."""
        self.kept.append(array)
        return array.ctypes.data


_TENSORS = [struct.Struct(f"<QiiiBBHQQQ{2 * rank}q") for rank in range(7)]  # the tensor, its shape, its strides
_ROW_MAJOR = [struct.Struct(f"<QiiiBBHQQQ{rank}q") for rank in range(7)]
_TENSOR_SIZE = struct.calcsize("<QiiiBBHQQQ")


HOST, CUDA = 1, 2  # DLPack's numbers


def pack_tensor(arena, data, dtype, shape, strides, kind=HOST, index=0):
    """A polyhead_tensor on that device: dtype (code, bits), strides in elements, or None if row-major."""
    rank = len(shape)
    arena.tensors.append(arena._used // 8)
    shape_at = arena._at + arena._used + _TENSOR_SIZE
    if strides is None:
        return arena.pack(_ROW_MAJOR[rank], data, kind, index, rank, dtype[0], dtype[1], 1, shape_at, 0, 0, *shape)
    return arena.pack(
        _TENSORS[rank], data, kind, index, rank, dtype[0], dtype[1], 1, shape_at, shape_at + 8 * rank, 0, *shape, *strides
    )


_create = function("polyhead_context_create")
_create.raw.argtypes = [ctypes.c_int, ctypes.c_void_p]
_create_cuda = function("polyhead_context_create_cuda")
_create_cuda.raw.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_synchronise = pointers(function("polyhead_context_synchronise"), 1)
_threads = function("polyhead_context_threads").raw
_threads.argtypes = [ctypes.c_void_p]


class _Contexts(threading.local):
    def __init__(self):
        self.by_threads = {}


_contexts = _Contexts()
_thread_count = 0


def set_threads(count: int) -> None:
    """How many threads calls use from now on; 0: one per processor that this process may use.

    >>> import polyhead
    >>> polyhead.set_threads(2)
    >>> polyhead.threads()
    2
    """
    global _thread_count
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**15:
        raise InvalidValueError(f"set_threads: expected a count from 0 to {2**15 - 1}, found {count!r}")
    _thread_count = count


def context():
    """This thread's context."""
    made = _contexts.by_threads.get(_thread_count)
    if made is None:
        made = Handle("context")
        _create(_thread_count, made.into)
        _contexts.by_threads[_thread_count] = made
    return made.value


_of_streams: Dict[Tuple[int, int], "Handle"] = {}  # by GPU and stream; threads share them, since the work of a stream is in one order anyway
_of_streams_lock = threading.Lock()


def cuda_context(index, stream):
    """The context of that GPU in the caller's stream, a cudaStream_t as an integer."""
    made = _of_streams.get((index, stream))
    if made is None:
        with _of_streams_lock:
            made = _of_streams.get((index, stream))
            if made is None:
                made = Handle("context")
                _create_cuda(index, stream, made.into)
                _of_streams[index, stream] = made
    return made.value


def synchronise() -> None:
    """Waits until all calls on GPUs are done, and raises what they found wrong in values: lengths, offsets, indices.

    Those that lie on a GPU are checked there, when the call that was given them has long returned.
    """
    for made in list(_of_streams.values()):
        _synchronise(made.value)


def viewer_folder():
    """Where the sources of the page are: beside the library."""
    return _path.parent / "viewer"


def threads() -> int:
    """How many threads a call of this thread uses."""
    return _threads(context())


def info() -> Dict[str, Any]:
    """The library's version, the vector instructions it uses, and why there is no GPU path (None if there is one)."""
    target, reason = ctypes.c_char_p(), ctypes.c_char_p()
    _info(ctypes.byref(target), ctypes.byref(reason))
    return {"version": version, "target": (target.value or b"").decode(), "no_cuda_reason": (reason.value or b"").decode() or None}


_info = function("polyhead_info")
