"""The library behind the package, by its module for Python, `_native`.

The module is compiled against polyhead_c.h; python/native says what each of its functions takes.
"""

import ctypes
import importlib.util
import os
import struct
from pathlib import Path
from typing import Any, Dict, List

from ._errors import InvalidValueError, raise_for

_MODULE = "_native.abi3.so"


def _open() -> Any:
    """From the package's folder, or from beside the library that is named."""
    named = os.environ.get("POLYHEAD_LIBRARY")
    path = (Path(named) if named else Path(__file__)).parent / _MODULE
    if not path.exists():
        raise ImportError(
            f"polyhead: no {_MODULE} in {path.parent}; install the package with pip, or name a library in POLYHEAD_LIBRARY "
            "that was built where Python's headers are (python3-dev), which has the module beside it")
    spec = importlib.util.spec_from_file_location("polyhead._native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(f"polyhead: cannot load {path}: {error}") from error
    return module, path.parent


native, folder = _open()

version: str = native.version
statistic_names = native.statistic_names
FULL_STATISTICS = len(statistic_names)
LIGHT_STATISTICS = native.light_statistics


def set_threads(count: int) -> None:
    """How many threads calls use from now on; 0: one per processor that this process may use.

    >>> import polyhead
    >>> polyhead.set_threads(2)
    >>> polyhead.threads()
    2
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**15:
        raise InvalidValueError(f"set_threads: expected a count from 0 to {2**15 - 1}, found {count!r}")
    native.set_threads(count)


def threads() -> int:
    """How many threads a call of this thread uses."""
    return native.threads()


def synchronise() -> None:
    """Waits until all calls on GPUs are done, and raises what they found wrong in values: lengths, offsets, indices.

    Those that lie on a GPU are checked there, when the call that was given them has long returned.
    """
    native.synchronise()


def viewer_folder():
    """Where the sources of the page are: beside the library."""
    return folder / "viewer"


def info() -> Dict[str, Any]:
    """The library's version, the vector instructions it uses, and why there is no GPU path (None if there is one)."""
    target, no_cuda_reason = native.info()
    return {"version": version, "target": target, "no_cuda_reason": no_cuda_reason or None}


# ---- Models are called through ctypes, with structs packed here. ----


def _open_library():
    named = os.environ.get("POLYHEAD_LIBRARY")
    return ctypes.CDLL(named or str(next(iter(sorted(folder.glob("libpolyhead_c.so*"))))))


_library = _open_library()
_library.polyhead_last_error.restype = ctypes.c_char_p
for _name in ("polyhead_results_free", "polyhead_model_free"):
    getattr(_library, _name).restype = None


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
    shape_at = arena._at + arena._used + _TENSOR_SIZE
    if strides is None:
        return arena.pack(_ROW_MAJOR[rank], data, kind, index, rank, dtype[0], dtype[1], 1, shape_at, 0, 0, *shape)
    return arena.pack(
        _TENSORS[rank], data, kind, index, rank, dtype[0], dtype[1], 1, shape_at, shape_at + 8 * rank, 0, *shape, *strides
    )


def context():
    """The address of this thread's context."""
    return native.context_address()
