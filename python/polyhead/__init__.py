"""Multi-head attention that you can see through.

    import numpy as np, polyhead
    x = np.random.default_rng(0).standard_normal((1, 4, 16, 8), dtype=np.float32)
    result = polyhead.attention(x, x, x, causal=True, statistics="light")
    print(result.statistics)

polyhead.torch has a drop-in for torch.nn.MultiheadAttention, polyhead.transformers watches the heads of models of Hugging
Face's library.
"""

from ._attention import Attention, Gradients, Window, attention, attention_backward, explain, statistics
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
from ._layer import MultiHeadAttention, MultiHeadGradients, MultiHeadResults
from ._library import info, set_threads, synchronise, threads, version as __version__
from ._model import Estimate, Examples, HeadImportance, HeadTable, Model, PruneCurve, PruneStep, SurveyedHead, load
from ._page import Page
from ._statistics import HeadStatistics

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
    "OutOfMemoryError",
    "Page",
    "PruneCurve",
    "PruneStep",
    "ShapeError",
    "SurveyedHead",
    "UnsupportedError",
    "Window",
    "attention",
    "attention_backward",
    "explain",
    "info",
    "load",
    "set_threads",
    "statistics",
    "synchronise",
    "threads",
]
