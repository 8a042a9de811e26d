"""The library behind the package, by its module for Python, `_native`.

The module is compiled against polyhead_c.h; python/native says what each of its functions takes.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any, Dict

import numpy as np

from ._errors import InvalidValueError

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


def record(name: str) -> np.dtype:
    """A struct of the library's as a type of NumPy's: `name` without polyhead_."""
    return np.dtype(native.records[name])


class Handle:
    """Owns something of the library, and gives it back when nobody holds it any more: a call that runs holds it too."""

    def __init__(self, kind):
        self._free = getattr(native, f"{kind}_free")
        self.into = np.zeros(1, np.uint64)  # where a call puts the address

    @property
    def value(self):
        return int(self.into[0])

    def __del__(self):
        if self.value:
            self._free(self.value)


def context():
    """The address of this thread's context."""
    return native.context_address()
