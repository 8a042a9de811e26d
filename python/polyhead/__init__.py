"""Multi-head attention that you can see through.

    >>> import numpy as np, polyhead
    >>> x = np.array([[[[1.0], [2.0], [3.0]], [[0.0], [0.0], [0.0]]]])  # [batch, heads, tokens, dim]
    >>> print(polyhead.attention(x, x, x, causal=True, statistics="light").statistics)
    head  entropy  normalised_entropy  max_weight  first_weight  self_weight  previous_weight  max_logit
    0       0.191               0.358       0.944         0.374        0.944            0.083      9.000
    1       0.597               1.000       0.611         0.611        0.611            0.417      0.000

polyhead.torch has a drop-in for torch.nn.MultiheadAttention, polyhead.transformers watches the heads of models of Hugging
Face's library, which take attn_implementation="polyhead".
"""

from ._attention import Attention, Gradients, Origin, Window, attention, attention_backward, explain, merge_attention, statistics
from ._errors import (
    DeviceError,
    DTypeError,
    Error,
    InputError,
    InternalError,
    InvalidValueError,
    IOError,
    LayoutError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from ._heads import Estimate, HeadImportance, HeadTable, PatchedHead, Patching, PruneCurve, PruneStep, SurveyedHead
from ._layer import MultiHeadAttention, MultiHeadGradients, MultiHeadResults, Rotary
from ._library import info, set_threads, synchronise, threads, version as __version__
from ._model import Examples, Model, load
from ._page import Page
from ._registration import when_transformers_come
from ._statistics import HeadStatistics
from ._text import Tokenizer

__all__ = [
    "Attention",
    "DTypeError",
    "DeviceError",
    "Error",
    "Estimate",
    "Examples",
    "Gradients",
    "HeadImportance",
    "HeadStatistics",
    "HeadTable",
    "IOError",
    "InputError",
    "InternalError",
    "InvalidValueError",
    "LayoutError",
    "Model",
    "MultiHeadAttention",
    "MultiHeadGradients",
    "MultiHeadResults",
    "Origin",
    "OutOfMemoryError",
    "Page",
    "PatchedHead",
    "Patching",
    "PruneCurve",
    "PruneStep",
    "Rotary",
    "ShapeError",
    "SurveyedHead",
    "Tokenizer",
    "UnsupportedError",
    "Window",
    "attention",
    "attention_backward",
    "explain",
    "info",
    "load",
    "merge_attention",
    "set_threads",
    "statistics",
    "synchronise",
    "threads",
]

when_transformers_come()
