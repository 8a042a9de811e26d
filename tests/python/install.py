"""What a new user does: `pip install .` in a clean virtual environment, then the README's Python block, the command by its two
names, and the notebook in a folder of its own. And the wheel of `make wheel` has the one tag it should have, is small, and does
the same.

    python3 tests/python/install.py BUILD

builds once for each, without the kernels for GPUs, in the folder BUILD, which the next time saves most of the minutes. Part of
make check.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = "cp310-abi3-manylinux_2_27_x86_64.manylinux_2_28_x86_64"
MOST_BYTES = 40_000_000


def environment(folder, *to_install):
    """Its Python, with those packages. All are made by one Python: another may name another compiler, and all is built anew."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", *to_install], cwd=ROOT, check=True)
    return folder / "bin/python"


def printed(folder, *words):
    """Elsewhere, where the checkout's package cannot be found."""
    around = {**os.environ, "PATH": "/usr/bin:/bin", "POLYHEAD_CACHE": str(ROOT / "models")}
    return subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, env=around).stdout


def try_all(python, folder):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    printed(folder, python.parent / "polyhead", "get", "smollm2")
    shown = "".join(printed(folder, python, "-c", block) for block in blocks)
    assert "entropy" in shown and len(shown.splitlines()) > 20, f"expected two tables and a text, found\n{shown}"
    where, version = printed(folder, python, "-c", "import polyhead; print(polyhead.__file__, polyhead.__version__)").split()
    assert str(folder) in where, f"expected the package of {folder}, found {where}"
    for words in ([python.parent / "polyhead"], [python, "-m", "polyhead"]):
        found = printed(folder, *words, "--version")
        assert found == f"polyhead {version}\n", f"{words}: expected the version of the package, {version}, found {found}"
    book = json.loads((ROOT / "examples/heads.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    own = folder / f"notebook-{python.parents[1].name}"
    own.mkdir()
    found = printed(own, python, "-c", "\n".join(cells) + "\nprint(type(model).__name__)")
    assert found.endswith("Model\n") and (own / "run").is_dir(), f"expected that the notebook trains its model, found\n{found}"


def main():
    build = Path(sys.argv[1]).resolve()
    without_cuda = "--config-settings=cmake.define.POLYHEAD_CUDA=OFF"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        try_all(environment(folder / "source", f"--config-settings=build-dir={build / 'source'}", without_cuda, "."), folder)
        print("pip install .: the README's example, the command and the notebook run")
        subprocess.run(["make", "wheel", f"WHEEL_SETTINGS=--config-settings=build-dir={build / 'wheel'}"], cwd=ROOT, check=True)
        (wheel,) = (ROOT / "build/wheel").iterdir()
        assert wheel.name.endswith(f"-{TAG}.whl"), f"expected a wheel for {TAG}, found {wheel.name}"
        assert wheel.stat().st_size <= MOST_BYTES, f"expected at most {MOST_BYTES} bytes, found {wheel.stat().st_size}"
        try_all(environment(folder / "wheel", wheel), folder)
        print(f"make wheel: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB; the same runs")


if __name__ == "__main__":
    main()
