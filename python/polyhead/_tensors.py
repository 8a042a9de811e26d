"""Arrays of others as tensors of the library, without a copy: NumPy, PyTorch, and whatever speaks DLPack."""

import ctypes
import struct
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._errors import DeviceError, DTypeError, LayoutError, OutOfMemoryError, ShapeError
from ._library import CUDA, Arena, context, cuda_context, function, pack_tensor

_VIEW = struct.Struct("<QiiiBBHQQQ12q")  # polyhead_view
_get = function("polyhead_results_get")
_get.raw.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

# NumPy's types by (kind, bytes), as DLPack's (code, bits).
_NUMPY = {
    ("f", 2): (2, 16),
    ("f", 4): (2, 32),
    ("f", 8): (2, 64),
    ("i", 4): (0, 32),
    ("i", 8): (0, 64),
    ("b", 1): (6, 8),
}
_NUMPY_BY_DTYPE: Dict[Any, Tuple[int, int]] = {}  # filled as types are met: a dictionary's answer is faster than a dtype's attributes
_NUMPY_BACK = {(2, 16): np.float16, (2, 32): np.float32, (2, 64): np.float64, (0, 32): np.int32, (0, 64): np.int64, (6, 8): np.bool_}


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _torch_types():
    torch = sys.modules["torch"]
    return {
        torch.float16: (2, 16),
        torch.bfloat16: (4, 16),
        torch.float32: (2, 32),
        torch.float64: (2, 64),
        torch.int32: (0, 32),
        torch.int64: (0, 64),
        torch.bool: (6, 8),
    }


_torch_by_dtype: Dict[Any, Tuple[int, int]] = {}


def dtype_code(dtype: np.dtype) -> Optional[Tuple[int, int]]:
    """A type of NumPy's as DLPack's (code, bits), or None."""
    return _NUMPY.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None


def _of_numpy(arena, x, name, writable):
    dtype = _NUMPY_BY_DTYPE.get(x.dtype)
    if dtype is None:
        dtype = dtype_code(x.dtype)
        if dtype is None:
            raise DTypeError(
                f"{name}: expected float16, float32, float64, int32, int64 or bool, found a NumPy array of {x.dtype}"
            )
        _NUMPY_BY_DTYPE[x.dtype] = dtype
    if x.ndim > 6:
        raise ShapeError(f"{name}: expected up to 6 axes, found shape {x.shape}")
    flags = x.flags
    if writable and not flags.writeable:
        raise LayoutError(f"{name}: expected an array that can be written to, found a read-only one")
    strides = None
    if not flags.c_contiguous:
        size = x.itemsize
        if any(stride % size for stride in x.strides):
            raise LayoutError(f"{name}: expected strides that are multiples of {size} bytes, found {x.strides}; copy the array")
        strides = [stride // size for stride in x.strides]
    arena.kept.append(x)
    return pack_tensor(arena, x.__array_interface__["data"][0], dtype, x.shape, strides)


def _of_torch(arena, x, name):
    if not _torch_by_dtype:
        _torch_by_dtype.update(_torch_types())
    dtype = _torch_by_dtype.get(x.dtype)
    if dtype is None:
        raise DTypeError(
            f"{name}: expected float16, bfloat16, float32, float64, int32, int64 or bool, found a tensor of {x.dtype}"
        )
    if type(x) is not sys.modules["torch"].Tensor:
        from ._kinds_of_tensors import expect_numbers  # only where there is torch

        expect_numbers(x, name)
    if x.layout is not sys.modules["torch"].strided:
        raise LayoutError(f"{name}: expected a dense tensor, found {x.layout}; use to_dense()")
    if x.dim() > 6:
        raise ShapeError(f"{name}: expected up to 6 axes, found shape {tuple(x.shape)}")
    arena.kept.append(x)
    if x.is_cuda:
        return pack_tensor(arena, x.data_ptr(), dtype, x.shape, x.stride(), CUDA, x.device.index)
    if not x.is_cpu:
        raise DeviceError(f"{name}: expected a tensor on the CPU or on a GPU of CUDA, found one on {x.device}")
    return pack_tensor(arena, x.data_ptr(), dtype, x.shape, x.stride())


def context_of(x):
    """Where calls on x run: this thread's context, or that of torch's current stream on the GPU of x."""
    if is_torch(x) and x.is_cuda:
        return cuda_context(x.device.index, sys.modules["torch"].cuda.current_stream(x.device).cuda_stream)
    return context()


def address_of(x):
    """Of its data."""
    if type(x) is not np.ndarray:
        return x.data_ptr()
    flags = x.flags
    if flags.c_contiguous and flags.writeable and x.size:
        return ctypes.addressof(ctypes.c_char.from_buffer(x))  # NumPy's own answer takes twice as long
    return x.__array_interface__["data"][0]


def kind_of(x):
    """All that a packed tensor says beside its address."""
    if type(x) is np.ndarray:
        return x.dtype, x.shape, x.strides, x.flags.writeable
    return x.dtype, x.shape, x.stride(), x.device


_packed: Dict[Any, Any] = {}  # calls by kind: what was packed for the last one
_MOST_PACKED = 256


def call(function, inputs, outputs, settings, pack):
    """function(context, *pack(arena)), where pack() packs those of `inputs` and `outputs` that are not None, in this order.

    Calls of the same kind, that is with the same `settings` and tensors that differ in their addresses alone, are packed once.
    Settings are None for a call that is unlike others; they have been checked, since 1 and True are the same to a dictionary.
    """
    kind = known = None
    if settings is not None:
        try:
            kind = function, settings, *[None if x is None else kind_of(x) for x in (*inputs, *outputs)]
            known = _packed.pop(kind, None)  # nobody else has it while it is in use: no other thread, no finalizer
        except (AttributeError, RuntimeError, TypeError):  # no arrays: packing says so
            kind = None
    if known is None:
        arena = Arena()
        known = arena, pack(arena)
    else:
        arena = known[0]
        words, places = arena.words, iter(arena.tensors)
        for x in (*inputs, *outputs):
            if x is not None:
                words[next(places)] = address_of(x)
    function(context_of(inputs[0]), *known[1])
    if kind is not None:
        arena.kept.clear()
        if len(_packed) >= _MOST_PACKED:
            _packed.clear()
        _packed[kind] = known


def as_array(x: Any, name: str, in_torch: bool = False) -> Any:
    """x, or if it only speaks DLPack, a view of it: in NumPy, or in torch if that is asked for or NumPy has no such memory."""
    if isinstance(x, np.ndarray) or is_torch(x) or not hasattr(x, "__dlpack__"):
        return x
    refused: Any = "it is on a GPU"
    if not in_torch:
        try:
            if x.__dlpack_device__()[0] != CUDA:
                return np.from_dlpack(x)
        except Exception as error:  # another library's, of any kind
            refused = error
    try:
        import torch  # which has GPUs and bfloat16

        return torch.from_dlpack(x)
    except ImportError:
        raise DeviceError(f"{name}: expected memory that NumPy can read, or torch to be installed for others, found "
                          f"{type(x).__name__}: {refused}") from None
    except Exception as error:
        raise LayoutError(f"{name}: expected an array that exports its memory, found {type(x).__name__}: {error}") from error


def as_arrays(**arrays: Any) -> Tuple[List[Any], bool]:
    """as_array() of each by its name, in torch if one of them is; and whether one is now."""
    given = list(arrays.values())
    if all(type(x) is np.ndarray or x is None for x in given):
        return given, False
    in_torch = any(map(is_torch, given))
    found = [as_array(x, name, in_torch) for name, x in arrays.items()]
    return found, any(map(is_torch, found))


def expect_array(x: Any, name: str) -> Any:
    """as_array() of what must be an array."""
    found = x if type(x) is np.ndarray else as_array(x, name)
    if isinstance(found, np.ndarray) or is_torch(found):
        return found
    raise DTypeError(f"{name}: expected an array (NumPy, PyTorch or with DLPack), found {type(x).__name__}")


def tensor(arena: Arena, x: Any, name: str, writable: bool = False) -> int:
    """The address of a polyhead_tensor for x, or 0 for None."""
    if x is None:
        return 0
    if type(x) is np.ndarray or isinstance(x, np.ndarray):
        return _of_numpy(arena, x, name, writable)
    if is_torch(x):
        return _of_torch(arena, x, name)
    if writable:
        raise DTypeError(f"{name}: expected an array of NumPy or PyTorch to write to, found {type(x).__name__}")
    return tensor(arena, expect_array(x, name), name)


def empty(like: Any, shape: Tuple[int, ...], dtype: Any = None) -> Any:
    """A new array of the kind and on the device of `like`; dtype "stat" is that of statistics: f32, or f64 for f64."""
    if is_torch(like):
        torch = sys.modules["torch"]
        if dtype is None and shape == like.shape and like.is_contiguous():
            return torch.empty_like(like)
        if dtype == "stat":
            dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)
    if dtype == "stat":
        dtype = np.float64 if like.dtype == np.float64 else np.float32
    try:
        return np.empty(shape, dtype or like.dtype)
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(f"a result of shape {tuple(shape)}: expected memory for it; {error}") from error


class _Owned:
    """Memory of the library's, as an array that keeps its owner alive."""

    def __init__(self, owner, pointer, shape, code, bits):
        self._owner = owner
        self.__array_interface__ = {
            "data": (pointer, False),
            "shape": shape,
            "typestr": np.dtype(_NUMPY_BACK[(code, bits)]).str,
            "version": 3,
        }


def view_array(owner: Any, fill: Callable[[int], None]) -> np.ndarray:
    """The row-major tensor of the host's that fill(address of a polyhead_view) describes, as a NumPy array."""
    view = ctypes.create_string_buffer(_VIEW.size)
    fill(ctypes.addressof(view))
    data, _, _, rank, code, bits, _, _, _, _, *shape = _VIEW.unpack(view.raw)
    return np.asarray(_Owned(owner, data, tuple(shape[:rank]), code, bits))


def result_array(results: Any, name: str) -> np.ndarray:
    """A tensor among results that the library allocated."""
    return view_array(results, lambda into: _get(results.value, name.encode(), into))
