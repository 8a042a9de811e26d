"""How results print, and how they show themselves in a notebook."""

import dataclasses
from typing import Any

from . import _figures
from ._statistics import HeadStatistics
from ._tensors import is_torch

ABSENT: Any = None  # what was not asked for; fields have the types of what is there when it was


@dataclasses.dataclass(repr=False)
class Summary:
    """Results that print as the types and shapes of what is there, and their statistics as a table."""

    def __repr__(self) -> str:
        shown = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self) if field.repr)
        there = ", ".join(f"{name} {_described(value)}" for name, value in shown if value is not None)
        return f"<polyhead.{type(self).__name__}: {there}>"

    def __str__(self) -> str:
        statistics = getattr(self, "statistics", None)
        return repr(self) if statistics is None else f"{self!r}\n{statistics}"


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"of {', '.join(value)}"
    sums = value.sums if isinstance(value, HeadStatistics) else value
    return f"{sums.dtype} {tuple(sums.shape)}".replace("torch.", "") if hasattr(sums, "shape") else str(sums)


def notebook_html(result: Any) -> str:
    """Of results with an output, and perhaps weights [B,heads,T,S] and statistics."""
    parts = [f"<p>output {tuple(result.output.shape)}</p>"]
    if result.statistics is not None:
        parts.append(result.statistics._repr_html_())
    if result.weights is not None and len(result.weights):
        first = result.weights[0]
        first = first.detach().float().cpu().numpy() if is_torch(first) else first
        heads = getattr(result, "chosen", None)
        parts.append(_figures.heat_maps(first, [f"head {n}" for n in (range(len(first)) if heads is None else heads)]))
    return "".join(parts)
