"""Figures for notebooks: SVG that needs nothing else, readable on light and dark pages."""

import html
import math
import unicodedata
from typing import Optional, Sequence, Tuple

import numpy as np

_INK = "#4477aa"
_SHADES = 12
MOST_CELLS = 100_000


def visible(text):
    """With line ends, tabs and characters that hide or reorder others shown as such."""
    named = {"\n": "↵", "\t": "⇥"}
    return "".join(named.get(c) or (f"‹U+{ord(c):04X}›" if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" else c)
                   for c in str(text))


def _label(x, y, text, anchor="start", size=11, turned=False):
    turn = f' transform="rotate(-60 {x:g} {y:g})"' if turned else ""
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="currentColor"{turn}>'
            f"{html.escape(visible(text))}</text>")


def _svg(width, height, title, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" font-family="sans-serif"><title>{html.escape(visible(title))}</title>{"".join(parts)}</svg>')


def _cells(weights, left, top, size):
    """A path for each shade; the shade grows with the root of the weight, so that 0.01 is still visible."""
    shades = np.ceil(np.sqrt(np.clip(np.nan_to_num(weights), 0, 1)) * _SHADES - 0.5).astype(int)
    for shade in range(1, _SHADES + 1):
        rows, columns = np.nonzero(shades == shade)
        if len(rows):
            path = "".join(f"M{left + c * size:g} {top + r * size:g}h{size:g}v{size:g}h-{size:g}z" for r, c in zip(rows, columns))
            yield f'<path d="{path}" fill="{_INK}" fill-opacity="{shade / _SHADES:.2f}"/>'


def heat_maps(weights, names: Sequence[str], tokens: Optional[Sequence[str]] = None, title="Weights of heads") -> str:
    """Weights [heads, T, S] side by side: rows are queries, columns keys; tokens stand along the edges if they are given."""
    weights = np.asarray(weights, float)
    heads, queries, keys = weights.shape
    if weights.size > MOST_CELLS:
        return f"<p>{heads} heads of {queries} × {keys} weights: too many for a figure; choose heads= and rows=.</p>"
    size = max(2.0, min(12.0, 160 / max(queries, keys, 1)))
    labels = tokens if tokens is not None and size >= 8 else ()
    edge = 6 * max(len(visible(token)) for token in labels) + 8 if len(labels) else 0
    above = 18 + edge
    across, down = keys * size + 16 + edge, queries * size + above + 10
    columns = max(1, int(900 // across))
    parts = []
    for n, (head, name) in enumerate(zip(weights, names)):
        left, top = (n % columns) * across + edge, (n // columns) * down + above
        parts.append(_label(left, top - above + 12, name))
        parts.append(f'<rect x="{left:g}" y="{top:g}" width="{keys * size:g}" height="{queries * size:g}" fill="none" '
                     'stroke="currentColor" stroke-opacity="0.4"/>')
        parts += _cells(head, left, top, size)
        parts += [_label(left - 4, top + (r + 0.8) * size, token, "end", 9) for r, token in enumerate(labels[:queries])]
        parts += [_label(left + (c + 0.6) * size, top - 4, token, "start", 9, True) for c, token in enumerate(labels[:keys])]
    return _svg(min(columns, heads) * across, -(-heads // columns) * down, title, parts)


def curve(values: Sequence[float], label: str, marked: Optional[int] = None, mark="") -> str:
    """Numbers from 0 to 1 as points on a line; a vertical line at one of them."""
    width, height, left, top = 420.0, 180.0, 40.0, 14.0
    x = lambda n: left + n * (width - left - 16) / max(len(values) - 1, 1)  # noqa: E731
    y = lambda value: top + (1 - min(max(value, 0), 1)) * (height - top - 34)  # noqa: E731
    parts = []
    for tick in (0, 0.5, 1):
        parts.append(f'<path d="M{left:g} {y(tick):g}H{width - 16:g}" stroke="currentColor" stroke-opacity="0.2"/>')
        parts.append(_label(left - 6, y(tick) + 4, f"{tick:g}", "end"))
    if marked is not None:
        parts.append(f'<path d="M{x(marked):g} {top:g}V{y(0):g}" stroke="currentColor" stroke-dasharray="3 3"/>')
        parts.append(_label(x(marked) + 4, top + 8, mark))
    points = " ".join(f"{x(n):g},{y(value):g}" for n, value in enumerate(values))
    parts.append(f'<polyline points="{points}" fill="none" stroke="{_INK}" stroke-width="2"/>')
    parts += [f'<circle cx="{x(n):g}" cy="{y(value):g}" r="3" fill="{_INK}"><title>{n}: {value:.3f}</title></circle>'
              for n, value in enumerate(values)]
    parts.append(_label(left, height - 6, label))
    return _svg(width, height, label, parts)


class Bar(str):
    """The text of a cell with a bar behind it, as long as its share of 1."""

    share: float

    def __new__(cls, text: str, share: float):
        made = super().__new__(cls, text)
        made.share = min(max(float(share), 0.0), 1.0) if math.isfinite(share) else 0.0
        return made


def bars(values: Sequence[float], digits: int = 3, most: Optional[float] = None) -> Tuple[Bar, ...]:
    """A column of numbers with bars, as shares of `most`: 1, or the largest of them."""
    longest = max((value for value in values if math.isfinite(value)), default=0) if most is None else most
    return tuple(Bar(f"{value:.{digits}f}", value / longest if longest > 0 else 0) for value in values)


def _cell(kind: str, text: str) -> str:
    style = ""
    if isinstance(text, Bar):
        end = f"{100 * text.share:.1f}%"
        style = f' style="background:linear-gradient(to right,{_INK}55 {end},transparent {end})"'
    return f"<{kind}{style}>{html.escape(visible(text))}</{kind}>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """HTML; the first column names the rows."""
    head = "".join(_cell("th", name) for name in columns)
    body = "".join(f"<tr>{_cell('th', row[0])}{''.join(_cell('td', text) for text in row[1:])}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
