"""The code that pages of docs/ show, for the tests that run it."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks_of(page, section=""):
    """Every block of Python on the page, or in the section whose heading is this."""
    text = (DOCS / page).read_text()
    if section:
        text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)[1]
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
