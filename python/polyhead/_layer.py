"""The multi-head layer on arrays of NumPy."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, overload

import numpy as np

from ._attention import LogitStage, StatisticsSet, chosen, struct_of
from ._errors import DTypeError, InvalidValueError, ShapeError
from ._library import native
from ._numbers import flag, whole
from ._options import options_of
from ._results import ABSENT, Summary, notebook_html
from ._statistics import HeadStatistics
from ._tensors import as_array, dtype_code, is_torch, owned_array, result_array

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ContractOptions

_Shape, _Inputs, _Wants = map(struct_of, ("layer_shape", "layer_inputs", "layer_wants"))


class Rotary(NamedTuple):
    """Rotary position embedding: pairs of columns of every head of q and k are rotated by angles that grow with the position.

    dim          how many columns are rotated, from the first on; 0: all
    interleaved  pairs are columns 2c and 2c + 1, as in GPT-J, not c and c + dim/2, as in Llama
    scaling_*    pairs turn more slowly by the factor: those that turn `fast` times or more within `context` positions keep their
                 pace, those that turn fewer than `slow` times are slowed in full (Llama 3); context 0: all are, linearly
    factors      f32 [dim/2]: slow each pair down further
    """

    dim: int = 0
    base: float = 10000.0
    interleaved: bool = False
    scaling_factor: float = 1.0
    scaling_slow: float = 1.0
    scaling_fast: float = 4.0
    scaling_context: int = 0
    factors: Any = None


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
    heads: np.ndarray = ABSENT  # [B,T,H*D]: the heads side by side, before W_O; also with training=True
    lse: np.ndarray = ABSENT  # [B,H,T]; also with training=True
    weights: np.ndarray = ABSENT  # [B,H,T,S], or of the heads and rows that were chosen
    logits: np.ndarray = ABSENT  # shaped like weights
    statistics: HeadStatistics = ABSENT
    row_statistics: HeadStatistics = ABSENT
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

    def __init__(self, layer, inputs):
        self.layer, self.inputs = layer, inputs

    def forward(self, wants):
        self.results = native.layer_forward(self.layer._handle, self.inputs, wants)
        get = lambda name, there=True: result_array(self.results, name) if there else None  # noqa: E731
        statistics = lambda name, there: HeadStatistics(get(name)) if there else None  # noqa: E731
        return MultiHeadResults(
            get("output"), get("heads", wants.training or wants.heads), get("lse", wants.training or wants.lse),
            get("weights", wants.weights), get("logits", wants.logits), statistics("statistics", wants.statistics),
            statistics("row_statistics", wants.row_statistics), self if wants.training else None)

    def backward(self, doutput):
        if doutput is None:
            raise DTypeError("doutput: expected an array of NumPy, or with DLPack, found None")
        found = native.layer_backward(self.layer._handle, self.inputs, self.results, doutput)
        get = lambda name, there: result_array(found, name) if there is not None else None  # noqa: E731
        given, options = self.inputs, self.inputs.attention
        return MultiHeadGradients(
            get("dquery", given.query), get("dkey", given.key), get("dvalue", given.value),
            {name: result_array(found, name) for name in self.layer.parameters},
            get("dbias", options.bias), get("dsink_logit", options.sink_logit), get("dgates", options.gates))


class MultiHeadAttention:
    """The layer: MultiHead(Q, K, V) = Concat(head_1 ... head_h) W_O on arrays of NumPy, with its gradients.

    width       of the query and of the output, C
    heads       H; each has head_dim = width / heads columns unless said otherwise
    kv_heads    G, which divides heads: how many heads of keys and values there are (default: as many as heads)
    key_width, value_width    where the key and the value are not as wide as the query
    qk_norm     whether every head of q and k goes through an RMSNorm, before rotary
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
                 key_width: Optional[int] = None, value_width: Optional[int] = None, bias: bool = True, qk_norm: bool = False,
                 dtype: Any = np.float32, seed: int = 0):
        flag(bias, "bias"), flag(qk_norm, "qk_norm")
        self.width, self.heads = whole(width, "width", 1), whole(heads, "heads", 1)
        self.kv_heads = self.heads if kv_heads is None else whole(kv_heads, "kv_heads", 1)
        self.key_width = self.width if key_width is None else whole(key_width, "key_width", 1)
        self.value_width = self.width if value_width is None else whole(value_width, "value_width", 1)
        self.dtype, code = _float_type(dtype)
        shape = _Shape(self.width, self.heads, self.kv_heads, 0 if head_dim is None else whole(head_dim, "head_dim", 1),
                       self.key_width, self.value_width, not bias, qk_norm)
        self._handle = native.layer_create(shape, *code, seed)
        self.parameters: Dict[str, np.ndarray] = {
            name: owned_array(self._handle, *native.layer_parameter(self._handle, name))
            for name in native.layer_parameter_names(self._handle)}
        self.head_dim = self.parameters["out_proj.weight"].shape[1] // self.heads

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
                "value_width": self.value_width, "bias": "out_proj.bias" in self.parameters,
                "qk_norm": "q_norm.weight" in self.parameters, "dtype": self.dtype}
        return _rebuilt, (self.width, self.heads, made, self.state_dict())

    @overload
    def __call__(self, query: Any, key: Any = ..., value: Any = ..., *, rotary: Optional[Rotary] = ..., query_positions: Any = ...,
                 key_positions: Any = ..., qk_norm_epsilon: float = ..., output_dropout: float = ..., output_seed: int = ...,
                 output_origin: Optional[Tuple[int, ...]] = ..., weights: Literal[False] = ..., statistics: None = ...,
                 training: Literal[False] = ..., heads: Literal[False] = ..., lse: Literal[False] = ..., logits: None = ...,
                 row_statistics: Literal[False] = ...,
                 **options: "Unpack[ContractOptions]") -> np.ndarray: ...

    @overload
    def __call__(self, query: Any, key: Any = ..., value: Any = ..., *, rotary: Optional[Rotary] = ..., query_positions: Any = ...,
                 key_positions: Any = ..., qk_norm_epsilon: float = ..., output_dropout: float = ..., output_seed: int = ...,
                 output_origin: Optional[Tuple[int, ...]] = ..., weights: bool = ..., statistics: Optional[StatisticsSet] = ...,
                 training: bool = ..., heads: bool = ..., lse: bool = ..., logits: Optional[LogitStage] = ...,
                 row_statistics: bool = ..., weights_f32: bool = ...,
                 weight_heads: Optional[Sequence[int]] = ..., weight_rows: Optional[Sequence[int]] = ..., marked_keys: Any = ...,
                 target_keys: Any = ..., **options: "Unpack[ContractOptions]") -> MultiHeadResults: ...

    def __call__(self, query: Any, key: Any = None, value: Any = None, *, rotary: Optional[Rotary] = None,
                 query_positions: Any = None, key_positions: Any = None, qk_norm_epsilon: float = 1e-6,
                 output_dropout: float = 0.0, output_seed: int = 0, output_origin: Optional[Tuple[int, ...]] = None,
                 weights: bool = False, statistics: Optional[StatisticsSet] = None, training: bool = False, heads: bool = False,
                 lse: bool = False, logits: Optional[LogitStage] = None, row_statistics: bool = False, weights_f32: bool = False,
                 weight_heads: Optional[Sequence[int]] = None, weight_rows: Optional[Sequence[int]] = None, marked_keys: Any = None,
                 target_keys: Any = None, **options: "Unpack[ContractOptions]") -> Union[np.ndarray, MultiHeadResults]:
        """The output [B,T,C] for query [B,T,C], key [B,S,key_width] and value [B,S,value_width].

        The key defaults to the query, the value to the key. `rotary` rotates q and k by their positions, i32 [T] or [B,T]
        (default: 0, 1, 2 ...). `output_dropout` applies after W_O; `output_origin` says where the call begins
        in a larger one, by its sequence and row. Options are those of polyhead.attention: causal, keep, gates and the rest.

        If more is wanted, returns MultiHeadResults: with `training` what backward() needs; `heads`, what each makes before W_O;
        and as in polyhead.attention `lse`, `weights` and `logits` (of all or of the chosen weight_heads and weight_rows),
        `statistics` ("light" or "full") and `row_statistics`.
        """
        given = [_input(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value"))]
        if given[0] is None:
            raise DTypeError("query: expected an array of NumPy, or with DLPack, found None")
        positions = [as_array(x, name) for x, name in ((query_positions, "query_positions"), (key_positions, "key_positions"))]
        inputs = _Inputs(*given, options_of("MultiHeadAttention", dict(options)).in_arrays(), output_dropout, output_seed,
                         qk_norm_epsilon, _rotary(rotary), *positions, output_origin)
        wants = _Wants(training, weights, statistics, heads, lse, row_statistics, weights_f32, logits,
                       chosen(weight_heads, "weight_heads"), chosen(weight_rows, "weight_rows"), as_array(marked_keys, "marked_keys"),
                       as_array(target_keys, "target_keys"))
        found = _Call(self, inputs).forward(wants)
        more = weights or statistics or training or heads or lse or logits or row_statistics
        return found if more else found.output


def _rotary(given):
    if given is None or isinstance(given, Rotary):
        return given
    raise DTypeError(f"rotary: expected polyhead.Rotary, found {type(given).__name__}")


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
