"""The multi-head layer on arrays of NumPy."""

import ctypes
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Literal, Mapping, Optional, Tuple, Union, overload

import numpy as np

from ._attention import StatisticsSet, statistics_word
from ._errors import DTypeError, InvalidValueError, ShapeError
from ._library import Arena, Handle, context, function, pointers
from ._numbers import flag, number, whole
from ._options import options_of
from ._results import ABSENT, Summary, notebook_html
from ._statistics import HeadStatistics
from ._tensors import as_array, dtype_code, is_torch, result_array, tensor, view_array

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ContractOptions

_create = function("polyhead_layer_create")
_parameter = function("polyhead_layer_parameter")
_parameter.raw.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_forward = pointers(function("polyhead_layer_forward"), 5)
_backward = pointers(function("polyhead_layer_backward"), 6)

# polyhead_layer_shape, polyhead_layer_inputs and polyhead_layer_wants.
_SHAPE = struct.Struct("<Q6qi4x")
_INPUTS = struct.Struct("<5QdQ")
_WANTS = struct.Struct("<Q3i4x")


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


_create.raw.argtypes = [ctypes.c_void_p, ctypes.c_void_p, _DType, ctypes.c_uint64, ctypes.c_void_p]


@dataclass(repr=False)
class MultiHeadGradients(Summary):
    """What MultiHeadResults.backward() returns; those of what was not given are None."""

    dquery: np.ndarray
    dkey: np.ndarray
    dvalue: np.ndarray
    parameters: Dict[str, np.ndarray]  # by their names in MultiHeadAttention.parameters
    dbias: np.ndarray = ABSENT
    dsink_logit: np.ndarray = ABSENT
    dgates: np.ndarray = ABSENT  # per sequence, [B,H]


@dataclass(repr=False)
class MultiHeadResults(Summary):
    """What a call of MultiHeadAttention was asked for; the rest is None."""

    output: np.ndarray  # [B,T,C]
    heads: np.ndarray = ABSENT  # [B,T,H*D]: the heads side by side, before W_O; with training=True
    lse: np.ndarray = ABSENT  # [B,H,T]; with training=True
    weights: np.ndarray = ABSENT  # [B,H,T,S]
    statistics: HeadStatistics = ABSENT
    _call: Any = field(default=None, repr=False)  # what backward() needs

    def _repr_html_(self) -> str:
        return notebook_html(self)

    def backward(self, doutput: np.ndarray) -> MultiHeadGradients:
        """Gradients from that of the output [B,T,C], of a call with training=True."""
        if self._call is None:
            raise InvalidValueError("backward: expected the results of a call with training=True, found others")
        return self._call.backward(doutput)


class _Call:
    """The arguments of a forward pass, which the backward pass takes again."""

    def __init__(self, layer, inputs, options, output_dropout, output_seed):
        self.layer, self.inputs, self.options, self.dropout = layer, inputs, options, (output_dropout, output_seed)
        self.settings = options.settings()
        self.results = Handle("results")

    def pack(self, arena):
        tensors = [tensor(arena, x, name) for x, name in zip(self.inputs, ("query", "key", "value"))]
        return arena.pack(_INPUTS, _INPUTS.size, *tensors, self.options.pack(arena, self.settings), *self.dropout)

    def forward(self, training, weights, sets):
        arena = Arena()
        wants = arena.pack(_WANTS, _WANTS.size, training, weights, sets)
        _forward(context(), self.layer._handle.value, self.pack(arena), wants, self.results.into)
        get = lambda name, there: result_array(self.results, name) if there else None  # noqa: E731
        return MultiHeadResults(get("output", True), get("heads", training), get("lse", training), get("weights", weights),
                                HeadStatistics(get("statistics", True)) if sets else None, self if training else None)

    def backward(self, doutput):
        arena, found = Arena(), Handle("results")
        _backward(context(), self.layer._handle.value, self.pack(arena), self.results.value,
                  tensor(arena, doutput, "doutput"), found.into)
        get = lambda name, there: result_array(found, name) if there is not None else None  # noqa: E731
        query, key, value = self.inputs
        options = self.options
        return MultiHeadGradients(
            get("dquery", query), get("dkey", key), get("dvalue", value),
            {name: result_array(found, name) for name in self.layer.parameters},
            get("dbias", options.bias), get("dsink_logit", options.sink_logit), get("dgates", options.gates))


class MultiHeadAttention:
    """The layer: MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O on arrays of NumPy, with its gradients.

    width       of the query and of the output, C
    heads       H; each has head_dim = width / heads columns unless said otherwise
    kv_heads    G, which divides heads: how many heads of keys and values there are (default: as many as heads)
    key_width, value_width    where the key and the value are not as wide as the query
    parameters  by the names and with the layouts of torch.nn.MultiheadAttention: arrays that can be written to

    Initialised from the seed as torch's layer is. polyhead.torch.MultiheadAttention is the layer for PyTorch.

    >>> import numpy as np, polyhead
    >>> layer = polyhead.MultiHeadAttention(16, 4, seed=1)
    >>> x = np.random.default_rng(0).standard_normal((2, 10, 16), dtype=np.float32)
    >>> layer(x, causal=True).shape
    (2, 10, 16)
    >>> found = layer(x, causal=True, weights=True, statistics="light", training=True)
    >>> found.weights.shape, found.statistics.entropy.shape
    ((2, 4, 10, 10), (4,))
    >>> gradients = found.backward(np.ones_like(x))
    >>> gradients.parameters["in_proj_weight"].shape
    (48, 16)
    >>> layer(x, gates=np.array([1, 1, 0, 1], np.float32)).shape  # without head 2
    (2, 10, 16)
    """

    def __init__(self, width: int, heads: int, *, kv_heads: Optional[int] = None, head_dim: Optional[int] = None,
                 key_width: Optional[int] = None, value_width: Optional[int] = None, bias: bool = True,
                 dtype: Any = np.float32, seed: int = 0):
        flag(bias, "bias")
        self.width, self.heads = whole(width, "width", 1), whole(heads, "heads", 1)
        self.kv_heads = self.heads if kv_heads is None else whole(kv_heads, "kv_heads", 1)
        self.key_width = self.width if key_width is None else whole(key_width, "key_width", 1)
        self.value_width = self.width if value_width is None else whole(value_width, "value_width", 1)
        self.dtype, code = _float_type(dtype)
        arena = Arena()
        shape = arena.pack(_SHAPE, _SHAPE.size, self.width, self.heads, self.kv_heads,
                           0 if head_dim is None else whole(head_dim, "head_dim", 1), self.key_width, self.value_width, not bias)
        self._handle = Handle("layer")
        _create(context(), shape, _DType(*code, 1), whole(seed, "seed", 0, 2**64 - 1), self._handle.into)
        self.parameters: Dict[str, np.ndarray] = {name: self._parameter(name) for name in self._names(bias)}
        self.head_dim = self.parameters["out_proj.weight"].shape[1] // self.heads

    def _names(self, bias):
        packed = self.key_width == self.width == self.value_width
        weights = ["in_proj_weight"] if packed else ["q_proj_weight", "k_proj_weight", "v_proj_weight"]
        return weights + (["in_proj_bias", "out_proj.weight", "out_proj.bias"] if bias else ["out_proj.weight"])

    def _parameter(self, name):
        return view_array(self._handle, lambda into: _parameter(self._handle.value, name.encode(), into))

    def __repr__(self):
        return (f"<polyhead.MultiHeadAttention: width {self.width}, {self.heads} heads of {self.head_dim}, "
                f"{self.parameter_count:,} parameters, {self.dtype.name}>")

    @property
    def parameter_count(self) -> int:
        return sum(x.size for x in self.parameters.values())

    def state_dict(self) -> Dict[str, np.ndarray]:
        """Copies of the parameters, by their names in torch."""
        return {name: x.copy() for name, x in self.parameters.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the parameters over, from arrays or tensors: the state dict of a torch.nn.MultiheadAttention will do."""
        if not isinstance(state, Mapping):
            raise DTypeError(f"state: expected arrays by their names, found {type(state).__name__}")
        if set(state) != set(self.parameters):
            raise InvalidValueError(f"load_state_dict: expected {', '.join(self.parameters)}, found {', '.join(map(str, state))}")
        given = {name: _on_host(state[name], name) for name in self.parameters}
        for name, mine in self.parameters.items():
            if given[name].shape != mine.shape:
                raise ShapeError(f"load_state_dict: expected {name} of shape {mine.shape}, found {given[name].shape}")
        for name, mine in self.parameters.items():
            mine[...] = given[name]

    def __reduce__(self):
        made = {"kv_heads": self.kv_heads, "head_dim": self.head_dim, "key_width": self.key_width,
                "value_width": self.value_width, "bias": "out_proj.bias" in self.parameters, "dtype": self.dtype}
        return _rebuilt, (self.width, self.heads, made, self.state_dict())

    @overload
    def __call__(self, query: Any, key: Any = ..., value: Any = ..., *, weights: Literal[False] = ..., statistics: None = ...,
                 training: Literal[False] = ..., output_dropout: float = ..., output_seed: int = ...,
                 **options: "Unpack[ContractOptions]") -> np.ndarray: ...

    @overload
    def __call__(self, query: Any, key: Any = ..., value: Any = ..., *, weights: bool = ...,
                 statistics: Optional[StatisticsSet] = ..., training: bool = ..., output_dropout: float = ...,
                 output_seed: int = ..., **options: "Unpack[ContractOptions]") -> MultiHeadResults: ...

    def __call__(self, query: Any, key: Any = None, value: Any = None, *, weights: bool = False,
                 statistics: Optional[StatisticsSet] = None, training: bool = False, output_dropout: float = 0.0,
                 output_seed: int = 0, **options: "Unpack[ContractOptions]") -> Union[np.ndarray, MultiHeadResults]:
        """The output [B,T,C] for query [B,T,C], key [B,S,key_width] and value [B,S,value_width].

        The key defaults to the query, the value to the key. If more is wanted, returns MultiHeadResults: `weights`,
        `statistics` ("light" or "full"), and with `training` what backward() needs, including the heads before W_O. Options
        are those of polyhead.attention: causal, keep, gates and the rest. `output_dropout` applies after W_O.
        """
        for value_of, name in ((weights, "weights"), (training, "training")):
            flag(value_of, name)
        sets = statistics_word(statistics)
        inputs = tuple(_input(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value")))
        if inputs[0] is None:
            raise DTypeError("query: expected an array of NumPy, or with DLPack, found None")
        call = _Call(self, inputs, options_of("MultiHeadAttention", dict(options)).in_arrays(), number(output_dropout, "output_dropout"),
                     whole(output_seed, "output_seed", 0, 2**64 - 1))
        found = call.forward(training, weights, sets)
        return found if weights or sets or training else found.output


def _rebuilt(width, heads, made, state):
    layer = MultiHeadAttention(width, heads, **made)
    layer.load_state_dict(state)
    return layer


def _float_type(dtype: Any) -> Tuple[np.dtype, Tuple[int, int]]:
    """And its code in C."""
    try:
        found = np.dtype(dtype)
        code = dtype_code(found) if found.kind == "f" else None
    except TypeError:
        code = None
    if code is None:
        raise DTypeError(f"dtype: expected float16, float32 or float64, found {dtype!r}")
    return found, code


def _input(x, name):
    found = as_array(x, name)
    if is_torch(found):
        raise DTypeError(f"{name}: expected an array of NumPy, found a tensor of torch; polyhead.torch.MultiheadAttention takes those")
    return found


def _on_host(x, name):
    try:
        found = np.asarray(x.detach().cpu().double() if is_torch(x) else x)  # NumPy has no bfloat16
    except (TypeError, ValueError) as error:
        raise DTypeError(f"load_state_dict: expected floating-point numbers for {name}, found {type(x).__name__}: {error}") from error
    if found.dtype.kind != "f":
        raise DTypeError(f"load_state_dict: expected floating-point numbers for {name}, found {found.dtype}")
    return found
