"""What is said about the heads of a model."""

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _figures

Head = Tuple[int, int]


class Estimate(NamedTuple):
    """A mean over sequences with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass
class SurveyedHead:
    """What a head does."""

    layer: int
    head: int
    role: Optional[str]  # "induction", "previous token" ...; None if no detector beats its control
    role_score: float
    sums: Dict[str, float]  # statistics over all rows, by name


@dataclass
class HeadImportance:
    """How much a model depends on a head."""

    layer: int
    head: int
    gradient: float  # mean over sequences of |d loss / d gate|
    normalised: float  # divided by the l2 norm of its layer's
    zero: Estimate  # how much the loss rises with its output set to 0
    mean: Estimate  # or to its mean over all tokens
    accuracy_loss: float
    logit: Estimate  # what it adds to the logit of the right answer


class PatchedHead(NamedTuple):
    """A head of the run on one text that was made to give its output of the run on another."""

    layer: int
    head: int
    difference: float  # of the logits of answer and instead
    restored: float  # share of the way from the corrupted run to the clean one: 0 none, 1 all of it


@dataclass
class Patching:
    """Which heads carry the difference between two texts."""

    answer: int  # the tokens whose logits are compared
    instead: int
    clean: float  # the logit of answer minus that of instead, after each text
    corrupted: float
    heads: List[PatchedHead]

    def _rows(self):
        ranked = sorted(self.heads, key=lambda head: -abs(head.restored))
        return [[f"{head.layer}.{head.head}", f"{head.difference:.4f}", f"{head.restored:.1%}"] for head in ranked]

    def __str__(self) -> str:
        return f"clean {self.clean:.4f}, corrupted {self.corrupted:.4f}\n\n" + _table(self._rows(), _PATCH_COLUMNS)

    def _repr_html_(self) -> str:
        return _figures.table(_PATCH_COLUMNS, self._rows())


_PATCH_COLUMNS = ["head", "difference", "restored"]


class PruneStep(NamedTuple):
    """A head that was removed, and the scores of the model without it and all before it."""

    head: Head
    loss: float
    accuracy: float


@dataclass
class PruneCurve:
    """Heads that were knocked out one after the other."""

    loss: float  # of the whole model
    accuracy: float
    steps: List[PruneStep]
    within_budget: int  # how many of the first steps may be taken

    @property
    def removed(self) -> List[Head]:
        """The heads of the steps within the budget."""
        return [step.head for step in self.steps[: self.within_budget]]

    def _rows(self):
        return [["none", f"{self.loss:.4f}", f"{self.accuracy:.4f}", "yes"]] + [
            [f"{step.head[0]}.{step.head[1]}", f"{step.loss:.4f}", f"{step.accuracy:.4f}", "yes" if n < self.within_budget else "no"]
            for n, step in enumerate(self.steps)]

    def __str__(self) -> str:
        return _table(self._rows(), _STEP_COLUMNS)

    def _repr_html_(self) -> str:
        accuracies = [self.accuracy] + [step.accuracy for step in self.steps]
        figure = _figures.curve(accuracies, "accuracy by heads removed", self.within_budget, "the budget ends")
        return figure + _figures.table(_STEP_COLUMNS, self._rows())


_STEP_COLUMNS = ["removed", "loss", "accuracy", "within budget"]


def _table(rows, columns):
    lines = [columns] + rows
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines)


class HeadTable(List[Any]):
    """A list of SurveyedHead or HeadImportance that prints as a table, in a notebook with bars."""

    def _columns(self) -> Tuple[List[str], List[Sequence[str]]]:
        names = [f"{h.layer}.{h.head}" for h in self]
        if self and isinstance(self[0], HeadImportance):  # bars beside the largest of each column
            columns = [_figures.bars(values, 4) for values in zip(
                *((h.gradient, h.zero.mean, h.mean.mean, h.logit.mean) for h in self))]
            return ["head", "gradient", "damage (zero)", "damage (mean)", "logit"], list(zip(names, *columns))
        rows = [h.sums["rows"] or 1 for h in self]
        scores = [bar if h.role else "" for h, bar in zip(self, _figures.bars([h.role_score for h in self], most=1))]
        entropies = [f"{h.sums['entropy'] / n:.3f}" for h, n in zip(self, rows)]
        firsts = _figures.bars([h.sums["first_weight"] / n for h, n in zip(self, rows)], most=1)
        return ["head", "role", "score", "entropy", "first"], list(zip(names, (h.role or "" for h in self), scores, entropies, firsts))

    def __str__(self) -> str:
        columns, rows = self._columns()
        return _table(rows, columns)

    def _repr_html_(self) -> str:
        return _figures.table(*self._columns())
