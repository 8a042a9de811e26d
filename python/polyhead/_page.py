"""The page of a model's heads, one HTML file that needs nothing else; docs/page.md says what it reads."""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path
from typing import Any, Dict, List

import numpy as np

from ._errors import InputError
from ._figures import visible
from ._library import viewer_folder

_STATISTICS = (  # as `polyhead study` names them: name, sum, count
    ("entropy (nats)", "entropy", "rows"),
    ("entropy, relative", "normalised_entropy", "normalised_rows"),
    ("largest weight", "max_weight", "rows"),
    ("on the first key", "first_weight", "rows"),
    ("on itself", "self_weight", "self_rows"),
    ("on the key before", "previous_weight", "previous_rows"),
    ("mean distance", "distance", "rows"),
)


class Page:
    """Shows itself in a notebook; `html` is the file, save() writes it."""

    def __init__(self, text: str):
        self.html = text

    def save(self, path: Any) -> None:
        """Writes the page, which opens in any browser, offline."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self):
        return f"<polyhead.Page of {len(self.html):,} characters: save() it, or show it in a notebook>"

    def _repr_html_(self):
        # A frame of its own, which can neither reach the notebook nor be styled by it. With srcdoc instead, the address of the page
        # would be the notebook's, and the page could not keep its state there.
        data = base64.b64encode(self.html.encode()).decode()
        return (f'<iframe src="data:text/html;charset=utf-8;base64,{data}" sandbox="allow-scripts" title="Heads of the model" '
                'style="width:100%;height:640px;border:1px solid #8888"></iframe>')


def head_data(surveyed, important=None) -> Dict[str, Any]:
    """A head as the page reads it, from its SurveyedHead and perhaps HeadImportance."""
    sums = surveyed.sums
    made: Dict[str, Any] = {"layer": surveyed.layer, "head": surveyed.head, "kept": True}
    if surveyed.role:
        made.update(role=surveyed.role, score=surveyed.role_score)
    made["statistics"] = {name: sums[value] / sums[count] if sums[count] else None for name, value, count in _STATISTICS}
    if important is not None:
        made.update(importance=important.gradient, damage=important.zero.mean, damage_low=important.zero.low,
                    damage_high=important.zero.high)
    return {name: value for name, value in made.items() if not isinstance(value, float) or math.isfinite(value)}


def sample_data(name: str, words: List[str], heads, weights) -> Dict[str, Any]:
    """weights [heads, T, T]: a byte holds the root of each."""
    bytes_ = np.rint(255 * np.sqrt(np.clip(np.nan_to_num(weights), 0, 1))).astype(np.uint8)
    return {"name": name, "tokens": [visible(word) for word in words], "heads": [list(head) for head in heads],
            "weights": base64.b64encode(bytes_.tobytes()).decode()}


def page(title: str, lead: str, about: Dict[str, str], models: List[Dict[str, Any]]) -> Page:
    sources = {}
    for name in ("page.html", "page.css", "page.js"):
        try:
            sources[name] = (viewer_folder() / name).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"the page's sources: expected {name} in {viewer_folder()}, beside the library; {error}") from error
    digest = lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()  # noqa: E731
    data = {"schema": 1, "title": visible(title), "lead": visible(lead), "about": about, "findings": [], "figures": [], "tables": [],
            "models": models}
    parts = {
        "title": html.escape(visible(title)),
        "style": sources["page.css"],
        "script": sources["page.js"],
        "policy": f"default-src 'none'; script-src 'sha256-{digest(sources['page.js'])}'; style-src "
                  f"'sha256-{digest(sources['page.css'])}'; img-src data:; base-uri 'none'; form-action 'none'",
        # These characters occur in strings only, where escapes may stand for them: no token can close the script element.
        "data": json.dumps(data, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    }
    # What is left, figures and what a live page has besides, stays empty.
    return Page(re.sub(r"\{\{(\w+)\}\}", lambda found: parts.get(found[1], ""), sources["page.html"]))
