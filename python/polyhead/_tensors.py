"""Arrays of others as tensors of the library, without a copy: NumPy, PyTorch, and whatever speaks DLPack."""

import sys
from typing import Any, List, Optional, Tuple

import numpy as np

from ._errors import DeviceError, DTypeError, LayoutError, OutOfMemoryError, ShapeError
from ._library import Handle, native, record

HOST, CUDA = 1, 2  # DLPack's numbers
_TENSOR = record("tensor")

# NumPy's types by (kind, bytes), as DLPack's (code, bits).
_NUMPY = {
    ("f", 2): (2, 16),
    ("f", 4): (2, 32),
    ("f", 8): (2, 64),
    ("i", 4): (0, 32),
    ("i", 8): (0, 64),
    ("b", 1): (6, 8),
}
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


def dtype_code(dtype: np.dtype) -> Optional[Tuple[int, int]]:
    """A type of NumPy's as DLPack's (code, bits), or None."""
    return _NUMPY.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None


def described(x: Any, name: str, writable: bool) -> Tuple[Any, ...]:
    """What the module does not see at a glance: (data, device type, device index, code, bits, shape, strides, what to keep).

    The strides are in elements, or None if row-major. Tensors of torch that kernels cannot read as they lie are copied.
    """
    if isinstance(x, np.ndarray):
        return _of_numpy(x, name, writable)
    if is_torch(x):
        return _of_torch(x, name, writable)
    if writable:
        raise DTypeError(f"{name}: expected an array of NumPy or PyTorch to write to, found {type(x).__name__}")
    return described(expect_array(x, name), name, False)


def _plain(x, name):
    """Of a subclass of NumPy's arrays (memmap, one of a user) the array that it is. One that hides some of its numbers is refused."""
    if isinstance(x, np.ma.MaskedArray):
        raise DTypeError(f"{name}: expected an array without a mask, found a {type(x).__name__}; use filled(), and hide keys by keep")
    return np.asarray(x)


def _of_numpy(x, name, writable):
    x = x if type(x) is np.ndarray else _plain(x, name)
    dtype = dtype_code(x.dtype)
    if dtype is None:
        raise DTypeError(f"{name}: expected float16, float32, float64, int32, int64 or bool, found a NumPy array of {x.dtype}")
    if x.ndim > 6:
        raise ShapeError(f"{name}: expected up to 6 axes, found shape {x.shape}")
    if writable and not x.flags.writeable:
        raise LayoutError(f"{name}: expected an array that can be written to, found a read-only one")
    size = x.itemsize
    if any(stride % size for stride in x.strides):
        raise LayoutError(f"{name}: expected strides that are multiples of {size} bytes, found {x.strides}; copy the array")
    strides = None if x.flags.c_contiguous else tuple(stride // size for stride in x.strides)
    return (x.__array_interface__["data"][0], HOST, 0, *dtype, x.shape, strides, x)


def _of_torch(x, name, writable):
    torch = sys.modules["torch"]
    dtype = _torch_types().get(x.dtype)
    if dtype is None:
        raise DTypeError(
            f"{name}: expected float16, bfloat16, float32, float64, int32, int64 or bool, found a tensor of {x.dtype}"
        )
    if type(x) is not torch.Tensor or x.is_nested:
        from ._kinds_of_tensors import expect_numbers  # only where there is torch

        expect_numbers(x, name)
    if x.layout is not torch.strided:
        raise LayoutError(f"{name}: expected a dense tensor, found {x.layout}; use to_dense()")
    if x.dim() > 6:
        raise ShapeError(f"{name}: expected up to 6 axes, found shape {tuple(x.shape)}")
    if not x.is_cuda and not x.is_cpu:
        raise DeviceError(f"{name}: expected a tensor on the CPU or on a CUDA GPU, found one on {x.device}")
    if not writable and x.dim() > 0 and (x.stride(-1) != 1 and x.shape[-1] > 1 or x.is_neg()):
        x = x.detach().clone(memory_format=torch.contiguous_format)  # contiguous() leaves an empty one as it is
    device = (CUDA, x.device.index) if x.is_cuda else (HOST, 0)
    return (x.data_ptr(), *device, *dtype, tuple(x.shape), x.stride(), x)


def current_stream(index: int) -> int:
    """torch's on that GPU, a cudaStream_t."""
    return sys.modules["torch"].cuda.current_stream(index).cuda_stream


def as_array(x: Any, name: str, in_torch: bool = False) -> Any:
    """x, or if it only speaks DLPack, a view of it: in NumPy, or in torch if that is asked for or NumPy has no such memory."""
    if isinstance(x, np.ndarray):
        return x if type(x) is np.ndarray else _plain(x, name)
    if is_torch(x) or not hasattr(x, "__dlpack__"):
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


class Tensors:
    """Tensors of the library's for contiguous arrays i32, or None, which structs point to: `at` has their addresses, or 0."""

    def __init__(self, *arrays: Optional[np.ndarray]):
        self._kept = arrays, [None if x is None else np.array(x.shape, np.int64) for x in arrays]
        self._records = np.zeros(len(arrays), _TENSOR)
        self.at = [0 if x is None else self._records.ctypes.data + n * _TENSOR.itemsize for n, x in enumerate(arrays)]
        for made, x, shape in zip(self._records, *self._kept):
            if x is not None and shape is not None:
                made["data"], made["device"]["type"], made["rank"], made["shape"] = x.ctypes.data, HOST, x.ndim, shape.ctypes.data
                made["dtype"]["code"], made["dtype"]["bits"], made["dtype"]["lanes"] = *_NUMPY[(x.dtype.kind, x.itemsize)], 1


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


def empty_like(like: Any) -> Any:
    """A new array of the same shape, type and device; of torch's it lies as `like` does, if rows lie together there."""
    if not is_torch(like):
        return empty(like, like.shape)
    found = sys.modules["torch"].empty_like(like)
    return found if like.dim() == 0 or found.stride(-1) == 1 or like.shape[-1] < 2 else empty(like, like.shape, like.dtype)


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


def owned_array(owner: Any, data: int, shape: Tuple[int, ...], code: int, bits: int) -> np.ndarray:
    """Row-major memory of the library's that lives as long as its owner."""
    return np.asarray(_Owned(owner, data, shape, code, bits))


def result_array(results: Any, name: str) -> np.ndarray:
    """A tensor of the host's among results that the library allocated, which it keeps alive."""
    return owned_array(results, *native.results_get(results.value if isinstance(results, Handle) else results, name))
