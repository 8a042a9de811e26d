"""What heads did: sums and counts, read as means."""

import html
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from . import _figures
from ._errors import ShapeError
from ._library import statistic_names
from ._tensors import is_torch

_INDEX = {name: n for n, name in enumerate(statistic_names)}


def _count_of(name: str) -> str:
    """The count by which a sum becomes a mean: of the rows that its name is about, or of all."""
    own = name.rpartition("_")[0] + "_rows"
    return own if own in _INDEX else "rows"


_COUNTS = {name: _count_of(name) for name in statistic_names
           if name != "max_logit" and not name.endswith("rows") and not name.startswith("target_")}
_SHOWN = ("entropy", "normalised_entropy", "max_weight", "first_weight", "self_weight", "previous_weight", "max_logit")


class HeadStatistics:
    """Statistics of every head, as sums and counts, so that chunks and batches add up exactly.

    sums  [B,H,fields], or [B,H,T,fields] by row, in the order of HeadStatistics.names

    A field's name gives the mean over all sequences, [H] (of rows: [B,H,T]): entropy (nats), max_weight and the others that
    fields() lists; max_logit is the maximum, target_weight is [H,4]. docs/semantics.md says what they are.

    >>> import numpy as np, polyhead
    >>> x = np.zeros((1, 1, 4, 2), np.float32)
    >>> print(polyhead.statistics(x, x))
    head  entropy  normalised_entropy  max_weight  first_weight  self_weight  previous_weight  max_logit
    0       1.386               1.000       0.250         0.250        0.250            0.250      0.000
    """

    names: Tuple[str, ...] = statistic_names

    def __init__(self, sums: Any):
        self.sums = sums

    def __add__(self, other: "HeadStatistics") -> "HeadStatistics":
        """With the rows of another batch or chunk."""
        if not isinstance(other, HeadStatistics):
            return NotImplemented
        mine, more = self._array(), other._array()
        if mine.shape != more.shape:
            raise ShapeError(f"HeadStatistics: expected the same shape to add, found {mine.shape} and {more.shape}")
        total = mine.astype(np.float64) + more
        highest = _INDEX["max_logit"]
        total[..., highest] = np.maximum(mine[..., highest], more[..., highest])
        return HeadStatistics(total)

    def _array(self) -> np.ndarray:
        return self.sums.detach().cpu().numpy() if is_torch(self.sums) else np.asarray(self.sums)

    def _totals(self) -> np.ndarray:
        """[H,fields] in double, over sequences; rows stay apart."""
        sums = self._array().astype(np.float64)
        if sums.ndim == 4:
            return sums
        totals = sums.sum(0)
        highest = _INDEX["max_logit"]
        totals[:, highest] = sums[:, :, highest].max(0, initial=-np.inf)
        return totals

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name == "sums":  # not there yet, as while it is unpickled
            raise AttributeError(name)
        if name == "target_weight" and self.sums.shape[-1] > _INDEX["target_0_rows"]:
            return self._targets()
        if name not in _INDEX or name not in _COUNTS and name != "max_logit" and not name.endswith("rows"):
            raise AttributeError(f"HeadStatistics has no field '{name}'; it has {', '.join(self.fields())}")
        if _INDEX[name] >= self.sums.shape[-1]:
            raise AttributeError(f"'{name}' is in the full set of statistics, and these are of the light set")
        totals = self._totals()
        values = totals[..., _INDEX[name]]
        if name not in _COUNTS:
            return values
        counts = totals[..., _INDEX[_COUNTS[name]]]
        return np.divide(values, counts, out=np.zeros_like(values), where=counts != 0)

    def _targets(self) -> np.ndarray:
        totals = self._totals()
        counts, values = (totals[..., _INDEX[name] : _INDEX[name] + 4] for name in ("target_0_rows", "target_0_weight"))
        return np.divide(values, counts, out=np.zeros_like(values), where=counts != 0)

    def fields(self) -> List[str]:
        """The names that can be read."""
        known = [name for name in (*_COUNTS, "max_logit") if _INDEX[name] < self.sums.shape[-1]]
        return known + (["target_weight"] if self.sums.shape[-1] > _INDEX["target_0_rows"] else [])

    def table(self) -> Dict[str, np.ndarray]:
        """Means by field and head, for pandas.DataFrame and the like."""
        return {name: getattr(self, name) for name in self.fields() if name != "target_weight"}

    def _rows(self) -> Optional[List[Tuple[str, ...]]]:
        """A row for each head, with bars where a number is a share of 1; None if these are the statistics of rows."""
        if self.sums.ndim == 4:
            return None
        shares = lambda name: name.endswith("weight") or name == "normalised_entropy"  # noqa: E731
        columns = [_figures.bars(values, most=1) if shares(name) else [f"{value:.3f}" for value in values]
                   for name, values in ((name, getattr(self, name)) for name in _SHOWN)]
        return [(str(head), *row) for head, row in enumerate(zip(*columns))]

    def __str__(self) -> str:
        rows = self._rows()
        if rows is None:
            return f"HeadStatistics of every row, sums {tuple(self.sums.shape)}"
        lines = [("head", *_SHOWN), *rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
        return "\n".join(
            "  ".join(text.ljust(width) if n == 0 else text.rjust(width) for n, (text, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines
        )

    def __repr__(self) -> str:
        return f"HeadStatistics(sums={tuple(self.sums.shape)}: {', '.join(self.fields())})"

    def _repr_html_(self) -> str:
        """A table whose bars show first, previous and the rest at a glance."""
        rows = self._rows()
        if rows is None:
            return html.escape(str(self))
        return _figures.table(["head", *(name.replace("_", " ") for name in _SHOWN)], rows)
