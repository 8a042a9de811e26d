"""The package's types, and those of the calls that README.md and docs/ show, by mypy. Part of make parity.

Every block of Python in a document becomes a function; what it takes from elsewhere (`tokens`, `model`) may be of any type.
"""

import re
import subprocess
import symtable
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILTINS = set(dir(__builtins__))


def taken_from_elsewhere(block):
    """The names that it reads and does not make."""
    names = symtable.symtable(block, "block", "exec").get_symbols()
    return [name.get_name() for name in names if not (name.is_assigned() or name.is_imported()) and name.get_name() not in BUILTINS]


def functions_of(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    for n, block in enumerate(blocks):
        imports = {"np": "import numpy as np", "polyhead": "import polyhead", "torch": "import torch, polyhead.torch"}
        names = taken_from_elsewhere(block)
        lines = [imports[name] for name in names if name in imports] + [block]
        parameters = ", ".join(f"{name}: Any" for name in names if name not in imports)
        yield f"def {re.sub(r'[^a-z]', '_', page.stem.lower())}_{n}({parameters}) -> None:\n" + textwrap.indent("\n".join(lines), "    ")


def main():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    functions = [function for page in pages for function in functions_of(page)]
    assert len(functions) > 5, f"expected the blocks of the documents, found {len(functions)}"
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "documented.py")
        module.write_text("from typing import Any\n\n\n" + "\n\n".join(functions))
        checked = subprocess.run([sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", ROOT / "python/polyhead", module],
                                 cwd=ROOT)
        if checked.returncode:
            print(module.read_text())
    sys.exit(checked.returncode)


if __name__ == "__main__":
    main()
